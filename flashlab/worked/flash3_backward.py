"""Attention's backward pass for Hopper in Gluon: five products a tile, kept under way together.

A program owns 128 keys: dk and dv stay in registers of two consumer warpgroups, 64 keys each,
while a producer warp brings tiles of q and do by TMA. Scores are computed transposed,
s^T = k q^T, so that p^T and ds^T lie in registers as the products with do and q read them. dq
belongs to no program: each tile's part goes through shared memory and TMA adds it in L2.

    Source: Shah et al. 2024, Appendix B. Chapter 08 measures other ways to sum dq.
"""

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from flashlab.iocount._triton.tma_reduce import tma_add
from flashlab.worked.flash3_backward_dq import flash3_dq
from flashlab.worked.flash3_prepare import (
    barriers,
    gradients,
    query_blocks,
    tma_load,
    tma_store,
)

ROWS = gl.constexpr(64)  # keys of a warpgroup: a wgmma has 64 rows
BLOCK_N = gl.constexpr(128)  # keys of a program
STAGES = gl.constexpr(2)  # slots for tiles of q and do
LN2 = gl.constexpr(0.6931471805599453)
AHEAD_AT = gl.constexpr(64)  # at this D s is a tile ahead: at 128 there are no registers for it


@gluon.jit
def producer(ctx, BLOCK_M: gl.constexpr, CAUSAL: gl.constexpr, AHEAD: gl.constexpr):
    descs, ptrs, sizes, scale, bufs, bars = ctx
    q_desc, do_desc, k_desc, v_desc, dq_desc, dk_desc, dv_desc = descs
    lse_ptr, delta_ptr = ptrs
    H, group, N_q, N_k = sizes
    q_bufs, do_bufs, k_buf, v_buf, ds_bufs, dq_bufs, lse_bufs, delta_bufs = bufs
    kv_full, q_full, q_empty, do_full, do_empty, rows_full, ds_full = bars
    ROW: gl.constexpr = gl.BlockedLayout([BLOCK_M // 32], [32], [1], [0])
    n = gl.program_id(0)
    h_kv = gl.program_id(1)
    b = gl.program_id(2)
    first, unmasked, n_blocks = query_blocks(n * BLOCK_N, BLOCK_N, N_q, N_k, BLOCK_M, CAUSAL)
    mbarrier.expect(kv_full.index(0), k_desc.block_type.nbytes + v_desc.block_type.nbytes)
    tma_load(k_desc, [b, h_kv, n * BLOCK_N, 0], kv_full.index(0), k_buf)
    tma_load(v_desc, [b, h_kv, n * BLOCK_N, 0], kv_full.index(0), v_buf)
    i = 0  # tiles so far: gives the slot and the phase
    for g in range(group):
        h = h_kv * group + g
        for m in range(first, n_blocks):
            slot = i % STAGES
            phase = i // STAGES & 1
            rows = ((b * H + h) * n_blocks + m) * BLOCK_M + gl.arange(0, BLOCK_M, layout=ROW)
            mbarrier.wait(q_empty.index(slot), phase ^ 1)
            mbarrier.expect(q_full.index(slot), q_desc.block_type.nbytes)
            tma_load(q_desc, [b, h, m * BLOCK_M, 0], q_full.index(slot), q_bufs.index(slot))
            lse = gl.load(lse_ptr + rows)
            delta = gl.load(delta_ptr + rows)
            mbarrier.wait(do_empty.index(slot), phase ^ 1)
            mbarrier.expect(do_full.index(slot), do_desc.block_type.nbytes)
            tma_load(do_desc, [b, h, m * BLOCK_M, 0], do_full.index(slot), do_bufs.index(slot))
            lse_bufs.index(slot).store(lse)  # in shared memory: in registers it would spill
            delta_bufs.index(slot).store(delta)
            mbarrier.arrive(rows_full.index(slot), count=1)
            i += 1
    if AHEAD:  # the consumers start one s too many; nobody reads it
        slot = i % STAGES
        mbarrier.wait(q_empty.index(slot), (i // STAGES & 1) ^ 1)
        mbarrier.expect(q_full.index(slot), q_desc.block_type.nbytes)
        tma_load(q_desc, [b, h_kv * group, 0, 0], q_full.index(slot), q_bufs.index(slot))


@gluon.jit
def start_scores(i, ctx, BLOCK_M: gl.constexpr, D: gl.constexpr, W: gl.constexpr):
    """Start s^T = k q^T of tile number i, [ROWS, BLOCK_M], for my keys."""
    descs, ptrs, sizes, scale, bufs, bars = ctx
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_M, 16])
    zeros = gl.zeros([ROWS, BLOCK_M], gl.float32, S_LAYOUT)
    mbarrier.wait(bars[1].index(i % STAGES), i // STAGES & 1)
    q = bufs[0].index(i % STAGES).reshape([BLOCK_M, D]).permute((1, 0))
    my_k = bufs[2].reshape([BLOCK_N, D]).slice(W * ROWS, ROWS, dim=0)
    return warpgroup_mma(my_k, q, zeros, use_acc=False, is_async=True)


@gluon.jit
def one_tile(
    s, dk, dv, i, m, masked, n, h, b, ctx,
    BLOCK_M: gl.constexpr, D: gl.constexpr, CAUSAL: gl.constexpr, DQ: gl.constexpr,
    W: gl.constexpr,
):  # fmt: skip
    """Take tile m of q and do into dk and dv; add its part of dq to global memory."""
    descs, ptrs, sizes, scale, bufs, bars = ctx
    H, group, N_q, N_k = sizes
    q_bufs, do_bufs, k_buf, v_buf, ds_bufs, dq_bufs, lse_bufs, delta_bufs = bufs
    kv_full, q_full, q_empty, do_full, do_empty, rows_full, ds_full = bars
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_M, 16])
    A_LAYOUT: gl.constexpr = gl.DotOperandLayout(0, dk.type.layout, k_width=2)
    ROW: gl.constexpr = gl.SliceLayout(0, S_LAYOUT)  # one number a query
    slot = i % STAGES
    phase = i // STAGES & 1
    q = q_bufs.index(slot).reshape([BLOCK_M, D])
    do = do_bufs.index(slot).reshape([BLOCK_M, D])
    k = k_buf.reshape([BLOCK_N, D])
    v = v_buf.reshape([BLOCK_N, D])
    zeros = gl.zeros([ROWS, BLOCK_M], gl.float32, S_LAYOUT)
    AHEAD: gl.constexpr = D == AHEAD_AT  # then s comes ready

    # 1. s^T = k q^T and dp^T = v do^T, [ROWS, BLOCK_M]; p^T while dp^T is under way
    if not AHEAD:
        started = start_scores(i, ctx, BLOCK_M, D, W)
    mbarrier.wait(do_full.index(slot), phase)
    my_v = v.slice(W * ROWS, ROWS, dim=0)
    dp = warpgroup_mma(my_v, do.permute((1, 0)), zeros, use_acc=False, is_async=True)
    mbarrier.wait(rows_full.index(slot), phase)
    lse = lse_bufs.index(slot).load(ROW)
    if not AHEAD:
        s = warpgroup_mma_wait(1, deps=(started,))
    p = gl.exp2(s * scale - lse[None, :])
    if masked:  # at D 64 this spills 170 to 230 bytes: p, dp and dv fill the registers
        keys = n * BLOCK_N + W * ROWS + gl.arange(0, ROWS, layout=gl.SliceLayout(1, S_LAYOUT))
        queries = m * BLOCK_M + gl.arange(0, BLOCK_M, layout=ROW)
        sees = keys + N_q - N_k if CAUSAL else gl.zeros_like(keys)  # the first query that sees it
        sees = gl.where(keys < N_k, sees, 2147483647)
        p = gl.where(queries[None, :] >= sees[:, None], p, 0.0)

    # 2. dv += p^T do; meanwhile ds^T, which both warpgroups put together in shared memory
    delta = delta_bufs.index(slot).load(ROW)
    p = p.to(q_bufs.dtype)  # kept in 16 bits: in 32 it would spill
    dv = warpgroup_mma(gl.convert_layout(p, A_LAYOUT), do, dv, is_async=True)
    dp = warpgroup_mma_wait(1, deps=(dp,))
    if q_bufs.dtype == gl.bfloat16:  # widened, p is kept in 32 bits by ptxas, and 1.2 KB spill
        ds = p * (dp - delta[None, :]).to(gl.bfloat16)
    else:  # in float16 a large dp would overflow
        ds = (p.to(gl.float32) * (dp - delta[None, :])).to(gl.float16)
    if DQ:
        all_ds = ds_bufs.index(i & 1)  # two: a warpgroup may be one tile ahead of the other
        all_ds.slice(W * ROWS, ROWS, dim=0).store(ds)
        fence_async_shared()
        mbarrier.arrive(ds_full.index(0), count=1)
    if AHEAD:  # dk first: dv has to end before s of the next tile takes its registers
        dk = warpgroup_mma(gl.convert_layout(ds, A_LAYOUT), q, dk, is_async=True)
        dv = warpgroup_mma_wait(1, deps=(dv,))
        mbarrier.arrive(do_empty.index(slot), count=1)

    # 3. Half of the tile's dq = ds k, over all keys of the program
    DQ_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    dq = gl.zeros([64, 64], gl.float32, DQ_LAYOUT)
    if DQ:
        mbarrier.wait(ds_full.index(0), i & 1)
        if D == 128:  # BLOCK_M is 64: my half of the columns
            my_ds, my_half = all_ds.permute((1, 0)), k.slice(W * 64, 64, dim=1)
        else:  # BLOCK_M is 128: my half of the rows
            my_ds, my_half = all_ds.slice(W * 64, 64, dim=1).permute((1, 0)), k
        dq = warpgroup_mma(my_ds, my_half, dq, use_acc=False, is_async=True)

    # 4. dk += ds^T q, or the next tile's s^T; under it, TMA adds dq
    if AHEAD:
        started = start_scores(i + 1, ctx, BLOCK_M, D, W)
        dk, dq = warpgroup_mma_wait(1, deps=(dk, dq))
        mbarrier.arrive(q_empty.index(slot), count=1)
    else:
        dk = warpgroup_mma(gl.convert_layout(ds, A_LAYOUT), q, dk, is_async=True)
        dv, dq = warpgroup_mma_wait(1, deps=(dv, dq))
        mbarrier.arrive(do_empty.index(slot), count=1)
    if DQ:
        tma.store_wait(0)  # the last tile's part has left the buffer
        dq_bufs.index(W).reshape([64, 64]).store(dq)
        fence_async_shared()
        row, column = m * BLOCK_M, W * 64
        if D == 64:
            row, column = m * BLOCK_M + W * 64, 0
        tma_add(descs[4], [b * H + h, row, column], dq_bufs.index(W))
    if AHEAD:
        s = warpgroup_mma_wait(0, deps=(started,))
    else:
        dk = warpgroup_mma_wait(0, deps=(dk,))
        mbarrier.arrive(q_empty.index(slot), count=1)
    return s, dk, dv


@gluon.jit
def consumer(
    ctx, BLOCK_M: gl.constexpr, D: gl.constexpr, CAUSAL: gl.constexpr, RAGGED: gl.constexpr,
    DQ: gl.constexpr, W: gl.constexpr,
):  # fmt: skip
    descs, ptrs, sizes, scale, bufs, bars = ctx
    q_desc, do_desc, k_desc, v_desc, dq_desc, dk_desc, dv_desc = descs
    H, group, N_q, N_k = sizes
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    n = gl.program_id(0)
    h_kv = gl.program_id(1)
    b = gl.program_id(2)
    first, unmasked, n_blocks = query_blocks(n * BLOCK_N, BLOCK_N, N_q, N_k, BLOCK_M, CAUSAL)
    dk = gl.zeros([ROWS, D], gl.float32, LAYOUT)
    dv = gl.zeros([ROWS, D], gl.float32, LAYOUT)
    mbarrier.wait(bars[0].index(0), 0)
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_M, 16])
    s = gl.zeros([ROWS, BLOCK_M], gl.float32, S_LAYOUT)
    if D == AHEAD_AT:
        s = warpgroup_mma_wait(0, deps=(start_scores(0, ctx, BLOCK_M, D, W),))
    i = 0
    for g in range(group):  # query heads that share my keys
        h = h_kv * group + g
        for m in range(first, n_blocks):
            masked = False  # one loop for both kinds: with a loop each, 400 bytes spilled at D 128
            if CAUSAL or RAGGED:
                masked = m < unmasked
            s, dk, dv = one_tile(
                s, dk, dv, i, m, masked, n, h, b, ctx, BLOCK_M, D, CAUSAL, DQ, W,
            )  # fmt: skip
            i += 1

    # Out through my rows of v's buffer, which nobody else reads
    mine = bufs[3].slice(W * ROWS, ROWS, dim=2)
    my_rows = bufs[3].reshape([BLOCK_N, D]).slice(W * ROWS, ROWS, dim=0)  # the same, flat
    tma.store_wait(0)
    my_rows.store(dv.to(v_desc.dtype))
    fence_async_shared()
    tma_store(dv_desc, [b, h_kv, n * BLOCK_N + W * ROWS, 0], mine)
    tma.store_wait(0)
    my_rows.store((dk * (scale * LN2)).to(k_desc.dtype))
    fence_async_shared()
    tma_store(dk_desc, [b, h_kv, n * BLOCK_N + W * ROWS, 0], mine)
    tma.store_wait(0)


