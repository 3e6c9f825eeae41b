"""The backward pass in Gluon with roles: a producer warp loads, two warpgroups compute.

A program owns 128 keys, 64 for each consumer, whose tile is still ``one_tile`` of
``flash3_backward_in_order``. The second of the steps that lead to ``flash3_backward``.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier

from flashlab.worked.flash3_backward_in_order import one_tile, store_rows
from flashlab.worked.flash3_prepare import barriers, gradients, query_blocks, tma_load

ROWS = gl.constexpr(64)  # keys of a warpgroup
BLOCK_N = gl.constexpr(128)  # keys of a program
STAGES = gl.constexpr(2)  # slots for tiles of q and do
LN2 = gl.constexpr(0.6931471805599453)


@gluon.jit
def producer(ctx, BLOCK_M: gl.constexpr, CAUSAL: gl.constexpr):
    descs, ptrs, sizes, scale, bufs, bars = ctx
    q_desc, do_desc, k_desc, v_desc, dk_desc, dv_desc = descs
    H, group, N_q, N_k = sizes
    q_bufs, do_bufs, k_buf, v_buf, ds_bufs = bufs
    kv_full, full, empty = bars
    start = gl.program_id(0) * BLOCK_N
    h_kv = gl.program_id(1)
    b = gl.program_id(2)
    first, unmasked, n_blocks = query_blocks(start, BLOCK_N, N_q, N_k, BLOCK_M, CAUSAL)
    mbarrier.expect(kv_full.index(0), k_desc.block_type.nbytes + v_desc.block_type.nbytes)
    tma_load(k_desc, [b, h_kv, start, 0], kv_full.index(0), k_buf)
    tma_load(v_desc, [b, h_kv, start, 0], kv_full.index(0), v_buf)
    i = 0  # tiles so far: gives the slot and the phase
    for g in range(group):
        h = h_kv * group + g
        for m in range(first, n_blocks):
            slot = i % STAGES
            mbarrier.wait(empty.index(slot), (i // STAGES & 1) ^ 1)
            mbarrier.expect(full.index(slot), q_desc.block_type.nbytes + do_desc.block_type.nbytes)
            tma_load(q_desc, [b, h, m * BLOCK_M, 0], full.index(slot), q_bufs.index(slot))
            tma_load(do_desc, [b, h, m * BLOCK_M, 0], full.index(slot), do_bufs.index(slot))
            i += 1


@gluon.jit
def consumer(
    ctx, BLOCK_M: gl.constexpr, D: gl.constexpr, CAUSAL: gl.constexpr, RAGGED: gl.constexpr,
    W: gl.constexpr,
):  # fmt: skip
    descs, ptrs, sizes, scale, bufs, bars = ctx
    q_desc, do_desc, k_desc, v_desc, dk_desc, dv_desc = descs
    H, group, N_q, N_k = sizes
    q_bufs, do_bufs, k_buf, v_buf, ds_bufs = bufs
    kv_full, full, empty = bars
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    start = gl.program_id(0) * BLOCK_N
    h_kv = gl.program_id(1)
    b = gl.program_id(2)
    first, unmasked, n_blocks = query_blocks(start, BLOCK_N, N_q, N_k, BLOCK_M, CAUSAL)
    start += W * ROWS  # my keys
    k = k_buf.reshape([BLOCK_N, D]).slice(W * ROWS, ROWS, dim=0)
    v = v_buf.reshape([BLOCK_N, D]).slice(W * ROWS, ROWS, dim=0)
    dk = gl.zeros([ROWS, D], gl.float32, LAYOUT)
    dv = gl.zeros([ROWS, D], gl.float32, LAYOUT)
    mbarrier.wait(kv_full.index(0), 0)
    i = 0
    for g in range(group):
        for m in range(first, n_blocks):
            slot = i % STAGES
            mbarrier.wait(full.index(slot), i // STAGES & 1)
            q = q_bufs.index(slot).reshape([BLOCK_M, D])
            do = do_bufs.index(slot).reshape([BLOCK_M, D])
            masked = False
            if CAUSAL or RAGGED:
                masked = m < unmasked
            dk, dv = one_tile(
                dk, dv, k, v, q, do, ds_bufs.index(W), masked, start,
                b * H + h_kv * group + g, m, ptrs, sizes, scale, BLOCK_M, D, CAUSAL,
            )  # fmt: skip
            mbarrier.arrive(empty.index(slot), count=1)
            i += 1
    mine = v_buf.slice(W * ROWS, ROWS, dim=2)  # v's rows once more, as TMA wants them
    store_rows(dv, v, mine, dv_desc, b, h_kv, start)
    store_rows(dk * (scale * LN2), v, mine, dk_desc, b, h_kv, start)


@gluon.jit
def roles_kernel(
    q_desc, do_desc, k_desc, v_desc, dq_ptr, dk_desc, dv_desc, lse_ptr, delta_ptr,
    H, group, N_q, N_k, scale,
    BLOCK_M: gl.constexpr, D: gl.constexpr, CAUSAL: gl.constexpr, RAGGED: gl.constexpr,
):  # fmt: skip
    dtype: gl.constexpr = q_desc.dtype
    DS_LAYOUT: gl.constexpr = gl.NVMMASharedLayout.get_default_for([ROWS, BLOCK_M], dtype)
    bufs = (
        gl.allocate_shared_memory(dtype, [STAGES, 1, 1, BLOCK_M, D], q_desc.layout),
        gl.allocate_shared_memory(dtype, [STAGES, 1, 1, BLOCK_M, D], do_desc.layout),
        gl.allocate_shared_memory(dtype, [1, 1, BLOCK_N, D], k_desc.layout),
        gl.allocate_shared_memory(dtype, [1, 1, BLOCK_N, D], v_desc.layout),
        gl.allocate_shared_memory(dtype, [2, ROWS, BLOCK_M], DS_LAYOUT),
    )
    bars = (barriers(1, 1), barriers(STAGES, 1), barriers(STAGES, 2))
    descs = (q_desc, do_desc, k_desc, v_desc, dk_desc, dv_desc)
    ptrs, sizes = (lse_ptr, delta_ptr, dq_ptr), (H, group, N_q, N_k)
    ctx = (descs, ptrs, sizes, scale, bufs, bars)
    gl.warp_specialize(
        [
            (consumer, (ctx, BLOCK_M, D, CAUSAL, RAGGED, 0)),
            (consumer, (ctx, BLOCK_M, D, CAUSAL, RAGGED, 1)),
            (producer, (ctx, BLOCK_M, CAUSAL)),
        ],
        [4, 1],
        [240, 24],
    )


def backward_roles(q, k, v, o, lse, do, *, causal=False, sm_scale=None):
    """dq, dk, dv, as ``flash3_backward`` takes and gives them."""
    return gradients(
        roles_kernel, q, k, v, o, lse, do, causal, sm_scale,
        add_by_tma=False, maxnreg=168,
    )  # fmt: skip
