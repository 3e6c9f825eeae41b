"""FlashAttention-3 forward in Gluon: TMA, mbarriers, wgmma, warps with roles, a persistent grid.

A producer warp brings tiles to shared memory; two or three consumer warpgroups own 64 query rows
each and keep s, p and acc in registers. For Hopper (sm_90) alone.
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

if hasattr(tma, "async_load"):  # Triton 3.9's names; the older ones are still there and raise
    tma_load, tma_store = tma.async_load, tma.async_store
else:
    tma_load, tma_store = tma.async_copy_global_to_shared, tma.async_copy_shared_to_global

ROWS = gl.constexpr(64)  # query rows of a warpgroup: a wgmma has 64
BLOCK_N = gl.constexpr(128)  # key rows of a block
S_LAYOUT = gl.constexpr(gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 128, 16]))  # of a wgmma
S_ROW = gl.constexpr(gl.SliceLayout(1, S_LAYOUT.value))  # one number a row of s
S_COLUMN = gl.constexpr(gl.SliceLayout(0, S_LAYOUT.value))  # one a column
LOG2E = 1.4426950408889634
LN2 = gl.constexpr(0.6931471805599453)


@gluon.jit
def slot_of(i, STAGES: gl.constexpr):
    """Slot of this program's block number i, and the phase that ends when it is full."""
    return i % STAGES, i // STAGES & 1


@gluon.jit
def start_qk(q, k_buf, D: gl.constexpr):
    """Start q k^T -> [ROWS, BLOCK_N]; both factors are read from shared memory."""
    zeros = gl.zeros([ROWS, BLOCK_N], gl.float32, S_LAYOUT)
    k = k_buf.reshape([BLOCK_N, D]).permute((1, 0))
    return warpgroup_mma(q, k, zeros, use_acc=False, is_async=True)


@gluon.jit
def start_pv(p, v_buf, acc, D: gl.constexpr):
    """Start acc + p v -> [ROWS, D]; p is read from registers, where it lies as it must."""
    P_LAYOUT: gl.constexpr = gl.DotOperandLayout(0, acc.type.layout, k_width=2)
    p = gl.convert_layout(p.to(v_buf.dtype), P_LAYOUT)
    return warpgroup_mma(p, v_buf.reshape([BLOCK_N, D]), acc, is_async=True)


@gluon.jit
def softmax(s, m_log2, l_i, scale):
    """Lab 07's online softmax; scale holds log2(e), so that m_log2 is in base 2."""
    m_new = gl.maximum(m_log2, gl.max(s, 1) * scale)
    alpha = gl.exp2(m_log2 - m_new)
    p = gl.exp2(s * scale - m_new[:, None])
    return m_new, alpha * l_i + gl.sum(p, 1), p, alpha


@gluon.jit
def times(acc, factor):
    """Every row of acc times its own factor."""
    return acc * gl.convert_layout(factor, gl.SliceLayout(1, acc.type.layout))[:, None]


@gluon.jit
def first_scores(q, i, k_ring, D: gl.constexpr, STAGES: gl.constexpr):
    # 1. One warpgroup with TMA
    k_bufs, k_full, k_empty = k_ring
    stage, phase = slot_of(i, STAGES)
    # Step 1: wait until block i is in its slot; define s = q k^T; give the slot back
    gl.static_assert(False, "Step 1 is not written yet")
    return s


@gluon.jit
def load_block(desc, ring, i, b, h, start, STAGES: gl.constexpr):
    # 2. Producer and consumer
    bufs, full, empty = ring
    stage, phase = slot_of(i, STAGES)
    # Step 2: wait until the slot is empty, expect the block's bytes, start TMA's copy
    gl.static_assert(False, "Step 2 is not written yet")


@gluon.jit
def my_share(
    row, n_blocks, i, reach, k_ring, v_ring,
    W: gl.constexpr, STAGES: gl.constexpr, CAUSAL: gl.constexpr,
):  # fmt: skip
    # 3. Two consumers: row r sees the first r + reach + 1 keys of the tile's blocks
    k_bufs, k_full, k_empty = k_ring
    v_bufs, v_full, v_empty = v_ring
    # Step 3: move row to mine; hand back blocks that I do not see; set n_blocks and i
    gl.static_assert(False, "Step 3 is not written yet")
    return row, n_blocks, i


