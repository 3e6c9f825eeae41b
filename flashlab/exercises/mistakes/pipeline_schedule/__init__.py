"""What learners write instead of ``solutions/pipeline_schedule.py``, by topic. Floor: course."""

from flashlab.exercises.mistakes.pipeline_schedule.consumer import CONSUMER
from flashlab.exercises.mistakes.pipeline_schedule.producer import PRODUCER
from flashlab.exercises.mistakes.pipeline_schedule.turns import TURNS

MISTAKES = PRODUCER + CONSUMER + TURNS
