"""A Hopper matmul in Gluon (TMA, mbarrier, wgmma), compiled by the tests; read as text."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

tma_load = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared  # renamed in 3.9
tma_store = getattr(tma, "async_store", None) or tma.async_copy_shared_to_global


@gluon.jit
def matmul_kernel(a_desc, b_desc, c_desc, K, B: gl.constexpr, MMA: gl.constexpr):
    a = gl.allocate_shared_memory(a_desc.dtype, [B, B], a_desc.layout)
    b = gl.allocate_shared_memory(b_desc.dtype, [B, B], b_desc.layout)
    bar = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(bar, count=1)
    acc = gl.zeros([B, B], gl.float32, MMA)
    phase = 0
    for k in range(0, K, B):
        mbarrier.expect(bar, a_desc.block_type.nbytes + b_desc.block_type.nbytes)
        tma_load(a_desc, [0, k], bar, a)
        tma_load(b_desc, [k, 0], bar, b)
        mbarrier.wait(bar, phase)
        phase ^= 1
        acc = warpgroup_mma(a, b, acc)
    c = gl.allocate_shared_memory(c_desc.dtype, [B, B], c_desc.layout)
    c.store(acc.to(c_desc.dtype))
    fence_async_shared()
    tma_store(c_desc, [0, 0], c)
    tma.store_wait(0)


def matmul(x):
    layout = gl.NVMMASharedLayout.get_default_for([64, 64], gl.float16)
    d = TensorDescriptor.from_tensor(x, [64, 64], layout)
    mma = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, 64, 16])
    matmul_kernel[(1,)](d, d, d, 64, 64, mma, num_warps=4)
