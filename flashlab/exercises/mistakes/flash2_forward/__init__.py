"""What learners write instead of ``solutions/flash2_forward.py``, by topic. Floor: course."""

from flashlab.exercises.mistakes.flash2_forward.given import GIVEN
from flashlab.exercises.mistakes.flash2_forward.output import OUTPUT
from flashlab.exercises.mistakes.flash2_forward.tiles import HEADS, TILES
from flashlab.exercises.mistakes.flash2_forward.weights import WEIGHTS

MISTAKES = WEIGHTS + OUTPUT + TILES + HEADS + GIVEN
