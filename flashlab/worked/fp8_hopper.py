"""FP8 attention forward for Hopper in Gluon: TMA, mbarriers, wgmma, specialised warps.

One producer warp streams tiles into shared memory; two consumer warpgroups own 64 query rows each
and keep S, P and O in registers. The grid is persistent: one program an SM draws tiles of queries
from a counter, so that the loads of the next tile overlap the end of this one. What FP8 changes:

* V arrives as ``fp8_prepare`` lays it out, [D, N]: an FP8 wgmma reads its second operand along
  the reduction alone. Keys stand in the order in which a thread holds its part of P.
* One scale a head (``block_rows >= N``): those of q and k join the softmax scale, v's the
  division.
* The two products wait for each other. S, P and O then fit the register file with 256 keys a
  block, which counts for more than overlap: exponentials are the longer half of the work.
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
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from flashlab.worked.flash3_prepare import LOG2E, barriers, tma_load, tma_store
from flashlab.worked.fp8_prepare import Prepared

LN2 = gl.constexpr(0.6931471805599453)
ROWS = gl.constexpr(64)  # query rows of a warpgroup: the M of wgmma
BLOCK_M = gl.constexpr(128)  # query rows of a program: two warpgroups
P_SHIFT = gl.constexpr(8.0)  # P times 2^8: e4m3 holds 448, but nothing below 2^-9
STAGES = 2  # blocks of K and of V in shared memory
SMS = 132  # of an H100 or H200, where no card says so


@gluon.jit
def tile_at(number, N, BLOCK_N: gl.constexpr, CAUSAL: gl.constexpr):
    """(head, first query, number of key blocks); causal: a head's longest tile comes first."""
    tiles_per_head = gl.cdiv(N, BLOCK_M)
    row = number % tiles_per_head * BLOCK_M
    n_blocks = gl.cdiv(N, BLOCK_N)
    if CAUSAL:
        row = (tiles_per_head - 1) * BLOCK_M - row
        n_blocks = gl.minimum(gl.cdiv(row + BLOCK_M, BLOCK_N), n_blocks)
    return number // tiles_per_head, row, n_blocks


