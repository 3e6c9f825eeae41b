"""Closed forms: the bytes that attention's algorithms move between memory and chip. Floor: core.

Each form is the traffic of one way to tile the work, exact to the byte with ragged edges (a masked
lane moves nothing), as ``{tensor: (loaded, stored)}``: what ``Tally.by_tensor`` gives. ``theta``
has the terms of the theorems, in elements. Nothing runs here, and caches are not modelled.

Sizes: B batches, H query heads and H_kv key heads of N_q queries, N_k keys and head dimension D;
tiles of block_m queries and block_n keys; itemsize is the bytes of one input or output element.
Statistics (lse, m, l, delta) are fp32. Causal masks are aligned bottom-right. Without any query,
key or head nothing is launched and every entry is 0.
"""

from flashlab.iocount.bounds.backward import (
    backward_bytes,
    backward_delta_bytes,
    backward_dkdv_bytes,
    backward_dq_bytes,
    standard_backward_bytes,
)
from flashlab.iocount.bounds.decode import split_kv_bytes
from flashlab.iocount.bounds.forward import (
    block_sparse_forward_bytes,
    flash1_forward_bytes,
    flash_forward_bytes,
    standard_forward_bytes,
)
from flashlab.iocount.bounds.theorems import fa1_blocks, theta
from flashlab.iocount.bounds.traffic import (
    Traffic,
    keys_met,
    merge,
    moved_bytes,
    queries_met,
    total_bytes,
)

__all__ = [
    "Traffic",
    "backward_bytes",
    "backward_delta_bytes",
    "backward_dkdv_bytes",
    "backward_dq_bytes",
    "block_sparse_forward_bytes",
    "fa1_blocks",
    "flash1_forward_bytes",
    "flash_forward_bytes",
    "keys_met",
    "merge",
    "moved_bytes",
    "queries_met",
    "split_kv_bytes",
    "standard_backward_bytes",
    "standard_forward_bytes",
    "theta",
    "total_bytes",
]
