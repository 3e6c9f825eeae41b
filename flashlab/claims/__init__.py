"""What is said of FlashAttention, and where the course shows it. Floor: course.

One file a chapter, ``chNN.py`` with ``CLAIMS``; a chapter that has one is held to it: a cell with
the tag ``claim:<id>`` shows each claim, and the numbers in its output agree with ``values``.
"""

from flashlab.claims.claim import Claim, Value
from flashlab.claims.shown import faults
from flashlab.claims.table import chapters, every, of

__all__ = ["Claim", "Value", "chapters", "every", "faults", "of"]
