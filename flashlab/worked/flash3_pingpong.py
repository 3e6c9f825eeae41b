"""FlashAttention-3's published schedule in Gluon: P V under softmax, and turns.

Within a warpgroup the product of a block's p with V is under way while the next block goes
through softmax. Between warpgroups *turns* (ping-pong) decide who may start products: one starts
its two, hands the turn on, and takes its softmax while the others multiply. Roles, slots and the
persistent grid are those of the lab's ``flash3_forward``.

    Source: Shah et al. 2024, sections 3.1 (turns) and 3.2 (P V under softmax), Algorithm 2.
"""

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma_wait,
)

from flashlab.worked.flash3_parts import (
    BLOCK_N,
    ROWS,
    S_ROW,
    check_forward,
    described,
    hide,
    softmax,
    start_load,
    start_pv,
    start_qk,
    store_lse,
    tile_of,
    times,
)
from flashlab.worked.flash3_prepare import LOG2E, barriers, tma_store

SMS = 132  # of an H100 or H200, where no card says so
MANY = 2048  # queries from which a third warpgroup pays at D 64


@gluon.jit
def producer(ctx, WARPGROUPS: gl.constexpr, STAGES: gl.constexpr, CAUSAL: gl.constexpr):
    """One warp: brings q, k and v, and draws the tiles."""
    descs, rings, lse_ptr, counter, sizes, scale = ctx
    q_desc, k_desc, v_desc, o_desc = descs
    q_ring, k_ring, v_ring, o_bufs, next_ring, turn = rings
    q_bufs, q_full, q_empty = q_ring
    k_bufs, k_full, k_empty = k_ring
    v_bufs, v_full, v_empty = v_ring
    next_buf, next_full, next_empty = next_ring
    H, group, N, n_tiles = sizes
    tile = gl.program_id(0)
    t = 0  # tiles of this program so far
    i = 0  # key blocks of this program so far: give the slot, and the phase of its barriers
    while tile < n_tiles:
        b, h, row, n_blocks = tile_of(tile, sizes, WARPGROUPS * ROWS, CAUSAL)
        for w in gl.static_range(WARPGROUPS):
            mbarrier.wait(q_empty.index(w), (t & 1) ^ 1)
            start_load(q_desc, q_full.index(w), q_bufs.index(w), b, h, row + w * ROWS, True)
        for n in range(n_blocks):  # right to left: the block that needs a mask comes first
            slot = i % STAGES
            phase = i // STAGES & 1
            start = (n_blocks - 1 - n) * BLOCK_N
            mbarrier.wait(k_empty.index(slot), phase ^ 1)
            start_load(k_desc, k_full.index(slot), k_bufs.index(slot), b, h // group, start, True)
            mbarrier.wait(v_empty.index(slot), phase ^ 1)
            start_load(v_desc, v_full.index(slot), v_bufs.index(slot), b, h // group, start, True)
            i += 1
        ticket = gl.atomic_add(counter, 1, sem="relaxed")
        if ticket == n_tiles - 1:  # nobody draws any more: the next launch starts from 0
            gl.store(counter, 0)
        tile = gl.num_programs(0) + ticket
        mbarrier.wait(next_empty.index(0), (t & 1) ^ 1)
        next_buf.store(gl.full([1], tile, gl.int32, gl.BlockedLayout([1], [32], [1], [0])))
        mbarrier.arrive(next_full.index(0), count=1)
        t += 1


@gluon.jit
def take_turn(turn, W: gl.constexpr, i, TURNS: gl.constexpr):
    if TURNS:  # my turn number i, one for each block
        mbarrier.wait(turn.index(W), i & 1)


@gluon.jit
def pass_turn(turn, W: gl.constexpr, WARPGROUPS: gl.constexpr, TURNS: gl.constexpr):
    if TURNS:
        mbarrier.arrive(turn.index((W + 1) % WARPGROUPS), count=1)


@gluon.jit
def consumer(
    ctx, W: gl.constexpr, D: gl.constexpr, WARPGROUPS: gl.constexpr, STAGES: gl.constexpr,
    CAUSAL: gl.constexpr, MASKED: gl.constexpr, TURNS: gl.constexpr, HELD: gl.constexpr,
):  # fmt: skip
    descs, rings, lse_ptr, counter, sizes, scale = ctx
    q_desc, k_desc, v_desc, o_desc = descs
    q_ring, k_ring, v_ring, o_bufs, next_ring, turn = rings
    q_bufs, q_full, q_empty = q_ring
    k_bufs, k_full, k_empty = k_ring
    v_bufs, v_full, v_empty = v_ring
    next_buf, next_full, next_empty = next_ring
    H, group, N, n_tiles = sizes
    dtype: gl.constexpr = q_desc.dtype
    O_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    q = q_bufs.index(W).reshape([ROWS, D])
    tile = gl.program_id(0)
    t = 0
    i = 0
    while tile < n_tiles:
        # 1. My rows. Blocks that only later warpgroups see: hand them back, and the turns on
        b, h, row, n_blocks = tile_of(tile, sizes, WARPGROUPS * ROWS, CAUSAL)
        row += W * ROWS
        if CAUSAL and WARPGROUPS * ROWS > BLOCK_N:
            mine = gl.minimum((row + ROWS - 1) // BLOCK_N + 1, n_blocks)
            for _ in range(n_blocks - mine):
                slot = i % STAGES
                phase = i // STAGES & 1
                mbarrier.wait(k_full.index(slot), phase)
                mbarrier.arrive(k_empty.index(slot), count=1)
                mbarrier.wait(v_full.index(slot), phase)
                mbarrier.arrive(v_empty.index(slot), count=1)
                take_turn(turn, W, i, TURNS)
                pass_turn(turn, W, WARPGROUPS, TURNS)
                i += 1
            n_blocks = mine
        # 2. Running state, in fp32
        m_log2 = gl.full([ROWS], -float("inf"), gl.float32, S_ROW)
        l_i = gl.zeros([ROWS], gl.float32, S_ROW)
        acc = gl.zeros([ROWS, D], gl.float32, O_LAYOUT)
        # 3. The first block: scores, mask, softmax; nothing to multiply beside it yet
        slot = i % STAGES
        phase = i // STAGES & 1
        mbarrier.wait(q_full.index(W), t & 1)
        mbarrier.wait(k_full.index(slot), phase)
        take_turn(turn, W, i, TURNS)
        s = start_qk(q, k_bufs.index(slot), D)
        pass_turn(turn, W, WARPGROUPS, TURNS)
        s = warpgroup_mma_wait(0, deps=(s,))
        mbarrier.arrive(k_empty.index(slot), count=1)
        if MASKED:
            s = hide(s, row, (n_blocks - 1) * BLOCK_N, N, CAUSAL)
        m_log2, l_i, p, alpha = softmax(s, m_log2, l_i, scale, D, dtype)
        # 4. In my turn: scores of this block, then p v of the block before, which may go on
        # while this block is in softmax. p crosses the iteration
        for _ in range(n_blocks - 1):
            before = slot
            phase_before = phase
            i += 1
            slot = i % STAGES
            phase = i // STAGES & 1
            mbarrier.wait(k_full.index(slot), phase)
            take_turn(turn, W, i, TURNS)
            s = start_qk(q, k_bufs.index(slot), D)
            mbarrier.wait(v_full.index(before), phase_before)
            acc = start_pv(p, v_bufs.index(before), acc, D)
            pass_turn(turn, W, WARPGROUPS, TURNS)
            s = warpgroup_mma_wait(1, deps=(s,))
            mbarrier.arrive(k_empty.index(slot), count=1)
            m_log2, l_i, p, alpha = softmax(s, m_log2, l_i, scale, D, dtype)
            if HELD:  # long complete; but ptxas moves no wait across it, and would move the next
                mbarrier.wait(q_full.index(W), t & 1)
            acc, p = warpgroup_mma_wait(0, deps=(acc, p))
            mbarrier.arrive(v_empty.index(before), count=1)
            acc = times(acc, alpha)
        mbarrier.arrive(q_empty.index(W), count=1)
        # 5. The last product; lse while it runs; then divide and store through shared memory
        mbarrier.wait(v_full.index(slot), phase)
        acc = start_pv(p, v_bufs.index(slot), acc, D)
        store_lse(lse_ptr, b, h, row, m_log2, l_i, sizes)
        acc = warpgroup_mma_wait(0, deps=(acc,))
        mbarrier.arrive(v_empty.index(slot), count=1)
        i += 1
        tma.store_wait(0)  # the tile before has left o_bufs
        o_bufs.index(W).reshape([ROWS, D]).store(times(acc, 1.0 / l_i).to(dtype))
        fence_async_shared()
        tma_store(o_desc, [b, h, row, 0], o_bufs.index(W))
        # 6. The next tile
        mbarrier.wait(next_full.index(0), t & 1)
        tile = gl.max(next_buf.load(gl.BlockedLayout([1], [32], [4], [0])), 0)
        mbarrier.arrive(next_empty.index(0), count=1)
        t += 1
    tma.store_wait(0)


@gluon.jit
def pingpong_kernel(
    q_desc, k_desc, v_desc, o_desc,  # [B, H, N, D] by ROWS rows, [B, H_kv, N, D] by BLOCK_N
    lse_ptr,  # [B, H, N], fp32
    counter,  # [1], int32: tickets drawn so far, 0 between launches
    H, group, N, n_tiles, scale,
    D: gl.constexpr, WARPGROUPS: gl.constexpr, STAGES: gl.constexpr, CAUSAL: gl.constexpr,
    MASKED: gl.constexpr, TURNS: gl.constexpr, HELD: gl.constexpr, REGISTERS: gl.constexpr,
):  # fmt: skip
    dtype: gl.constexpr = q_desc.dtype
    q_bufs = gl.allocate_shared_memory(dtype, [WARPGROUPS, 1, 1, ROWS, D], q_desc.layout)
    o_bufs = gl.allocate_shared_memory(dtype, [WARPGROUPS, 1, 1, ROWS, D], o_desc.layout)
    k_bufs = gl.allocate_shared_memory(dtype, [STAGES, 1, 1, BLOCK_N, D], k_desc.layout)
    v_bufs = gl.allocate_shared_memory(dtype, [STAGES, 1, 1, BLOCK_N, D], v_desc.layout)
    next_buf = gl.allocate_shared_memory(gl.int32, [1], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    turn = barriers(WARPGROUPS, 1)
    rings = (
        (q_bufs, barriers(WARPGROUPS, 1), barriers(WARPGROUPS, 1)),
        (k_bufs, barriers(STAGES, 1), barriers(STAGES, WARPGROUPS)),
        (v_bufs, barriers(STAGES, 1), barriers(STAGES, WARPGROUPS)),
        o_bufs,
        (next_buf, barriers(1, 1), barriers(1, WARPGROUPS)),
        turn,
    )
    if TURNS:
        mbarrier.arrive(turn.index(0), count=1)  # the first warpgroup begins
    ctx = (
        (q_desc, k_desc, v_desc, o_desc),
        rings,
        lse_ptr,
        counter,
        (H, group, N, n_tiles),
        scale,
    )
    if WARPGROUPS == 2:
        gl.warp_specialize([
            (consumer, (ctx, 0, D, 2, STAGES, CAUSAL, MASKED, TURNS, HELD)),
            (consumer, (ctx, 1, D, 2, STAGES, CAUSAL, MASKED, TURNS, HELD)),
            (producer, (ctx, 2, STAGES, CAUSAL)),
        ], [4, 1], [REGISTERS, 24])  # fmt: skip
    else:
        gl.warp_specialize([
            (consumer, (ctx, 0, D, 3, STAGES, CAUSAL, MASKED, TURNS, HELD)),
            (consumer, (ctx, 1, D, 3, STAGES, CAUSAL, MASKED, TURNS, HELD)),
            (consumer, (ctx, 2, D, 3, STAGES, CAUSAL, MASKED, TURNS, HELD)),
            (producer, (ctx, 3, STAGES, CAUSAL)),
        ], [4, 4, 1], [REGISTERS, REGISTERS, 24])  # fmt: skip


counters: dict[torch.device, torch.Tensor] = {}  # every launch leaves its counter at 0


def flash3_pingpong(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    turns: bool = True,
    held: bool = True,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention forward on Hopper with FlashAttention-3's published schedule.

    Args:
        q: [B, H, N, D]; float16 or bfloat16, D 64 or 128.
        k, v: [B, H_kv, N, D]; H_kv divides H.
        causal: Query i sees the keys j <= i.
        turns: Take turns at the tensor cores; without, only P V under softmax is left.
        held: Hold the wait for P V behind the softmax, where it is written. The compiler moves it
            before the softmax otherwise, and nothing overlaps within a warpgroup.

    Returns:
        o: [B, H, N, D]; lse: [B, H, N], fp32, nats. Scores are scaled by 1/sqrt(D).

    Raises:
        ValueError: shapes, dtypes or D do not fit.
    """
    check_forward(q, k, v)
    (B, H, N, D), H_kv, device = q.shape, k.shape[1], q.device
    o = torch.empty(B, H, N, D, dtype=q.dtype, device=device)
    lse = torch.empty(B, H, N, dtype=torch.float32, device=device)
    if device not in counters:
        counters[device] = torch.zeros(1, dtype=torch.int32, device=device)
    many = D == 64 and N >= MANY and not held  # three that hold it would spill
    warpgroups, stages, registers, at_start = (3, 3, 160, 128) if many else (2, 2, 240, 168)
    sms = torch.cuda.get_device_properties(device).multi_processor_count if q.is_cuda else SMS
    n_tiles = triton.cdiv(N, ROWS.value * warpgroups) * B * H
    pingpong_kernel[(min(sms, n_tiles),)](
        *described(q, k, v, o), lse, counters[device],
        H, H // H_kv, N, n_tiles, D**-0.5 * LOG2E,
        D=D, WARPGROUPS=warpgroups, STAGES=stages, CAUSAL=causal,
        MASKED=causal or N % BLOCK_N.value != 0, TURNS=turns, HELD=held, REGISTERS=registers,
        num_warps=4, maxnreg=at_start,
    )  # fmt: skip
    return o, lse
