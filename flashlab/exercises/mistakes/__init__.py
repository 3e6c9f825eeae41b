"""Banks of mistakes; a student bundle leaves this folder out. Floor: course."""
