"""Gluon kernels for Hopper on the CPU: what TMA, barriers, products and roles do, not how fast.

Gluon has no interpreter. Here each role of a warp-specialised kernel runs as a generator, one at
a time and in the worst order: copies and products end as late as the program allows, so
that a missing wait is seen. Layouts, registers and speed are for compiler and GPU to judge.
"""

from flashlab.iocount.gluon.launch import run

__all__ = ["run"]