@gluon.jit
def overlapped(
    s, m_log2, l_i, acc, q, i, scale, k_ring, v_ring, D: gl.constexpr, STAGES: gl.constexpr
):
    # 4. Overlap of softmax and products
    k_bufs, k_full, k_empty = k_ring
    v_bufs, v_full, v_empty = v_ring
    stage, phase = slot_of(i, STAGES)
    next_stage, next_phase = slot_of(i + 1, STAGES)
    # Step 4: take block i into m_log2, l_i, acc and start s of block i + 1 behind it
    gl.static_assert(False, "Step 4 is not written yet")
    return s, m_log2, l_i, acc


@gluon.jit
def next_tile(counter, n_tiles, t, next_ring):
    # 5. Persistent grid
    next_buf, next_full, next_empty = next_ring
    # Step 5: draw a ticket, define tile, leave it in next_buf; the last one resets
    gl.static_assert(False, "Step 5 is not written yet")
    return tile


@gluon.jit
def tile_of(tile, sizes, BLOCK_M: gl.constexpr, CAUSAL: gl.constexpr):
    """Number of a tile -> b, h, its first row, its key blocks. Causal: a head's longest first."""
    H, group, N_q, N_k, first, shift, n_tiles = sizes
    tiles = gl.cdiv(N_q, BLOCK_M)  # of a head
    head, place = tile // tiles, tile % tiles
    n_blocks = gl.cdiv(N_k - first, BLOCK_N)
    if CAUSAL:
        place = tiles - 1 - place
        seen = gl.cdiv((place + 1) * BLOCK_M + shift - first, BLOCK_N)
        n_blocks = gl.maximum(gl.minimum(n_blocks, seen), 1)  # of no visible block: one, hidden
    return head // H, head % H, place * BLOCK_M, n_blocks


