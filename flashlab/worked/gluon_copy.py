"""The smallest Gluon kernel with TMA and a barrier: it copies rows. For Hopper (sm_90)."""

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from flashlab.worked.flash3_prepare import tma_load, tma_store

ROWS = gl.constexpr(32)


@gluon.jit
def copy_kernel(x_desc, y_desc, WAIT: gl.constexpr):
    box = gl.allocate_shared_memory(x_desc.dtype, x_desc.block_type.shape, x_desc.layout)
    landed = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(landed, count=1)
    row = gl.program_id(0) * ROWS
    mbarrier.expect(landed, x_desc.block_type.nbytes)  # one arrival, and so many bytes to come
    tma_load(x_desc, [row, 0], landed, box)  # starts; the bytes arrive at the barrier
    if WAIT:
        mbarrier.wait(landed, 0)  # until phase 0 is complete
    tma_store(y_desc, [row, 0], box)
    tma.store_wait(0)


def copy_rows(x: torch.Tensor, WAIT: bool = True) -> torch.Tensor:
    """A copy of x [N, 64], fp16; ``WAIT=False`` does not wait for what it loads."""
    y = torch.empty_like(x)
    layout = gl.NVMMASharedLayout.get_default_for([ROWS.value, 64], gl.float16)
    x_desc, y_desc = (TensorDescriptor.from_tensor(t, [ROWS.value, 64], layout) for t in (x, y))
    copy_kernel[(triton.cdiv(len(x), ROWS.value),)](x_desc, y_desc, WAIT)
    return y
