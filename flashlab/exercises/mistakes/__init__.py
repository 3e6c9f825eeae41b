"""Banks of mistakes, one file an exercise; a student bundle leaves this folder out. Floor: course."""
