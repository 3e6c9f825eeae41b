"""Correct in another style: products and sums instead of tl.dot, no idle rows, exp2."""

import torch
import triton
import triton.language as tl

BLOCK_N = 16  # keys of a tile, a power of two from 16; read at every call; any page size fits it
DTYPES = (torch.float16, torch.bfloat16, torch.float32)


@triton.jit
def paged_decode_kernel(
    q_ptr,  # [B, H, 1, D]
    k_ptr,  # [P, page, H_kv, D]
    v_ptr,  # [P, page, H_kv, D]
    table_ptr,  # [B, pages], int32
    cache_seqlens_ptr,  # [B], int32
    o_ptr,  # [B, H, 1, D], contiguous
    lse_ptr,  # [B, H, 1], fp32, contiguous
    stride_qb, stride_qh, stride_qd,
    stride_kp, stride_kn, stride_kh, stride_kd,
    stride_vp, stride_vn, stride_vh, stride_vd,
    stride_tb, stride_tp,
    stride_cb,
    H_kv,
    sm_scale,
    PAGE: tl.constexpr,  # keys of a page; known to the compiler, so that / and % are cheap
    D: tl.constexpr,
    GROUP: tl.constexpr,  # query heads that share a key head
    BLOCK_G: tl.constexpr,  # rows of the query tile: GROUP up to a power of two from 16
    BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr,  # D up to a power of two: a tile's size has to be one
):  # fmt: skip
    # Given: which key head of which batch is mine, and how many keys it has
    head = tl.program_id(0).to(tl.int64)  # b * H_kv + h_kv; int64: an offset may pass 2**31
    b, h_kv = head // H_kv, head % H_kv
    length = tl.load(cache_seqlens_ptr + b * stride_cb)  # 4 bytes

    # Given: offsets and masks; the query heads of the group are the rows of one tile
    offs_g = tl.arange(0, BLOCK_G)  # [BLOCK_G]
    offs_d = tl.arange(0, BLOCK_D).to(tl.int64)[None, :]  # [1, BLOCK_D]
    mask_g = offs_g < GROUP
    mask_d = offs_d < D
    mask_q = mask_g[:, None] & mask_d  # [BLOCK_G, BLOCK_D]
    h = h_kv * GROUP + offs_g
    q_ptrs = q_ptr + b * stride_qb + h[:, None] * stride_qh + offs_d * stride_qd
    q = tl.load(q_ptrs, mask=mask_q, other=0.0).to(tl.float32)  # [BLOCK_G, BLOCK_D]
    k_head = k_ptr + h_kv * stride_kh + offs_d * stride_kd
    v_head = v_ptr + h_kv * stride_vh + offs_d * stride_vd
    table = table_ptr + b * stride_tb  # my batch's row

    # Given: running state, in fp32
    m_i = tl.full([BLOCK_G], float("-inf"), tl.float32)
    l_i = tl.zeros([BLOCK_G], tl.float32)
    acc = tl.zeros([BLOCK_G, BLOCK_D], tl.float32)

    for start_n in range(0, length, BLOCK_N):
        offs_n = start_n + tl.arange(0, BLOCK_N)  # [BLOCK_N], the keys of this tile, in order

        # 1. Where the keys lie
        mask_n = offs_n < length
        entries = table + (offs_n // PAGE) * stride_tp
        page = tl.load(entries, mask=mask_n, other=0).to(tl.int64)  # [BLOCK_N], 4 bytes a key
        slot = (offs_n % PAGE).to(tl.int64)

        # 2. Load the tile, score, mask
        mask_kv = mask_n[:, None] & mask_d  # [BLOCK_N, BLOCK_D]
        k_ptrs = k_head + page[:, None] * stride_kp + slot[:, None] * stride_kn
        v_ptrs = v_head + page[:, None] * stride_vp + slot[:, None] * stride_vn
        k = tl.load(k_ptrs, mask=mask_kv, other=0.0)  # once, for GROUP heads
        v = tl.load(v_ptrs, mask=mask_kv, other=0.0)
        s = sm_scale * tl.sum(q[:, None, :] * k[None, :, :].to(tl.float32), 2)
        s = tl.where(mask_n[None, :], s, float("-inf"))

        # 3. Weights, rescale, accumulate
        m_new = tl.maximum(m_i, tl.max(s, 1))  # finite: every tile has a key
        alpha = tl.exp2(1.4426950408889634 * (m_i - m_new))
        p = tl.exp2(1.4426950408889634 * (s - m_new[:, None]))  # [BLOCK_G, BLOCK_N]
        l_i = alpha * l_i + tl.sum(p, 1)
        acc = acc * alpha[:, None] + tl.sum(p[:, :, None] * v[None, :, :].to(tl.float32), 1)
        m_i = m_new

    # Given: where the results go
    row = head * GROUP + offs_g  # [BLOCK_G], b * H + h
    o_ptrs = o_ptr + row[:, None] * D + offs_d
    lse_ptrs = lse_ptr + row

    # 4. Finish and store
    l_safe = tl.where(l_i == 0.0, 1.0, l_i)
    tl.store(o_ptrs, acc / l_safe[:, None], mask=mask_q)
    tl.store(lse_ptrs, m_i + tl.log(l_safe), mask=mask_g)


def check_inputs(q, k_pages, v_pages, block_table, cache_seqlens):
    """Raise a ValueError that says which argument does not fit, and what came."""
    for name, x in (("q", q), ("k_pages", k_pages), ("v_pages", v_pages)):
        shape = "[B, H, 1, D]" if name == "q" else "[P, page, H_kv, D]"
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
    (B, H, _, D), (_, page, H_kv, _) = q.shape, k_pages.shape
    if page < 1 or k_pages.shape[3] != D or H % max(1, H_kv):
        wanted = f"[P, page, H_kv, {D}] with page >= 1 and H_kv a divisor of {H}"
        raise ValueError(f"k_pages must have shape {wanted}, not {list(k_pages.shape)}")
    if v_pages.shape != k_pages.shape:
        wanted, came = list(k_pages.shape), list(v_pages.shape)
        raise ValueError(f"v_pages must have shape {wanted} like k_pages, not {came}")
    for name, x, shape in (
        ("block_table", block_table, f"[{B}, pages]"),
        ("cache_seqlens", cache_seqlens, f"[{B}]"),
    ):
        if not isinstance(x, torch.Tensor):
            came = type(x).__name__
            raise ValueError(f"{name} must be a tensor {shape} of torch.int32, not {came}")
        if x.dtype != torch.int32 or x.device != q.device:
            wanted, came = f"torch.int32 on {q.device}", f"{x.dtype} on {x.device}"
            raise ValueError(f"{name} must be {wanted}, not {came}: move or cast it")
        if x.dim() != shape.count(",") + 1 or len(x) != B:
            raise ValueError(f"{name} must have shape {shape}, not {list(x.shape)}")
    if q.device.type == "cpu":
        check_values(block_table.tolist(), cache_seqlens.tolist(), page, len(k_pages))


def check_values(table, lengths, page, P):
    """Raise a ValueError if a length has no room or an entry that a key needs names no page."""
    most = page * (len(table[0]) if table else 0)
    if not all(0 <= n <= most for n in lengths):
        raise ValueError(
            f"cache_seqlens must lie from 0 to {most}, the room there is, not {lengths}"
        )
    for b, n in enumerate(lengths):
        used = table[b][: -(-n // page)]
        if not all(0 <= entry < P for entry in used):
            wanted = f"name pages from 0 to {P - 1} where batch {b} has keys"
            raise ValueError(f"block_table must {wanted}, not {used}")


def paged_decode(
    q: torch.Tensor,
    k_pages: torch.Tensor,
    v_pages: torch.Tensor,
    block_table: torch.Tensor,
    cache_seqlens: torch.Tensor,
    *,
    sm_scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    check_inputs(q, k_pages, v_pages, block_table, cache_seqlens)
    (B, H, _, D), (_, page, H_kv, _) = q.shape, k_pages.shape
    if B * H * H_kv == 0:  # nothing to launch for
        lse = torch.full([B, H, 1], float("-inf"), dtype=torch.float32, device=q.device)
        return torch.zeros([B, H, 1, D], dtype=q.dtype, device=q.device), lse
    o = torch.empty([B, H, 1, D], dtype=q.dtype, device=q.device)
    lse = torch.empty([B, H, 1], dtype=torch.float32, device=q.device)
    BLOCK_D = max(16, triton.next_power_of_2(D))
    shrink = max(1, BLOCK_D * q.element_size() // 256)  # tiles of long rows would not fit on chip
    stride_qb, stride_qh, _, stride_qd = q.stride()
    paged_decode_kernel[(B * H_kv,)](
        q, k_pages, v_pages, block_table, cache_seqlens, o, lse,
        stride_qb, stride_qh, stride_qd, *k_pages.stride(), *v_pages.stride(),
        *block_table.stride(), cache_seqlens.stride(0),
        H_kv,
        D**-0.5 if sm_scale is None else float(sm_scale),
        PAGE=page, D=D, GROUP=H // H_kv,
        BLOCK_G=triton.next_power_of_2(H // H_kv),
        BLOCK_N=max(16, BLOCK_N // shrink), BLOCK_D=BLOCK_D,
        num_warps=4,
        num_stages=3,
    )  # fmt: skip
    return o, lse
