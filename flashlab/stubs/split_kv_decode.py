"""Decode with split keys: many programs share one query's cache, a second kernel merges them."""

import torch
import triton
import triton.language as tl

BLOCK_N = 32  # keys of a tile, a power of two from 16; read at every call
DTYPES = (torch.float16, torch.bfloat16, torch.float32)


@triton.jit
def split_kv_kernel(
    q_ptr,  # [B, H, 1, D]
    k_ptr,  # [B, H_kv, N, D]
    v_ptr,  # [B, H_kv, N, D]
    cache_seqlens_ptr,  # [B], int32; None: every cache holds N keys
    o_part_ptr,  # [num_splits, B, H, D], fp32, contiguous
    lse_part_ptr,  # [num_splits, B, H], fp32, contiguous
    stride_qb, stride_qh, stride_qd,
    stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd,
    stride_cb,
    B, H_kv, N, num_splits,
    sm_scale,
    D: tl.constexpr,
    GROUP: tl.constexpr,  # query heads that share a key head
    BLOCK_G: tl.constexpr,  # rows of the query tile: GROUP up to a power of two from 16
    BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr,  # D up to a power of two: a tile's size has to be one
):  # fmt: skip
    # Given: which share of which key head is mine
    pid = tl.program_id(0)
    split = pid % num_splits
    head = (pid // num_splits).to(tl.int64)  # b * H_kv + h_kv; int64: an offset may pass 2**31
    b, h_kv = head // H_kv, head % H_kv
    length = N
    if cache_seqlens_ptr is not None:
        length = tl.load(cache_seqlens_ptr + b * stride_cb)  # keys in the cache, 4 bytes
    offs_g = tl.arange(0, BLOCK_G)  # [BLOCK_G], rows of the query tile

    # 1. My query heads, my share of the keys
    # Step 1: define h, mask_g (a head a row; which are real), first, last (my keys)
    tl.static_assert(False, "Step 1 is not written yet")

    # Given: offsets, masks, the query of every head of the group
    offs_d = tl.arange(0, BLOCK_D).to(tl.int64)[None, :]  # [1, BLOCK_D]
    mask_d = offs_d < D
    mask_q = mask_g[:, None] & mask_d  # [BLOCK_G, BLOCK_D]
    q_ptrs = q_ptr + b * stride_qb + h[:, None] * stride_qh + offs_d * stride_qd
    q = tl.load(q_ptrs, mask=mask_q, other=0.0)  # [BLOCK_G, BLOCK_D], once per program
    keys = tl.arange(0, BLOCK_N)  # of a tile
    k_head = k_ptr + b * stride_kb + h_kv * stride_kh + offs_d * stride_kd
    v_head = v_ptr + b * stride_vb + h_kv * stride_vh + offs_d * stride_vd
    k_tile = k_head + keys.to(tl.int64)[:, None] * stride_kn  # [BLOCK_N, BLOCK_D], from key 0
    v_tile = v_head + keys.to(tl.int64)[:, None] * stride_vn

    # Given: running state, in fp32
    m_i = tl.full([BLOCK_G], float("-inf"), tl.float32)
    l_i = tl.zeros([BLOCK_G], tl.float32)
    acc = tl.zeros([BLOCK_G, BLOCK_D], tl.float32)

    for start_n in range(first, last, BLOCK_N):
        offs_n = start_n + keys  # [BLOCK_N], the keys of this tile
        start = tl.cast(start_n, tl.int64)

        # 2. Load the tile, score, mask
        # Step 2: load k and v once for the whole group, score, hide; define v, s
        tl.static_assert(False, "Step 2 is not written yet")

        # 3. Weights, rescale, accumulate
        # Step 3: online softmax as in lab 04, not divided yet: update m_i, l_i, acc
        tl.static_assert(False, "Step 3 is not written yet")

    # Given: where my part goes, one row for each query head
    part = (split.to(tl.int64) * B * H_kv + head) * GROUP + offs_g  # [BLOCK_G]
    o_part_ptrs = o_part_ptr + part[:, None] * D + offs_d  # [BLOCK_G, BLOCK_D]
    lse_part_ptrs = lse_part_ptr + part

    # 4. Store my part
    # Step 4: store o and lse (nats) of my keys alone; no keys: 0 and -inf, never NaN
    tl.static_assert(False, "Step 4 is not written yet")


@triton.jit
def split_kv_merge_kernel(
    o_part_ptr,  # [num_splits, B, H, D], fp32, contiguous
    lse_part_ptr,  # [num_splits, B, H], fp32, contiguous
    o_ptr,  # [B, H, 1, D], contiguous
    lse_ptr,  # [B, H, 1], fp32, contiguous
    rows, num_splits,
    D: tl.constexpr, BLOCK_S: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    # Given: my row is one query head of one batch; its parts lie rows apart
    row = tl.program_id(0).to(tl.int64)
    offs_d = tl.arange(0, BLOCK_D)  # [BLOCK_D]
    mask_d = offs_d < D
    m_all = float("-inf")
    l_all = 0.0
    o = tl.zeros([BLOCK_D], tl.float32)

    for start_s in range(0, num_splits, BLOCK_S):
        offs_s = start_s + tl.arange(0, BLOCK_S)  # [BLOCK_S], the parts of this tile
        mask_s = offs_s < num_splits
        parts = offs_s.to(tl.int64) * rows + row
        o_ptrs = o_part_ptr + parts[:, None] * D + offs_d[None, :]
        mask_o = mask_s[:, None] & mask_d[None, :]
        lse_s = tl.load(lse_part_ptr + parts, mask=mask_s, other=float("-inf"))  # [BLOCK_S]
        o_s = tl.load(o_ptrs, mask=mask_o, other=0.0)  # [BLOCK_S, BLOCK_D], once

        # 5. Merge the parts
        # Step 5: lab 03 with BLOCK_S parts at once: update m_all, l_all, o; no NaN
        tl.static_assert(False, "Step 5 is not written yet")

    # Given: divide once, store
    total = tl.where(l_all == 0.0, 1.0, l_all)  # no key at all: o 0, lse -inf
    tl.store(o_ptr + row * D + offs_d, o / total, mask=mask_d)
    tl.store(lse_ptr + row, m_all + tl.log(total))


def check_inputs(q, k, v, cache_seqlens, num_splits):
    """Raise a ValueError that says which argument does not fit, and what came."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        shape = "[B, H, 1, D]" if name == "q" else "[B, H_kv, N, D]"
        if not isinstance(x, torch.Tensor) or x.dim() != 4 or x.shape[3] < 1:
            came = list(x.shape) if isinstance(x, torch.Tensor) else type(x).__name__
            raise ValueError(f"{name} must be a tensor {shape} with D >= 1, not {came}")
        if x.dtype not in DTYPES:
            raise ValueError(f"{name} must have a dtype of {DTYPES}, not {x.dtype}: cast it")
        if x.dtype != q.dtype or x.device != q.device:
            wanted, came = f"{q.dtype} on {q.device}", f"{x.dtype} on {x.device}"
            raise ValueError(f"{name} must be {wanted} like q, not {came}: move or cast it")
        if name == "q" and (q.shape[2] != 1 or q.shape[3] > 256):
            wanted = "[B, H, 1, D] with one query a head and D <= 256"
            raise ValueError(f"q must have shape {wanted}, not {list(q.shape)}")
    (B, H, _, D), (H_kv, N) = q.shape, k.shape[1:3]
    if list(k.shape) != [B, H_kv, N, D] or H % max(1, H_kv):
        wanted = f"[{B}, H_kv, N, {D}] with H_kv a divisor of {H}"
        raise ValueError(f"k must have shape {wanted}, not {list(k.shape)}")
    if v.shape != k.shape:
        raise ValueError(f"v must have shape {list(k.shape)} like k, not {list(v.shape)}")
    if not isinstance(num_splits, int) or num_splits < 1:
        raise ValueError(f"num_splits must be a positive integer, not {num_splits!r}: try 8")
    if cache_seqlens is not None:
        check_lengths(cache_seqlens, B, N, q.device)


def check_lengths(x, B, most, device):
    """Raise a ValueError unless cache_seqlens is int32 [B], on a CPU also from 0 to most."""
    name = "cache_seqlens"
    if not isinstance(x, torch.Tensor):
        raise ValueError(f"{name} must be a tensor [{B}] of torch.int32, not {type(x).__name__}")
    if x.dtype != torch.int32 or x.device != device:
        came = f"{x.dtype} on {x.device}"
        raise ValueError(f"{name} must be torch.int32 on {device}, not {came}: move or cast it")
    if list(x.shape) != [B]:
        raise ValueError(f"{name} must have shape [{B}], not {list(x.shape)}")
    if x.device.type == "cpu" and not all(0 <= n <= most for n in x.tolist()):
        came = x.tolist()
        raise ValueError(f"{name} must lie from 0 to {most}, the room there is, not {came}")


def split_kv_decode(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    cache_seqlens: torch.Tensor | None = None,
    num_splits: int,
    sm_scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    check_inputs(q, k, v, cache_seqlens, num_splits)
    (B, H, _, D), (H_kv, N) = q.shape, k.shape[1:3]
    if B * H * H_kv * N == 0:  # nothing to launch for
        lse = torch.full([B, H, 1], float("-inf"), dtype=torch.float32, device=q.device)
        return torch.zeros([B, H, 1, D], dtype=q.dtype, device=q.device), lse
    o = torch.empty([B, H, 1, D], dtype=q.dtype, device=q.device)
    lse = torch.empty([B, H, 1], dtype=torch.float32, device=q.device)
    o_part = torch.empty([num_splits, B, H, D], dtype=torch.float32, device=q.device)
    lse_part = torch.empty([num_splits, B, H], dtype=torch.float32, device=q.device)
    BLOCK_D = max(16, triton.next_power_of_2(D))
    shrink = max(1, BLOCK_D * q.element_size() // 256)  # tiles of long rows would not fit on chip
    stride_qb, stride_qh, _, stride_qd = q.stride()
    split_kv_kernel[(num_splits * B * H_kv,)](
        q, k, v, cache_seqlens, o_part, lse_part,
        stride_qb, stride_qh, stride_qd, *k.stride(), *v.stride(),
        0 if cache_seqlens is None else cache_seqlens.stride(0),
        B, H_kv, N, num_splits,
        D**-0.5 if sm_scale is None else float(sm_scale),
        D=D, GROUP=H // H_kv,
        BLOCK_G=max(16, triton.next_power_of_2(H // H_kv)),  # idle rows cost no memory traffic
        BLOCK_N=max(16, BLOCK_N // shrink), BLOCK_D=BLOCK_D,
        num_warps=4,
        num_stages=4 if shrink < 4 else 3,  # three tiles on their way: time is waiting for memory
    )  # fmt: skip
    split_kv_merge_kernel[(B * H,)](
        o_part, lse_part, o, lse, B * H, num_splits,
        D=D, BLOCK_S=min(64, triton.next_power_of_2(num_splits)), BLOCK_D=BLOCK_D,
        num_warps=4,
    )  # fmt: skip
    return o, lse