@gluon.jit
def flash3_backward_kernel(
    q_desc, do_desc, k_desc, v_desc, dq_desc, dk_desc, dv_desc, lse_ptr, delta_ptr,
    H, group, N_q, N_k, scale,
    BLOCK_M: gl.constexpr, D: gl.constexpr, CAUSAL: gl.constexpr, RAGGED: gl.constexpr,
    DQ: gl.constexpr,
):  # fmt: skip
    dtype: gl.constexpr = q_desc.dtype
    DS_LAYOUT: gl.constexpr = gl.NVMMASharedLayout.get_default_for([BLOCK_N, BLOCK_M], dtype)
    FLAT: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    bufs = (
        gl.allocate_shared_memory(dtype, [STAGES, 1, 1, BLOCK_M, D], q_desc.layout),
        gl.allocate_shared_memory(dtype, [STAGES, 1, 1, BLOCK_M, D], do_desc.layout),
        gl.allocate_shared_memory(dtype, [1, 1, BLOCK_N, D], k_desc.layout),
        gl.allocate_shared_memory(dtype, [1, 1, BLOCK_N, D], v_desc.layout),
        gl.allocate_shared_memory(dtype, [2, BLOCK_N, BLOCK_M], DS_LAYOUT),
        gl.allocate_shared_memory(gl.float32, [2, 1, 64, 64], dq_desc.layout),
        gl.allocate_shared_memory(gl.float32, [STAGES, BLOCK_M], FLAT),
        gl.allocate_shared_memory(gl.float32, [STAGES, BLOCK_M], FLAT),
    )
    kv_full, ds_full = barriers(1, 1), barriers(1, 2)
    q_full, q_empty = barriers(STAGES, 1), barriers(STAGES, 2)
    do_full, do_empty, rows_full = barriers(STAGES, 1), barriers(STAGES, 2), barriers(STAGES, 1)
    bars = (kv_full, q_full, q_empty, do_full, do_empty, rows_full, ds_full)
    descs = (q_desc, do_desc, k_desc, v_desc, dq_desc, dk_desc, dv_desc)
    ctx = (descs, (lse_ptr, delta_ptr), (H, group, N_q, N_k), scale, bufs, bars)
    gl.warp_specialize(
        [
            (consumer, (ctx, BLOCK_M, D, CAUSAL, RAGGED, DQ, 0)),
            (consumer, (ctx, BLOCK_M, D, CAUSAL, RAGGED, DQ, 1)),
            (producer, (ctx, BLOCK_M, CAUSAL, D == AHEAD_AT)),
        ],
        [4, 1],
        [240, 24],
    )


def flash3_backward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    lse: torch.Tensor,
    do: torch.Tensor,
    *,
    causal: bool = False,
    sm_scale: float | None = None,
    deterministic: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Gradients of attention on a Hopper GPU; query heads may share key heads.

    Args:
        q: [B, H, N_q, D]; float16 or bfloat16, D 64 or 128; any strides (what TMA cannot read,
            such as a last stride other than 1, is copied first). So are the others.
        k, v: [B, H_kv, N_k, D]; H_kv divides H. Bottom-right causal.
        o, do: [B, H, N_q, D]; the output and its gradient.
        lse: [B, H, N_q]; float32, in nats, -inf where a row sees no key.
        sm_scale: None means 1 / sqrt(D).
        deterministic: Sum dq in a pass of its own, always in the same order. Otherwise TMA adds
            its parts as they come, and its last bits differ from call to call.

    Returns:
        dq, dk, dv: like q, k, v; contiguous.

    Raises:
        ValueError: shapes, dtypes or D do not fit.
    """
    return gradients(
        flash3_backward_kernel, q, k, v, o, lse, do, causal, sm_scale,
        dq_pass=flash3_dq if deterministic else None, DQ=not deterministic, maxnreg=168,
    )  # fmt: skip
