"""A course for a class: nbgrader folders, bundles for students, marks. Floor: front."""
