"""FlashAttention with dropout: the backward pass draws the same random bits again."""

import torch
import triton
import triton.language as tl

BLOCK_M = 64  # query rows of a tile, a power of two from 16; read at every call
BLOCK_N = 64  # key rows of a tile, likewise
DTYPES = (torch.float16, torch.bfloat16, torch.float32)


@triton.jit
def keep_mask(seed, p_drop, head, offs_m, offs_n, N_q, N_k):
    # 1. Random bits of a tile
    # Step 1: number the weights of head, draw u for each; define keep, u >= p_drop
    tl.static_assert(False, "Step 1 is not written yet")
    return keep


@triton.jit
def scores(q, k, offs_m, offs_n, N_q, N_k, sm_scale, CAUSAL: tl.constexpr):
    # Given: s [BLOCK_M, BLOCK_N], -inf where a key is hidden or does not exist
    s = sm_scale * tl.dot(q, tl.trans(k), input_precision="ieee")
    visible = (offs_n < N_k)[None, :]
    if CAUSAL:
        visible = visible & (offs_n[None, :] <= offs_m[:, None] + N_k - N_q)
    return tl.where(visible, s, float("-inf"))


@triton.jit
def flash_dropout_fwd_kernel(
    q_ptr, k_ptr, v_ptr,  # [B, H, N_q, D], k and v [B, H, N_k, D]
    o_ptr, lse_ptr,  # [B, H, N_q, D] and [B, H, N_q], contiguous
    stride_qb, stride_qh, stride_qm, stride_qd,
    stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd,
    H, N_q, N_k, sm_scale, p_drop, seed,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
    CAUSAL: tl.constexpr,
):  # fmt: skip
    # Given: my block of queries, and a loop over all keys, as in flash_forward
    blocks = tl.cdiv(N_q, BLOCK_M)
    head = (tl.program_id(0) // blocks).to(tl.int64)  # b * H + h
    b, h = head // H, head % H
    offs_m = tl.program_id(0) % blocks * BLOCK_M + tl.arange(0, BLOCK_M)  # [BLOCK_M]
    offs_d = tl.arange(0, BLOCK_D).to(tl.int64)[None, :]  # [1, BLOCK_D]
    mask_m, mask_d = offs_m < N_q, offs_d < D
    rows = offs_m.to(tl.int64)[:, None]
    q_ptrs = q_ptr + b * stride_qb + h * stride_qh + rows * stride_qm + offs_d * stride_qd
    q = tl.load(q_ptrs, mask=mask_m[:, None] & mask_d, other=0.0)  # [BLOCK_M, BLOCK_D]
    m_i = tl.full([BLOCK_M], float("-inf"), tl.float32)
    l_i = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    for start_n in range(0, N_k, BLOCK_N):
        offs_n = start_n + tl.arange(0, BLOCK_N)  # [BLOCK_N]
        keys = offs_n.to(tl.int64)[:, None]
        mask_kv = (offs_n < N_k)[:, None] & mask_d
        k_ptrs = k_ptr + b * stride_kb + h * stride_kh + keys * stride_kn + offs_d * stride_kd
        v_ptrs = v_ptr + b * stride_vb + h * stride_vh + keys * stride_vn + offs_d * stride_vd
        k = tl.load(k_ptrs, mask=mask_kv, other=0.0)  # [BLOCK_N, BLOCK_D]
        v = tl.load(v_ptrs, mask=mask_kv, other=0.0)  # [BLOCK_N, BLOCK_D]
        s = scores(q, k, offs_m, offs_n, N_q, N_k, sm_scale, CAUSAL)  # [BLOCK_M, BLOCK_N]
        m_new = tl.maximum(m_i, tl.max(s, 1))
        m_safe = tl.where(m_new == float("-inf"), 0.0, m_new)
        alpha = tl.exp(m_i - m_safe)
        p = tl.exp(s - m_safe[:, None])  # [BLOCK_M, BLOCK_N]
        m_i = m_new

        # 2. Sum, drop, accumulate
        # Step 2: all of p in l_i, the kept part of p times v in acc; update l_i, acc
        tl.static_assert(False, "Step 2 is not written yet")

    # 3. Divide and make up for what was dropped
    # Step 3: define o (1 / (1 - p_drop) in it, 0 without keys) and lse in nats
    tl.static_assert(False, "Step 3 is not written yet")
    o_ptrs = o_ptr + (head * N_q + rows) * D + offs_d
    tl.store(o_ptrs, o, mask=mask_m[:, None] & mask_d)
    tl.store(lse_ptr + head * N_q + offs_m, lse, mask=mask_m)


@triton.jit
def flash_dropout_bwd_dq_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, do_ptr,  # o and do like q
    lse_ptr,  # [B, H, N_q], fp32
    dq_ptr, delta_ptr,  # [B, H, N_q, D] and [B, H, N_q], contiguous: this kernel writes both
    stride_qb, stride_qh, stride_qm, stride_qd,
    stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd,
    stride_ob, stride_oh, stride_om, stride_od,
    stride_dob, stride_doh, stride_dom, stride_dod,
    stride_lb, stride_lh, stride_lm,
    H, N_q, N_k, sm_scale, p_drop, seed,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
    CAUSAL: tl.constexpr,
):  # fmt: skip
    # Given: my block of queries, its delta, and a loop over all keys, as in flash_backward_dq
    blocks = tl.cdiv(N_q, BLOCK_M)
    head = (tl.program_id(0) // blocks).to(tl.int64)  # b * H + h
    b, h = head // H, head % H
    offs_m = tl.program_id(0) % blocks * BLOCK_M + tl.arange(0, BLOCK_M)  # [BLOCK_M]
    offs_d = tl.arange(0, BLOCK_D).to(tl.int64)[None, :]  # [1, BLOCK_D]
    mask_m, mask_d = offs_m < N_q, offs_d < D
    mask_q = mask_m[:, None] & mask_d
    rows = offs_m.to(tl.int64)[:, None]
    q_ptrs = q_ptr + b * stride_qb + h * stride_qh + rows * stride_qm + offs_d * stride_qd
    o_ptrs = o_ptr + b * stride_ob + h * stride_oh + rows * stride_om + offs_d * stride_od
    do_ptrs = do_ptr + b * stride_dob + h * stride_doh + rows * stride_dom + offs_d * stride_dod
    lse_ptrs = lse_ptr + b * stride_lb + h * stride_lh + offs_m.to(tl.int64) * stride_lm
    q = tl.load(q_ptrs, mask=mask_q, other=0.0)  # [BLOCK_M, BLOCK_D]
    do = tl.load(do_ptrs, mask=mask_q, other=0.0)  # [BLOCK_M, BLOCK_D]
    o = tl.load(o_ptrs, mask=mask_q, other=0.0)  # [BLOCK_M, BLOCK_D]
    lse = tl.load(lse_ptrs, mask=mask_m, other=0.0)  # [BLOCK_M]
    lse = tl.where(lse == float("-inf"), 0.0, lse)  # a row without keys: its scores are -inf too
    delta = tl.sum(do.to(tl.float32) * o.to(tl.float32), 1)  # [BLOCK_M]; o knows of dropout
    tl.store(delta_ptr + head * N_q + offs_m, delta, mask=mask_m)
    dq = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    for start_n in range(0, N_k, BLOCK_N):
        offs_n = start_n + tl.arange(0, BLOCK_N)  # [BLOCK_N]
        keys = offs_n.to(tl.int64)[:, None]
        mask_kv = (offs_n < N_k)[:, None] & mask_d
        k_ptrs = k_ptr + b * stride_kb + h * stride_kh + keys * stride_kn + offs_d * stride_kd
        v_ptrs = v_ptr + b * stride_vb + h * stride_vh + keys * stride_vn + offs_d * stride_vd
        k = tl.load(k_ptrs, mask=mask_kv, other=0.0)  # [BLOCK_N, BLOCK_D]
        v = tl.load(v_ptrs, mask=mask_kv, other=0.0)  # [BLOCK_N, BLOCK_D]
        s = scores(q, k, offs_m, offs_n, N_q, N_k, sm_scale, CAUSAL)
        p = tl.exp(s - lse[:, None])  # [BLOCK_M, BLOCK_N], before dropout

        # 4. dS and dQ of this tile
        # Step 4: dp passes through dropout as p did; define ds, add ds k to dq
        tl.static_assert(False, "Step 4 is not written yet")
    tl.store(dq_ptr + (head * N_q + rows) * D + offs_d, dq * sm_scale, mask=mask_q)


@triton.jit
def flash_dropout_bwd_dkdv_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr,
    lse_ptr, delta_ptr,  # [B, H, N_q], fp32; delta is contiguous
    dk_ptr, dv_ptr,  # [B, H, N_k, D], contiguous
    stride_qb, stride_qh, stride_qm, stride_qd,
    stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd,
    stride_dob, stride_doh, stride_dom, stride_dod,
    stride_lb, stride_lh, stride_lm,
    H, N_q, N_k, sm_scale, p_drop, seed,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
    CAUSAL: tl.constexpr,
):  # fmt: skip
    # Given: my block of keys, and a loop over all queries, as in flash_backward_dkdv
    blocks = tl.cdiv(N_k, BLOCK_N)
    head = (tl.program_id(0) // blocks).to(tl.int64)  # b * H + h
    b, h = head // H, head % H
    offs_n = tl.program_id(0) % blocks * BLOCK_N + tl.arange(0, BLOCK_N)  # [BLOCK_N]
    offs_d = tl.arange(0, BLOCK_D).to(tl.int64)[None, :]  # [1, BLOCK_D]
    mask_d = offs_d < D
    mask_kv = (offs_n < N_k)[:, None] & mask_d
    keys = offs_n.to(tl.int64)[:, None]
    k_ptrs = k_ptr + b * stride_kb + h * stride_kh + keys * stride_kn + offs_d * stride_kd
    v_ptrs = v_ptr + b * stride_vb + h * stride_vh + keys * stride_vn + offs_d * stride_vd
    k = tl.load(k_ptrs, mask=mask_kv, other=0.0)  # [BLOCK_N, BLOCK_D]
    v = tl.load(v_ptrs, mask=mask_kv, other=0.0)  # [BLOCK_N, BLOCK_D]
    dk = tl.zeros([BLOCK_N, BLOCK_D], tl.float32)
    dv = tl.zeros([BLOCK_N, BLOCK_D], tl.float32)
    for start_m in range(0, N_q, BLOCK_M):
        offs_m = start_m + tl.arange(0, BLOCK_M)  # [BLOCK_M]
        mask_m = offs_m < N_q
        rows = offs_m.to(tl.int64)
        mask_q = mask_m[:, None] & mask_d
        q_head = q_ptr + b * stride_qb + h * stride_qh + offs_d * stride_qd
        do_head = do_ptr + b * stride_dob + h * stride_doh + offs_d * stride_dod
        lse_ptrs = lse_ptr + b * stride_lb + h * stride_lh + rows * stride_lm
        q = tl.load(q_head + rows[:, None] * stride_qm, mask=mask_q, other=0.0)
        do = tl.load(do_head + rows[:, None] * stride_dom, mask=mask_q, other=0.0)
        lse = tl.load(lse_ptrs, mask=mask_m, other=0.0)  # [BLOCK_M]
        lse = tl.where(lse == float("-inf"), 0.0, lse)
        delta = tl.load(delta_ptr + head * N_q + rows, mask=mask_m, other=0.0)  # [BLOCK_M]
        s = scores(q, k, offs_m, offs_n, N_q, N_k, sm_scale, CAUSAL)
        p = tl.exp(s - lse[:, None])  # [BLOCK_M, BLOCK_N], before dropout

        # 5. dV and dK of this tile
        # Step 5: dv from the weights that made o; dp, ds as in step 4; update dv, dk
        tl.static_assert(False, "Step 5 is not written yet")
    at = (head * N_k + keys) * D + offs_d
    tl.store(dk_ptr + at, dk * sm_scale, mask=mask_kv)
    tl.store(dv_ptr + at, dv, mask=mask_kv)


def check_inputs(q, k, v, p, seed, **like_q):
    """Raise a ValueError that says which argument does not fit, and what came."""
    tensors = [("q", q, q), ("k", k, k), ("v", v, k), *((n, x, q) for n, x in like_q.items())]
    for name, x, rows in tensors:
        if not isinstance(x, torch.Tensor) or x.dim() != 4 or x.shape[3] < 1:
            came = list(x.shape) if isinstance(x, torch.Tensor) else type(x).__name__
            raise ValueError(f"{name} must be a tensor [B, H, N, D] with D >= 1, not {came}")
        if x.dtype not in DTYPES:
            raise ValueError(f"{name} must have a dtype of {DTYPES}, not {x.dtype}: cast it")
        if x.dtype != q.dtype or x.device != q.device:
            wanted, came = f"{q.dtype} on {q.device}", f"{x.dtype} on {x.device}"
            raise ValueError(f"{name} must be {wanted} like q, not {came}: move or cast it")
        wanted = [*q.shape[:2], rows.shape[2], q.shape[3]]
        if list(x.shape) != wanted:
            raise ValueError(f"{name} must have shape {wanted} to fit, not {list(x.shape)}")
    if q.shape[3] > 256:
        raise ValueError(f"q must have D <= 256 to fit on chip, not {list(q.shape)}")
    if not isinstance(p, int | float) or not 0 <= p < 1:
        raise ValueError(f"p must be a number from 0 to below 1, not {p!r}")
    if not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise ValueError(f"seed must be an int from 0 to 2**63 - 1, not {seed!r}")


def options(q, causal):
    """Tile sizes, halved for long rows, and switches that all kernels share."""
    D = q.shape[3]
    BLOCK_D = max(16, triton.next_power_of_2(D))
    shrink = max(1, BLOCK_D * q.element_size() ** 2 // 512)  # long rows, fp32: registers run out
    return {
        "D": D,
        "BLOCK_M": max(16, BLOCK_M // shrink),
        "BLOCK_N": max(16, BLOCK_N // shrink),
        "BLOCK_D": BLOCK_D,
        "CAUSAL": causal,
        "num_warps": 4 if D <= 32 else 8,
        "num_stages": 2,
    }


def flash_dropout(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    p: float,
    seed: int,
    causal: bool = False,
    sm_scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    check_inputs(q, k, v, p, seed)
    (B, H, N_q, D), N_k = q.shape, k.shape[2]
    if B * H * N_q * N_k == 0:  # nothing to launch for
        lse = torch.full([B, H, N_q], float("-inf"), dtype=torch.float32, device=q.device)
        return torch.zeros([B, H, N_q, D], dtype=q.dtype, device=q.device), lse
    o = torch.empty([B, H, N_q, D], dtype=q.dtype, device=q.device)
    lse = torch.empty([B, H, N_q], dtype=torch.float32, device=q.device)
    shared = options(q, causal)
    scale = D**-0.5 if sm_scale is None else float(sm_scale)
    flash_dropout_fwd_kernel[(triton.cdiv(N_q, shared["BLOCK_M"]) * B * H,)](
        q, k, v, o, lse,
        *q.stride(), *k.stride(), *v.stride(),
        H, N_q, N_k, scale, float(p), seed, **shared,
    )  # fmt: skip
    return o, lse


def flash_dropout_backward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    lse: torch.Tensor,
    do: torch.Tensor,
    *,
    p: float,
    seed: int,
    causal: bool = False,
    sm_scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    check_inputs(q, k, v, p, seed, o=o, do=do)
    (B, H, N_q, D), N_k = q.shape, k.shape[2]
    came = list(lse.shape) if isinstance(lse, torch.Tensor) else type(lse).__name__
    if came != [B, H, N_q]:
        raise ValueError(f"lse must have shape {[B, H, N_q]} to fit q, not {came}")
    if lse.dtype != torch.float32 or lse.device != q.device:
        wanted, came = f"torch.float32 on {q.device}", f"{lse.dtype} on {lse.device}"
        raise ValueError(f"lse must be {wanted}, not {came}: move or cast it")
    make = torch.zeros if B * H * N_q * N_k == 0 else torch.empty
    dq, dk, dv = (make(x.shape, dtype=q.dtype, device=q.device) for x in (q, k, v))
    if B * H * N_q * N_k == 0:  # nothing to launch for
        return dq, dk, dv
    delta = torch.empty([B, H, N_q], dtype=torch.float32, device=q.device)
    shared = options(q, causal)
    scale = D**-0.5 if sm_scale is None else float(sm_scale)
    sizes = (H, N_q, N_k, scale, float(p), seed)
    flash_dropout_bwd_dq_kernel[(triton.cdiv(N_q, shared["BLOCK_M"]) * B * H,)](
        q, k, v, o, do, lse, dq, delta,
        *q.stride(), *k.stride(), *v.stride(), *o.stride(), *do.stride(), *lse.stride(),
        *sizes, **shared,
    )  # fmt: skip
    flash_dropout_bwd_dkdv_kernel[(triton.cdiv(N_k, shared["BLOCK_N"]) * B * H,)](
        q, k, v, do, lse, delta, dk, dv,
        *q.stride(), *k.stride(), *v.stride(), *do.stride(), *lse.stride(),
        *sizes, **shared,
    )  # fmt: skip
    return dq, dk, dv