@gluon.jit
def producer(ctx, WARPGROUPS: gl.constexpr, STAGES: gl.constexpr, CAUSAL: gl.constexpr):
    descs, rings, lse_ptr, counter, sizes, scale = ctx
    q_desc, k_desc, v_desc, o_desc = descs
    q_ring, k_ring, v_ring, o_bufs, next_ring = rings
    q_bufs, q_full, q_empty = q_ring
    H, group, N_q, N_k, first, shift, n_tiles = sizes
    tile = gl.program_id(0)
    t = 0  # tiles of this program so far
    i = 0  # key blocks of this program so far
    while tile < n_tiles:
        b, h, row, n_blocks = tile_of(tile, sizes, WARPGROUPS * ROWS, CAUSAL)
        for w in gl.static_range(WARPGROUPS):  # a tile fills every slot of q once
            mbarrier.wait(q_empty.index(w), (t & 1) ^ 1)
            mbarrier.expect(q_full.index(w), q_desc.block_type.nbytes)
            tma_load(q_desc, [b, h, row + w * ROWS, 0], q_full.index(w), q_bufs.index(w))
        for n in range(n_blocks):  # right to left: the block that needs a mask comes first
            start = first + (n_blocks - 1 - n) * BLOCK_N
            load_block(k_desc, k_ring, i, b, h // group, start, STAGES)
            load_block(v_desc, v_ring, i, b, h // group, start, STAGES)
            i += 1
        tile = next_tile(counter, n_tiles, t, next_ring)
        t += 1


@gluon.jit
def consumer(
    ctx, W: gl.constexpr, D: gl.constexpr, WARPGROUPS: gl.constexpr, STAGES: gl.constexpr,
    CAUSAL: gl.constexpr, MASKED: gl.constexpr, SHIFTED: gl.constexpr, NEGATIVE: gl.constexpr,
    UNSEEN: gl.constexpr,
):  # fmt: skip
    descs, rings, lse_ptr, counter, sizes, scale = ctx
    q_desc, k_desc, v_desc, o_desc = descs
    q_ring, k_ring, v_ring, o_bufs, next_ring = rings
    q_bufs, q_full, q_empty = q_ring
    v_bufs, v_full, v_empty = v_ring
    next_buf, next_full, next_empty = next_ring
    H, group, N_q, N_k, first, shift, n_tiles = sizes
    O_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    q = q_bufs.index(W).reshape([ROWS, D])
    tile = gl.program_id(0)
    t = 0
    i = 0
    while tile < n_tiles:
        b, h, row, n_blocks = tile_of(tile, sizes, WARPGROUPS * ROWS, CAUSAL)
        row, n_blocks, i = my_share(
            row, n_blocks, i, shift - first, k_ring, v_ring, W, STAGES, CAUSAL
        )
        rows = row + gl.arange(0, ROWS, layout=S_ROW)
        m_log2 = gl.full([ROWS], -float("inf"), gl.float32, S_ROW)
        l_i = gl.zeros([ROWS], gl.float32, S_ROW)
        acc = gl.zeros([ROWS, D], gl.float32, O_LAYOUT)

        # Given: scores of the first block, which alone hides keys to the right
        mbarrier.wait(q_full.index(W), t & 1)
        s = first_scores(q, i, k_ring, D, STAGES)  # [ROWS, BLOCK_N]
        if NEGATIVE:  # the largest s has to be the largest score
            s = -s
        if MASKED:
            sees = rows + (shift + 1) if CAUSAL else gl.full([ROWS], N_k, gl.int32, S_ROW)
            sees -= first + (n_blocks - 1) * BLOCK_N  # so many keys of this block
            s = gl.where(
                gl.arange(0, BLOCK_N, S_COLUMN)[None, :] < sees[:, None], s, -float("inf")
            )
        for _ in range(n_blocks - 1):
            s, m_log2, l_i, acc = overlapped(
                s, m_log2, l_i, acc, q, i, scale, k_ring, v_ring, D, STAGES
            )
            if NEGATIVE:
                s = -s
            i += 1
        mbarrier.arrive(q_empty.index(W), count=1)

        # Given: the last block, behind which no scores start; lse while its product runs
        if SHIFTED:  # it starts before key 0
            s = gl.where(gl.arange(0, BLOCK_N, S_COLUMN)[None, :] >= 0 - first, s, -float("inf"))
        stage, phase = slot_of(i, STAGES)
        m_log2, l_i, p, alpha = softmax(s, m_log2, l_i, scale)
        acc = times(acc, alpha)
        mbarrier.wait(v_full.index(stage), phase)
        acc = start_pv(p, v_bufs.index(stage), acc, D)
        lse = (m_log2 + gl.log2(l_i)) * LN2
        if UNSEEN:  # rows that see no key hold NaN so far: -inf - -inf
            lse = gl.where(rows + shift >= 0, lse, -float("inf"))
        gl.store(lse_ptr + (b * H + h).to(gl.int64) * N_q + rows, lse, mask=rows < N_q)
        acc = warpgroup_mma_wait(0, deps=(acc,))
        mbarrier.arrive(v_empty.index(stage), count=1)
        i += 1

        # Given: divide once; store by TMA, which leaves out rows from N_q on
        o = times(acc, 1.0 / l_i)
        if UNSEEN:
            seen = gl.convert_layout(rows + shift >= 0, gl.SliceLayout(1, O_LAYOUT))
            o = gl.where(seen[:, None], o, 0.0)
        tma.store_wait(0)  # the tile before has left o_bufs
        o_bufs.index(W).reshape([ROWS, D]).store(o.to(o_desc.dtype))
        fence_async_shared()  # TMA sees what registers stored
        tma_store(o_desc, [b, h, row, 0], o_bufs.index(W))
        mbarrier.wait(next_full.index(0), t & 1)
        tile = gl.max(next_buf.load(gl.BlockedLayout([1], [32], [4], [0])), 0)
        mbarrier.arrive(next_empty.index(0), count=1)
        t += 1
    tma.store_wait(0)


@gluon.jit
def barriers(n: gl.constexpr, arrivals: gl.constexpr):
    """n mbarriers; a phase ends after so many arrivals, and the bytes that these expect."""
    bars = gl.allocate_shared_memory(gl.int64, [n, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(n):
        mbarrier.init(bars.index(i), count=arrivals)
    return bars


@gluon.jit
def flash3_fwd_kernel(
    q_desc, k_desc, v_desc, o_desc,  # [B, H, N_q, D] by ROWS rows, [B, H_kv, N_k, D] by BLOCK_N
    lse_ptr,  # [B, H, N_q], fp32, contiguous
    counter,  # [1], int32: tickets drawn so far, 0 between launches
    H, group, N_q, N_k,
    first,  # key where blocks start: 0, or below, so that a warpgroup's diagonal is in one block
    shift,  # query i sees key j if j <= i + shift
    n_tiles,
    scale,  # |sm_scale| * log2(e), above 0
    D: gl.constexpr, CAUSAL: gl.constexpr,
    WARPGROUPS: gl.constexpr,  # consumers: 2 or 3
    STAGES: gl.constexpr,  # slots of k, and of v
    MASKED: gl.constexpr,  # the block that a warpgroup multiplies first may hide keys
    SHIFTED: gl.constexpr,  # first is below 0
    NEGATIVE: gl.constexpr,  # sm_scale is below 0
    UNSEEN: gl.constexpr,  # some queries see no key
    REGISTERS: gl.constexpr,  # of a consumer's thread
):  # fmt: skip
    dtype: gl.constexpr = q_desc.dtype
    q_bufs = gl.allocate_shared_memory(dtype, [WARPGROUPS, 1, 1, ROWS, D], q_desc.layout)
    o_bufs = gl.allocate_shared_memory(dtype, [WARPGROUPS, 1, 1, ROWS, D], o_desc.layout)
    k_bufs = gl.allocate_shared_memory(dtype, [STAGES, 1, 1, BLOCK_N, D], k_desc.layout)
    v_bufs = gl.allocate_shared_memory(dtype, [STAGES, 1, 1, BLOCK_N, D], v_desc.layout)
    next_buf = gl.allocate_shared_memory(gl.int32, [1], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    rings = (  # slots; full: TMA's bytes came (next_buf: the producer wrote); empty: all have read
        (q_bufs, barriers(WARPGROUPS, 1), barriers(WARPGROUPS, 1)),
        (k_bufs, barriers(STAGES, 1), barriers(STAGES, WARPGROUPS)),
        (v_bufs, barriers(STAGES, 1), barriers(STAGES, WARPGROUPS)),
        o_bufs,
        (next_buf, barriers(1, 1), barriers(1, WARPGROUPS)),
    )
    sizes = (H, group, N_q, N_k, first, shift, n_tiles)
    ctx = ((q_desc, k_desc, v_desc, o_desc), rings, lse_ptr, counter, sizes, scale)
    # Roles; then warps, then registers, of all but the first, which runs in the launch's 4 warps
    if WARPGROUPS == 2:
        gl.warp_specialize([
            (consumer, (ctx, 0, D, 2, STAGES, CAUSAL, MASKED, SHIFTED, NEGATIVE, UNSEEN)),
            (consumer, (ctx, 1, D, 2, STAGES, CAUSAL, MASKED, SHIFTED, NEGATIVE, UNSEEN)),
            (producer, (ctx, 2, STAGES, CAUSAL)),
        ], [4, 1], [REGISTERS, 24])  # fmt: skip
    else:
        gl.warp_specialize([
            (consumer, (ctx, 0, D, 3, STAGES, CAUSAL, MASKED, SHIFTED, NEGATIVE, UNSEEN)),
            (consumer, (ctx, 1, D, 3, STAGES, CAUSAL, MASKED, SHIFTED, NEGATIVE, UNSEEN)),
            (consumer, (ctx, 2, D, 3, STAGES, CAUSAL, MASKED, SHIFTED, NEGATIVE, UNSEEN)),
            (producer, (ctx, 3, STAGES, CAUSAL)),
        ], [4, 4, 1], [REGISTERS, REGISTERS, 24])  # fmt: skip


counters = {}  # of each device and stream, on which launches follow each other


def check_inputs(q, k, v):
    """Raise a ValueError that says which of q, k, v does not fit, and what came."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        if not isinstance(x, torch.Tensor) or x.dim() != 4 or x.shape[3] not in (64, 128):
            came = list(x.shape) if isinstance(x, torch.Tensor) else type(x).__name__
            raise ValueError(f"{name} must be a tensor [B, H, N, D] with D 64 or 128, not {came}")
        if x.dtype not in (torch.float16, torch.bfloat16):
            raise ValueError(f"{name} must be float16 or bfloat16, not {x.dtype}: cast it")
        if x.dtype != q.dtype or x.device != q.device:
            wanted, came = f"{q.dtype} on {q.device}", f"{x.dtype} on {x.device}"
            raise ValueError(f"{name} must be {wanted} like q, not {came}: move or cast it")
        steps = [step for n, step in zip(x.shape[:3], x.stride(), strict=False) if n > 1]
        if x.numel() and (x.stride(3) != 1 or any(n % 8 for n in steps) or x.data_ptr() % 16):
            raise ValueError(
                f"{name} must have stride 1 along D, other strides that are multiples of 8 and an "
                f"address that is one of 16, all for TMA, not strides {list(x.stride())} at "
                f"{x.data_ptr():#x}: pass a contiguous copy"
            )
    B, H, _, D = q.shape
    if list(k.shape) != [B, k.shape[1], k.shape[2], D] or H % max(1, k.shape[1]):
        wanted = f"[{B}, H_kv, N_k, {D}] with H_kv a divisor of {H}"
        raise ValueError(f"k must have shape {wanted}, not {list(k.shape)}")
    if v.shape != k.shape:
        wanted, came = list(k.shape), list(v.shape)
        raise ValueError(f"v must have shape {wanted} like k, not {came}")


def descriptor(x, rows):
    """What TMA needs to copy blocks of so many rows of x; rows outside of x are zeros to it."""
    block, D = [1, 1, rows.value, x.shape[3]], x.shape[3]
    dtype = gl.float16 if x.dtype == torch.float16 else gl.bfloat16
    layout = gl.NVMMASharedLayout.get_default_for(block, dtype)
    steps = [step if n > 1 else D for n, step in zip(x.shape, x.stride(), strict=True)]
    return TensorDescriptor(x, list(x.shape), steps[:3] + [1], block, layout)


def flash3_forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
    *, causal: bool = False, sm_scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    check_inputs(q, k, v)
    (B, H, N_q, D), (H_kv, N_k) = q.shape, k.shape[1:3]
    if B * H * N_q * N_k * H_kv == 0:  # nothing to launch for
        lse = torch.full([B, H, N_q], float("-inf"), dtype=torch.float32, device=q.device)
        return torch.zeros_like(q), lse
    o = torch.empty_like(q)
    lse = torch.empty([B, H, N_q], dtype=torch.float32, device=q.device)
    scale = D**-0.5 if sm_scale is None else float(sm_scale)
    shift = N_k - N_q
    first = -(-shift % BLOCK_N.value) if causal else 0
    # Consumers, slots, registers of a consumer's thread and, at the start, of every thread. An SM
    # has 65,536: 3 consumers of 128 threads take 160 each. They pay at D 64, where a block has
    # less to multiply and as much softmax, if queries are many and no second mask takes registers
    many = D == 64 and N_q >= 2048 and first == 0
    warpgroups, stages, registers, at_start = (3, 3, 160, 128) if many else (2, 2, 240, 168)
    n_tiles = triton.cdiv(N_q, ROWS.value * warpgroups) * B * H
    sms, stream = 132, 0  # where there is no GPU
    if q.is_cuda:
        sms = torch.cuda.get_device_properties(q.device).multi_processor_count
        stream = torch.cuda.current_stream(q.device).cuda_stream
    if (q.device, stream) not in counters:
        counters[q.device, stream] = torch.zeros(1, dtype=torch.int32, device=q.device)
    flash3_fwd_kernel[(min(sms, n_tiles),)](
        descriptor(q, ROWS), descriptor(k, BLOCK_N), descriptor(v, BLOCK_N), descriptor(o, ROWS),
        lse, counters[q.device, stream], H, H // H_kv, N_q, N_k, first, shift, n_tiles,
        max(abs(scale), 1e-30) * LOG2E,  # not 0: a hidden key's score is -inf * scale
        D=D, CAUSAL=causal, WARPGROUPS=warpgroups, STAGES=stages, REGISTERS=registers,
        MASKED=causal or N_k % BLOCK_N.value > 0, SHIFTED=first < 0, NEGATIVE=scale < 0,
        UNSEEN=causal and shift < 0,
        num_warps=4, maxnreg=at_start,
    )  # fmt: skip
    return o, lse
