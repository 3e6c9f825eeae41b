"""What learners write instead of ``solutions/ring_attention.py``, by topic. Floor: course."""

from flashlab.exercises.mistakes.ring_attention.backward import BACKWARD
from flashlab.exercises.mistakes.ring_attention.kept import KEPT
from flashlab.exercises.mistakes.ring_attention.merge import MERGE
from flashlab.exercises.mistakes.ring_attention.rounds import ROUNDS
from flashlab.exercises.mistakes.ring_attention.visible import VISIBLE

MISTAKES = ROUNDS + VISIBLE + MERGE + KEPT + BACKWARD
