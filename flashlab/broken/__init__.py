"""Debug this kernel: eight broken kernels of the bank, to be named and mended. Floor: course.

``deal`` draws a set and puts its files into the workspace; a ``Set`` shows, names, checks, marks.
"""

from flashlab.broken.bank import COUNT, Puzzle, draw
from flashlab.broken.desk import Set, deal, newest

__all__ = ["COUNT", "Puzzle", "Set", "deal", "draw", "newest"]
