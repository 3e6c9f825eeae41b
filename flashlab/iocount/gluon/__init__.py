"""Gluon kernels for Hopper on the CPU: what TMA, barriers, products and roles do, not how fast.

Gluon has no interpreter. Here each role of a warp-specialised kernel runs as a generator, one at
a time and in the worst order: copies and products end as late as the program allows. What a role
knows to be done, by barriers and waits, is kept beside it: a use of shared memory that is not
known to follow the last one is a race, though it went well in the order that was run.

Modelled: mbarriers with counts, parities and TMA's bytes (which may come before they are
expected); TMA loads (0 beyond a tensor), stores and adds; products that end at their wait, whose
result is no tile until that wait returns it; the fence between registers' stores and TMA or
products; shared memory's size; roles, and what the first one returns.

Not modelled: layouts, registers, numbers of warps and speed, which compiler and GPU judge;
swizzling and alignment of TMA; 32-bit overflow of integers; rounding inside a product (fp32
here); multicast, clusters and Blackwell; store_wait(read_only=False), so what another program
reads of a TMA store; races of two roles of one program for global memory; the fence after a read
by registers and before TMA writes. Names that are not known here raise ``Unknown``: a report then
says that nothing was marked. ``@aggregate`` classes, scans, gathers, ``split`` and ``join`` and
descriptors made in a kernel are among them.
"""

from flashlab.iocount.gluon.launch import run

__all__ = ["run"]
