"""dq in a pass of its own for Hopper, in Gluon: no sum between programs, the same bits each time.

It recomputes s and dp, so that attention's gradients cost seven products a tile and not five; in
exchange its two warpgroups need not wait for each other.
"""

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from flashlab.worked.flash3_prepare import LOG2E, barriers, descriptor, tma_load, tma_store

ROWS = gl.constexpr(64)  # query rows of a warpgroup
BLOCK_N = gl.constexpr(64)  # keys of a tile


@gluon.jit
def key_blocks(m, N_q, N_k, CAUSAL: gl.constexpr):
    """Block m of 128 queries -> number of key blocks that any of its rows sees."""
    n_blocks = gl.cdiv(N_k, BLOCK_N)
    if CAUSAL:
        last = gl.minimum((m + 1) * 2 * ROWS, N_q) + N_k - N_q
        n_blocks = gl.minimum(n_blocks, gl.cdiv(gl.maximum(last, 0), BLOCK_N))
    return n_blocks


@gluon.jit
def producer(ctx, STAGES: gl.constexpr, CAUSAL: gl.constexpr):
    q_desc, do_desc, k_desc, v_desc, dq_desc, lse_ptr, delta_ptr, sizes, scale, bufs, bars = ctx
    H, group, N_q, N_k, N_pad = sizes
    q_buf, do_buf, k_bufs, v_bufs = bufs
    q_full, kv_full, kv_empty = bars
    m = gl.num_programs(0) - 1 - gl.program_id(0)  # causal: the longest first
    h = gl.program_id(1)
    b = gl.program_id(2)
    mbarrier.expect(q_full.index(0), q_desc.block_type.nbytes + do_desc.block_type.nbytes)
    tma_load(q_desc, [b, h, m * 2 * ROWS, 0], q_full.index(0), q_buf)
    tma_load(do_desc, [b, h, m * 2 * ROWS, 0], q_full.index(0), do_buf)
    for n in range(key_blocks(m, N_q, N_k, CAUSAL)):
        slot = n % STAGES
        full = kv_full.index(slot)
        mbarrier.wait(kv_empty.index(slot), (n // STAGES & 1) ^ 1)
        mbarrier.expect(full, k_desc.block_type.nbytes + v_desc.block_type.nbytes)
        tma_load(k_desc, [b, h // group, n * BLOCK_N, 0], full, k_bufs.index(slot))
        tma_load(v_desc, [b, h // group, n * BLOCK_N, 0], full, v_bufs.index(slot))


@gluon.jit
def consumer(
    ctx, D: gl.constexpr, STAGES: gl.constexpr, CAUSAL: gl.constexpr, RAGGED: gl.constexpr,
    W: gl.constexpr,
):  # fmt: skip
    q_desc, do_desc, k_desc, v_desc, dq_desc, lse_ptr, delta_ptr, sizes, scale, bufs, bars = ctx
    H, group, N_q, N_k, N_pad = sizes
    q_buf, do_buf, k_bufs, v_bufs = bufs
    q_full, kv_full, kv_empty = bars
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    A_LAYOUT: gl.constexpr = gl.DotOperandLayout(0, LAYOUT, k_width=2)
    m = gl.num_programs(0) - 1 - gl.program_id(0)
    h = gl.program_id(1)
    b = gl.program_id(2)
    row = m * 2 * ROWS + W * ROWS
    rows = row + gl.arange(0, ROWS, layout=gl.SliceLayout(1, S_LAYOUT))
    at = (b * H + h) * N_pad + rows
    lse = gl.load(lse_ptr + at, mask=rows < N_pad, other=float("inf"))
    delta = gl.load(delta_ptr + at, mask=rows < N_pad, other=0.0)
    q = q_buf.reshape([2 * ROWS, D]).slice(W * ROWS, ROWS, dim=0)
    do = do_buf.reshape([2 * ROWS, D]).slice(W * ROWS, ROWS, dim=0)
    zeros = gl.zeros([ROWS, BLOCK_N], gl.float32, S_LAYOUT)
    dq = gl.zeros([ROWS, D], gl.float32, LAYOUT)
    mbarrier.wait(q_full.index(0), 0)
    for n in range(key_blocks(m, N_q, N_k, CAUSAL)):
        slot = n % STAGES
        mbarrier.wait(kv_full.index(slot), n // STAGES & 1)
        k = k_bufs.index(slot).reshape([BLOCK_N, D])
        v = v_bufs.index(slot).reshape([BLOCK_N, D])
        s = warpgroup_mma(q, k.permute((1, 0)), zeros, use_acc=False, is_async=True)
        dp = warpgroup_mma(do, v.permute((1, 0)), zeros, use_acc=False, is_async=True)
        s = warpgroup_mma_wait(1, deps=(s,))
        p = gl.exp2(s * scale - lse[:, None])
        if CAUSAL or RAGGED:
            limit = N_k - 1
            if CAUSAL:
                limit = gl.minimum(limit, row + N_k - N_q)
            if n * BLOCK_N + BLOCK_N - 1 > limit:
                keys = n * BLOCK_N + gl.arange(0, BLOCK_N, layout=gl.SliceLayout(0, S_LAYOUT))
                last = gl.minimum(rows + N_k - N_q, N_k - 1) if CAUSAL else rows * 0 + (N_k - 1)
                p = gl.where(keys[None, :] <= last[:, None], p, 0.0)
        dp = warpgroup_mma_wait(0, deps=(dp,))
        ds = (p * (dp - delta[:, None])).to(q_desc.dtype)
        dq = warpgroup_mma(gl.convert_layout(ds, A_LAYOUT), k, dq, is_async=True)
        dq = warpgroup_mma_wait(0, deps=(dq,))
        mbarrier.arrive(kv_empty.index(slot), count=1)
    out = q_buf.slice(W * ROWS, ROWS, dim=2)  # my rows of q, which nobody else reads
    q.store((dq * (scale * 0.6931471805599453)).to(q_desc.dtype))
    fence_async_shared()
    tma_store(dq_desc, [b, h, row, 0], out)
    tma.store_wait(0)


@gluon.jit
def flash3_dq_kernel(
    q_desc, do_desc, k_desc, v_desc, dq_desc, lse_ptr, delta_ptr, H, group, N_q, N_k, N_pad,
    scale, D: gl.constexpr, STAGES: gl.constexpr, CAUSAL: gl.constexpr, RAGGED: gl.constexpr,
):  # fmt: skip
    bufs = (
        gl.allocate_shared_memory(q_desc.dtype, [1, 1, 2 * ROWS, D], q_desc.layout),
        gl.allocate_shared_memory(q_desc.dtype, [1, 1, 2 * ROWS, D], do_desc.layout),
        gl.allocate_shared_memory(q_desc.dtype, [STAGES, 1, 1, BLOCK_N, D], k_desc.layout),
        gl.allocate_shared_memory(q_desc.dtype, [STAGES, 1, 1, BLOCK_N, D], v_desc.layout),
    )
    bars = (barriers(1, 1), barriers(STAGES, 1), barriers(STAGES, 2))
    sizes = (H, group, N_q, N_k, N_pad)
    ctx = (
        q_desc, do_desc, k_desc, v_desc, dq_desc, lse_ptr, delta_ptr, sizes, scale, bufs, bars,
    )  # fmt: skip
    gl.warp_specialize(
        [
            (consumer, (ctx, D, STAGES, CAUSAL, RAGGED, 0)),
            (consumer, (ctx, D, STAGES, CAUSAL, RAGGED, 1)),
            (producer, (ctx, STAGES, CAUSAL)),
        ],
        [4, 1],
        [240, 24],
    )


def flash3_dq(q, k, v, do, lse2, delta, *, causal, scale):
    """dq like q; lse2 (base 2) and delta [B * H, N_pad], float32, as flash3_backward prepares."""
    (B, H, N_q, D), (H_kv, N_k) = q.shape, k.shape[1:3]
    dq = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    tiles = ((q, 128), (do, 128), (k, 64), (v, 64), (dq, 64))
    descs = [descriptor(x, [1, 1, rows, D])[1] for x, rows in tiles]
    flash3_dq_kernel[(triton.cdiv(N_q, 128), H, B)](
        *descs, lse2, delta, H, H // H_kv, N_q, N_k, lse2.shape[1], scale * LOG2E,
        D=D, STAGES=4, CAUSAL=causal, RAGGED=N_k % 64 != 0, num_warps=4, maxnreg=168,
    )  # fmt: skip
    return dq