@gluon.jit
def producer(
    ctx, BLOCK_N: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr, CAUSAL: gl.constexpr
):
    """One warp: loads, in the order in which the consumers ask for them."""
    descs, scales, lse_ptr, counter, N, n_tiles, group, scale, bufs, bars = ctx
    q_desc, k_desc, v_desc, o_desc = descs
    q_buf, o_buf, k_buf, v_buf, next_buf = bufs
    q_full, q_empty, k_full, k_empty, v_full, v_empty, next_full, next_empty = bars
    number = gl.program_id(0)
    t = 0  # tiles of queries so far
    i = 0  # key blocks so far: gives the slot, and the phase of its barriers
    while number < n_tiles:
        head, row, n_blocks = tile_at(number, N, BLOCK_N, CAUSAL)
        # 1. The queries of both warpgroups
        for w in gl.static_range(2):
            mbarrier.wait(q_empty.index(w), (t & 1) ^ 1)
            mbarrier.expect(q_full.index(w), q_desc.block_type.nbytes)
            tma_load(q_desc, [head, row + w * ROWS, 0], q_full.index(w), q_buf.index(w))
        # 2. Keys and values from right to left: the block that needs a mask comes first
        for b in range(n_blocks):
            slot = i % STAGES
            phase = i // STAGES & 1
            start_n = (n_blocks - 1 - b) * BLOCK_N
            mbarrier.wait(k_empty.index(slot), phase ^ 1)
            mbarrier.expect(k_full.index(slot), k_desc.block_type.nbytes)
            tma_load(k_desc, [head // group, start_n, 0], k_full.index(slot), k_buf.index(slot))
            mbarrier.wait(v_empty.index(slot), phase ^ 1)
            mbarrier.expect(v_full.index(slot), v_desc.block_type.nbytes)
            tma_load(v_desc, [head // group, 0, start_n], v_full.index(slot), v_buf.index(slot))
            i += 1
        # 3. Draw the next tile, after these loads; who draws the last ticket resets the counter
        ticket = gl.atomic_add(counter, 1, sem="relaxed")
        if ticket == n_tiles - 1:
            gl.store(counter, 0)
        number = ticket + gl.num_programs(0)
        mbarrier.wait(next_empty, (t & 1) ^ 1)
        next_buf.store(gl.full([1], number, gl.int32, gl.BlockedLayout([1], [32], [1], [0])))
        mbarrier.arrive(next_full, count=1)
        t += 1


@gluon.jit
def softmax_step(s, scale, m_i, l_i):
    """Online softmax over one block; scale holds log2(e), so m_i is in base 2. p is times 2^8."""
    m_new = gl.maximum(m_i, gl.max(s, 1) * scale)
    alpha = gl.exp2(m_i - m_new)
    p = gl.exp2(s * scale - (m_new - P_SHIFT)[:, None])
    return m_new, l_i * alpha + gl.sum(p, 1), p, alpha


@gluon.jit
def as_operand(p, LAYOUT: gl.constexpr):
    """P as the product left it -> the first operand of an FP8 wgmma, all within a thread.

    Of 16 columns a thread t of four holds 2t, 2t+1, 8+2t, 8+2t+1; an operand wants 4t to 4t+3.
    Calling the former by the latter's names permutes the keys, as V's layout does. Rename first,
    convert second: the other way round, Triton shuffles single bytes.
    """
    M: gl.constexpr = p.shape[0]
    N: gl.constexpr = p.shape[1]
    p = p.reshape([M, N // 16, 2, 4, 2]).permute([0, 1, 3, 2, 4]).reshape([M, N])
    return gl.convert_layout(p, LAYOUT, assert_trivial=True).to(gl.float8e4nv)


@gluon.jit
def consumer(
    ctx, BLOCK_N: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr, CAUSAL: gl.constexpr,
    MASKED: gl.constexpr, W: gl.constexpr,
):  # fmt: skip
    """A warpgroup: rows W * 64 to W * 64 + 63 of each tile of queries."""
    descs, scales, lse_ptr, counter, N, n_tiles, group, scale, bufs, bars = ctx
    q_scale_ptr, k_scale_ptr, v_scale_ptr = scales
    q_desc, k_desc, v_desc, o_desc = descs
    q_buf, o_buf, k_buf, v_buf, next_buf = bufs
    q_full, q_empty, k_full, k_empty, v_full, v_empty, next_full, next_empty = bars
    MMA_S: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 32])
    MMA_O: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 32])
    OPERAND: gl.constexpr = gl.DotOperandLayout(0, MMA_O, k_width=4)
    S_ROW: gl.constexpr = gl.SliceLayout(1, MMA_S)
    O_ROW: gl.constexpr = gl.SliceLayout(1, MMA_O)
    q = q_buf.index(W).reshape([ROWS, D])
    zeros = gl.zeros([ROWS, BLOCK_N], gl.float32, MMA_S)
    number = gl.program_id(0)
    t = 0
    i = 0
    while number < n_tiles:
        # 1. Which rows are mine, and what their scores are to be multiplied by
        head, row, n_blocks = tile_at(number, N, BLOCK_N, CAUSAL)
        row += W * ROWS
        qk_scale = scale * gl.load(q_scale_ptr + head) * gl.load(k_scale_ptr + head // group)
        slot = i % STAGES
        phase = i // STAGES & 1
        # 2. Scores of the first block, the only one with hidden keys: all further left are full
        mbarrier.wait(q_full.index(W), t & 1)
        mbarrier.wait(k_full.index(slot), phase)
        k = k_buf.index(slot).reshape([BLOCK_N, D]).permute((1, 0))
        s = warpgroup_mma(q, k, zeros, use_acc=False, is_async=True)
        s = warpgroup_mma_wait(0, deps=(s,))
        mbarrier.arrive(k_empty.index(slot), count=1)
        rows = row + gl.arange(0, ROWS, layout=S_ROW)
        if MASKED:
            cols = (n_blocks - 1) * BLOCK_N + gl.arange(
                0, BLOCK_N, layout=gl.SliceLayout(0, MMA_S)
            )
            seen = (cols < N)[None, :]
            if CAUSAL:
                seen = cols[None, :] <= gl.minimum(rows, N - 1)[:, None]
            s = gl.where(seen, s, -float("inf"))
        # 3. Running state, in fp32
        m_i = gl.full([ROWS], -float("inf"), gl.float32, S_ROW)
        l_i = gl.zeros([ROWS], gl.float32, S_ROW)
        acc = gl.zeros([ROWS, D], gl.float32, MMA_O)
        # 4. Softmax of a block, its product with V, scores of the next. S crosses the iteration,
        # not P: fp8 values that do take a register each
        for _ in range(n_blocks - 1):
            m_i, l_i, p, alpha = softmax_step(s, qk_scale, m_i, l_i)
            acc = acc * gl.convert_layout(alpha, O_ROW)[:, None]
            mbarrier.wait(v_full.index(slot), phase)
            v = v_buf.index(slot).reshape([D, BLOCK_N]).permute((1, 0))
            acc = warpgroup_mma(as_operand(p, OPERAND), v, acc, is_async=True)
            acc = warpgroup_mma_wait(0, deps=(acc,))
            before = slot
            i += 1
            slot = i % STAGES
            phase = i // STAGES & 1
            mbarrier.wait(k_full.index(slot), phase)
            k = k_buf.index(slot).reshape([BLOCK_N, D]).permute((1, 0))
            s = warpgroup_mma(q, k, zeros, use_acc=False, is_async=True)
            s = warpgroup_mma_wait(0, deps=(s,))
            mbarrier.arrive(v_empty.index(before), count=1)  # not earlier: an arrive is a barrier
            mbarrier.arrive(k_empty.index(slot), count=1)
        # 5. The last block
        mbarrier.arrive(q_empty.index(W), count=1)
        m_i, l_i, p, alpha = softmax_step(s, qk_scale, m_i, l_i)
        acc = acc * gl.convert_layout(alpha, O_ROW)[:, None]
        mbarrier.wait(v_full.index(slot), phase)
        v = v_buf.index(slot).reshape([D, BLOCK_N]).permute((1, 0))
        acc = warpgroup_mma(as_operand(p, OPERAND), v, acc, is_async=True)
        # 6. lse while the product runs, then divide and store through shared memory
        gl.store(lse_ptr + head * N + rows, (m_i - P_SHIFT + gl.log2(l_i)) * LN2, mask=rows < N)
        acc = warpgroup_mma_wait(0, deps=(acc,))
        mbarrier.arrive(v_empty.index(slot), count=1)
        i += 1
        factor = gl.load(v_scale_ptr + head // group) / l_i
        acc = acc * gl.convert_layout(factor, O_ROW)[:, None]
        tma.store_wait(0)  # the last tile has left o_buf
        o_buf.index(W).reshape([ROWS, D]).store(acc.to(o_desc.dtype))
        fence_async_shared()
        tma_store(o_desc, [head, row, 0], o_buf.index(W))  # TMA drops the rows from N on
        # 7. The next tile of queries
        mbarrier.wait(next_full, t & 1)
        number = gl.max(next_buf.load(gl.BlockedLayout([1], [32], [4], [0])), 0)
        mbarrier.arrive(next_empty, count=1)
        t += 1
    tma.store_wait(0)


@gluon.jit
def fp8_fwd_kernel(
    q_desc,  # [B * H, N, D], e4m3
    k_desc,  # [B * H_kv, N, D], e4m3
    v_desc,  # [B * H_kv, D, N], e4m3, keys permuted
    o_desc,  # [B * H, N, D], bf16
    q_scale_ptr,  # [B * H]
    k_scale_ptr,  # [B * H_kv]
    v_scale_ptr,  # [B * H_kv]
    lse_ptr,  # [B * H, N]
    counter,  # [1]: tiles drawn; 0 before and after
    N, n_tiles, group, scale,
    BLOCK_N: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr, CAUSAL: gl.constexpr,
    MASKED: gl.constexpr,
):  # fmt: skip
    bufs = (
        gl.allocate_shared_memory(q_desc.dtype, [2, 1, ROWS, D], q_desc.layout),
        gl.allocate_shared_memory(o_desc.dtype, [2, 1, ROWS, D], o_desc.layout),
        gl.allocate_shared_memory(k_desc.dtype, [STAGES, 1, BLOCK_N, D], k_desc.layout),
        gl.allocate_shared_memory(v_desc.dtype, [STAGES, 1, D, BLOCK_N], v_desc.layout),
        gl.allocate_shared_memory(gl.int32, [1], gl.SwizzledSharedLayout(1, 1, 1, [0])),
    )
    bars = (
        barriers(2, 1), barriers(2, 1),  # q full, empty
        barriers(STAGES, 1), barriers(STAGES, 2),  # k
        barriers(STAGES, 1), barriers(STAGES, 2),  # v
        barriers(1, 1).index(0), barriers(1, 2).index(0),  # next tile
    )  # fmt: skip
    descs = (q_desc, k_desc, v_desc, o_desc)
    scales = (q_scale_ptr, k_scale_ptr, v_scale_ptr)
    ctx = (descs, scales, lse_ptr, counter, N, n_tiles, group, scale, bufs, bars)
    gl.warp_specialize(
        [
            (consumer, (ctx, BLOCK_N, D, STAGES, CAUSAL, MASKED, 0)),
            (consumer, (ctx, BLOCK_N, D, STAGES, CAUSAL, MASKED, 1)),
            (producer, (ctx, BLOCK_N, D, STAGES, CAUSAL)),
        ],
        [4, 1],  # warps of the second consumer and of the producer
        [240, 24],  # their registers; the first consumer gets what is left
    )


def keys_of_a_block(N: int, causal: bool) -> int:
    """Large blocks spread what a step costs; of small ones short causal rows waste less."""
    return 128 if causal and N < 4096 else 256


counters: dict[torch.device, torch.Tensor] = {}  # every launch leaves its counter at 0


def descriptor(x: torch.Tensor, block: list[int], dtype) -> TensorDescriptor:
    """What TMA has to know of a contiguous x [B, H, rows, columns]."""
    B, H, rows, columns = x.shape
    shape, strides = [B * H, rows, columns], [rows * columns, columns, 1]
    layout = gl.NVMMASharedLayout.get_default_for(block, dtype)
    return TensorDescriptor(x.view(shape), shape, strides, block, layout)


def fp8_hopper(
    x: Prepared,
    *,
    causal: bool = False,
    sm_scale: float | None = None,
    out: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """FP8 attention of what ``fp8_prepare.prepare`` made.

    Args:
        x: q8 [B, H, N, D], k8 [B, H_kv, N, D], v_t [B, H_kv, D, N up to 16], a scale a head each;
            D 64 or 128.
        causal: Query i sees the keys j <= i.
        sm_scale: Above 0; None means 1/sqrt(D).
        out: o and lse to write; new ones if left out.

    Returns:
        o: [B, H, N, D], bf16; lse: [B, H, N], nats, fp32.

    Raises:
        ValueError: D or sm_scale is none of these.
    """
    (B, H, N, D), H_kv = x.q8.shape, x.k8.shape[1]
    scale = D**-0.5 if sm_scale is None else float(sm_scale)
    if D not in (64, 128):
        raise ValueError(f"q8 must have D 64 or 128, not {list(x.q8.shape)}")
    if scale <= 0:
        raise ValueError(f"sm_scale must be above 0, not {sm_scale}")
    device = x.q8.device
    o, lse = out or (
        torch.empty(B, H, N, D, dtype=torch.bfloat16, device=device),
        torch.empty(B, H, N, dtype=torch.float32, device=device),
    )
    if device not in counters:
        counters[device] = torch.zeros(1, dtype=torch.int32, device=device)
    sms = torch.cuda.get_device_properties(device).multi_processor_count if o.is_cuda else SMS
    block_n = keys_of_a_block(N, causal)
    n_tiles = triton.cdiv(N, BLOCK_M.value) * B * H
    fp8_fwd_kernel[(min(sms, n_tiles),)](
        descriptor(x.q8, [1, ROWS.value, D], gl.float8e4nv),
        descriptor(x.k8, [1, block_n, D], gl.float8e4nv),
        descriptor(x.v_t, [1, D, block_n], gl.float8e4nv),
        descriptor(o, [1, ROWS.value, D], gl.bfloat16),
        x.q_scale, x.k_scale, x.v_scale, lse, counters[device],
        N, n_tiles, H // H_kv, scale * LOG2E,
        BLOCK_N=block_n, D=D, STAGES=STAGES, CAUSAL=causal, MASKED=causal or N % block_n != 0,
        num_warps=4, maxnreg=168,  # 65,536 registers over all launched threads
    )  # fmt: skip
    return o, lse
