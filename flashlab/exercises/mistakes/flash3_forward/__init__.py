"""What learners write instead of ``solutions/flash3_forward.py``. Floor: course."""

from flashlab.exercises.mistakes.flash3_forward.consumers import CONSUMERS
from flashlab.exercises.mistakes.flash3_forward.grid import GRID
from flashlab.exercises.mistakes.flash3_forward.overlap import OVERLAP
from flashlab.exercises.mistakes.flash3_forward.ring import RING

MISTAKES = (*RING, *CONSUMERS, *OVERLAP, *GRID)
