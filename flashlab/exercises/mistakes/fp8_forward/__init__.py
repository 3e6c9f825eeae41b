"""What learners write instead of ``solutions/fp8_forward.py``, by topic. Floor: course."""

from flashlab.exercises.mistakes.fp8_forward.output import FINISH, GIVEN
from flashlab.exercises.mistakes.fp8_forward.scores import SCORES
from flashlab.exercises.mistakes.fp8_forward.weights import PRODUCT, WEIGHTS

MISTAKES = SCORES + WEIGHTS + PRODUCT + FINISH + GIVEN
