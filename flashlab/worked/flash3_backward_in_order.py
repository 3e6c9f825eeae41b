"""Attention's backward pass in Gluon as simple as it gets: one warpgroup, one thing at a time.

A program owns 64 keys. It loads a tile of q and do by TMA, waits, and takes five products one
after the other; its part of dq it adds to global memory from registers. The first of the steps
that lead to ``flash3_backward``; ``one_tile`` serves the second one too.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
)

from flashlab.worked.flash3_prepare import barriers, gradients, query_blocks, tma_load, tma_store

ROWS = gl.constexpr(64)  # keys of a warpgroup: a wgmma has 64 rows
LN2 = gl.constexpr(0.6931471805599453)


@gluon.jit
def one_tile(
    dk, dv, k, v, q, do, ds_buf, masked, start, head, m, ptrs, sizes, scale,
    BLOCK_M: gl.constexpr, D: gl.constexpr, CAUSAL: gl.constexpr,
):  # fmt: skip
    """Take query block m of a head into dk and dv of the 64 keys from start on; add to its dq."""
    lse_ptr, delta_ptr, dq_ptr = ptrs
    H, group, N_q, N_k = sizes
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_M, 16])
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    A_LAYOUT: gl.constexpr = gl.DotOperandLayout(0, LAYOUT, k_width=2)
    ROW: gl.constexpr = gl.SliceLayout(0, S_LAYOUT)  # one number a query
    queries = m * BLOCK_M + gl.arange(0, BLOCK_M, layout=ROW)
    at = head * gl.cdiv(N_q, BLOCK_M) * BLOCK_M + queries
    lse = gl.load(lse_ptr + at)
    delta = gl.load(delta_ptr + at)
    zeros = gl.zeros([ROWS, BLOCK_M], gl.float32, S_LAYOUT)

    # 1. s^T = k q^T, [ROWS, BLOCK_M]; p^T
    s = warpgroup_mma(k, q.permute((1, 0)), zeros, use_acc=False)
    p = gl.exp2(s * scale - lse[None, :])
    if masked:
        keys = start + gl.arange(0, ROWS, layout=gl.SliceLayout(1, S_LAYOUT))
        sees = keys + N_q - N_k if CAUSAL else gl.zeros_like(keys)  # the first query that sees it
        sees = gl.where(keys < N_k, sees, 2147483647)
        p = gl.where(queries[None, :] >= sees[:, None], p, 0.0)

    # 2. dv += p^T do: p lies in registers as the product reads it
    p = p.to(q.dtype)
    dv = warpgroup_mma(gl.convert_layout(p, A_LAYOUT), do, dv)

    # 3. dp^T = v do^T; ds^T = p^T (dp^T - delta)
    dp = warpgroup_mma(v, do.permute((1, 0)), zeros, use_acc=False)
    ds = (p.to(gl.float32) * (dp - delta[None, :])).to(q.dtype)

    # 4. dk += ds^T q
    dk = warpgroup_mma(gl.convert_layout(ds, A_LAYOUT), q, dk)

    # 5. These keys' part of dq = ds k, [BLOCK_M, D]: ds goes through shared memory to be turned
    ds_buf.store(ds)
    fence_async_shared()
    nothing = gl.zeros([BLOCK_M, D], gl.float32, LAYOUT)
    dq = warpgroup_mma(ds_buf.permute((1, 0)), k, nothing, use_acc=False)
    rows = m * BLOCK_M + gl.arange(0, BLOCK_M, layout=gl.SliceLayout(1, LAYOUT))
    columns = gl.arange(0, D, layout=gl.SliceLayout(0, LAYOUT))
    dq_at = dq_ptr + (head * N_q).to(gl.int64) * D + rows[:, None] * D + columns[None, :]
    gl.atomic_add(dq_at, dq, mask=rows[:, None] < N_q, sem="relaxed")
    return dk, dv


@gluon.jit
def store_rows(x, rows, box, desc, b, h_kv, start):
    """64 rows of dk or dv to global memory through shared memory; rows and box are the same."""
    rows.store(x.to(desc.dtype))
    fence_async_shared()
    tma_store(desc, [b, h_kv, start, 0], box)
    tma.store_wait(0)


@gluon.jit
def in_order_kernel(
    q_desc, do_desc, k_desc, v_desc, dq_ptr, dk_desc, dv_desc, lse_ptr, delta_ptr,
    H, group, N_q, N_k, scale,
    BLOCK_M: gl.constexpr, D: gl.constexpr, CAUSAL: gl.constexpr, RAGGED: gl.constexpr,
):  # fmt: skip
    dtype: gl.constexpr = q_desc.dtype
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    DS_LAYOUT: gl.constexpr = gl.NVMMASharedLayout.get_default_for([ROWS, BLOCK_M], dtype)
    q_buf = gl.allocate_shared_memory(dtype, [1, 1, BLOCK_M, D], q_desc.layout)
    do_buf = gl.allocate_shared_memory(dtype, [1, 1, BLOCK_M, D], do_desc.layout)
    k_buf = gl.allocate_shared_memory(dtype, [1, 1, ROWS, D], k_desc.layout)
    v_buf = gl.allocate_shared_memory(dtype, [1, 1, ROWS, D], v_desc.layout)
    ds_buf = gl.allocate_shared_memory(dtype, [ROWS, BLOCK_M], DS_LAYOUT)
    full = barriers(1, 1).index(0)
    q, do = q_buf.reshape([BLOCK_M, D]), do_buf.reshape([BLOCK_M, D])
    k, v = k_buf.reshape([ROWS, D]), v_buf.reshape([ROWS, D])
    start = gl.program_id(0) * ROWS
    h_kv = gl.program_id(1)
    b = gl.program_id(2)
    first, unmasked, n_blocks = query_blocks(start, ROWS, N_q, N_k, BLOCK_M, CAUSAL)
    mbarrier.expect(full, k_desc.block_type.nbytes + v_desc.block_type.nbytes)
    tma_load(k_desc, [b, h_kv, start, 0], full, k_buf)
    tma_load(v_desc, [b, h_kv, start, 0], full, v_buf)
    mbarrier.wait(full, 0)
    dk = gl.zeros([ROWS, D], gl.float32, LAYOUT)
    dv = gl.zeros([ROWS, D], gl.float32, LAYOUT)
    i = 1  # loads so far: their parity is the barrier's phase
    for g in range(group):  # query heads that share my keys
        h = h_kv * group + g
        for m in range(first, n_blocks):
            mbarrier.expect(full, q_desc.block_type.nbytes + do_desc.block_type.nbytes)
            tma_load(q_desc, [b, h, m * BLOCK_M, 0], full, q_buf)
            tma_load(do_desc, [b, h, m * BLOCK_M, 0], full, do_buf)
            mbarrier.wait(full, i & 1)
            masked = False
            if CAUSAL or RAGGED:
                masked = m < unmasked
            dk, dv = one_tile(
                dk, dv, k, v, q, do, ds_buf, masked, start, b * H + h, m,
                (lse_ptr, delta_ptr, dq_ptr), (H, group, N_q, N_k), scale, BLOCK_M, D, CAUSAL,
            )  # fmt: skip
            i += 1
    store_rows(dv, v, v_buf, dv_desc, b, h_kv, start)  # nobody reads v any more
    store_rows(dk * (scale * LN2), v, v_buf, dk_desc, b, h_kv, start)


def backward_in_order(q, k, v, o, lse, do, *, causal=False, sm_scale=None):
    """dq, dk, dv, as ``flash3_backward`` takes and gives them."""
    return gradients(
        in_order_kernel, q, k, v, o, lse, do, causal, sm_scale, keys=64, add_by_tma=False
    )
