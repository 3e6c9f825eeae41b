"""TMA's addition into global memory for Gluon: public from Triton 3.9 on, built here before that.

It stands here because the older versions have it only in their private builder.
"""

from triton._C.libtriton import ir
from triton.experimental.gluon.language._core import builtin
from triton.experimental.gluon.language.nvidia.hopper import tma

if hasattr(tma, "async_atomic_add"):
    tma_add = tma.async_atomic_add
else:

    @builtin
    def tma_add(tensor_desc, coord, src, _semantic=None):
        """Start to add a tile of shared memory to global memory; ``tma.store_wait`` waits.

        Args:
            tensor_desc: Descriptor of the destination, whose block is the tile.
            coord: Where the tile's first element goes, one number a dimension.
            src: The tile in shared memory, in the descriptor's layout.
        """
        where = _semantic._convert_to_ir_values(coord, require_i64=False)
        _semantic.builder.create_async_tma_reduce(
            ir.DESCRIPTOR_REDUCE_KIND.ADD, tensor_desc.handle, where, src.handle
        )
