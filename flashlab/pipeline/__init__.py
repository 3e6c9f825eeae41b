"""A Hopper SM as a discrete-event model: programs, barriers, units, time in clocks. Floor: core.

A warpgroup's program is a Python generator that yields one operation after another; ``simulate``
runs a producer and some consumers against each other, finds what is not safe, and keeps who did
what when. The numbers of a machine come from outside: ``hopper`` makes them from data sheets.
Runs beside learners' code: everything but ``hopper`` imports the standard library alone.
"""

from flashlab.pipeline.errors import PipelineError
from flashlab.pipeline.machine import Machine
from flashlab.pipeline.simulate import simulate
from flashlab.pipeline.sm import SM
from flashlab.pipeline.timeline import Span, Timeline

__all__ = ["SM", "Machine", "PipelineError", "Span", "Timeline", "simulate"]
