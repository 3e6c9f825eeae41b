"""What learners write instead of ``solutions/flash_forward.py``, by topic. Floor: course."""

from flashlab.exercises.mistakes.flash_forward.given import GIVEN
from flashlab.exercises.mistakes.flash_forward.masks import MASKS
from flashlab.exercises.mistakes.flash_forward.output import OUTPUT
from flashlab.exercises.mistakes.flash_forward.scores import SCORES
from flashlab.exercises.mistakes.flash_forward.softmax import SOFTMAX

MISTAKES = SCORES + MASKS + SOFTMAX + OUTPUT + GIVEN
