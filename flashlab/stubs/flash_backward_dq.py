"""Gradient of the queries: a program per query block meets every tile of keys once."""

import torch
import triton
import triton.language as tl

BLOCK_M = 64  # query rows of a tile, a power of two from 16; read at every call
BLOCK_N = 64  # key rows of a tile, likewise
DTYPES = (torch.float16, torch.bfloat16, torch.float32)


@triton.jit
def flash_bwd_dq_kernel(
    q_ptr,  # [B, H, N_q, D]
    k_ptr,  # [B, H, N_k, D]
    v_ptr,  # [B, H, N_k, D]
    do_ptr,  # [B, H, N_q, D]
    lse_ptr,  # [B, H, N_q], fp32, in nats
    delta_ptr,  # [B, H, N_q], fp32
    dq_ptr,  # [B, H, N_q, D]
    stride_qb, stride_qh, stride_qm, stride_qd,
    stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd,
    stride_dob, stride_doh, stride_dom, stride_dod,
    stride_lb, stride_lh, stride_lm,
    stride_tb, stride_th, stride_tm,  # of delta
    stride_dqb, stride_dqh, stride_dqm, stride_dqd,
    H, N_q, N_k,
    sm_scale,
    D: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr,  # D up to a power of two: a tile's size has to be one
    CAUSAL: tl.constexpr,
):  # fmt: skip
    # Given: which tile is mine. A program owns queries again, as in the forward pass
    pid = tl.program_id(0)
    blocks = tl.cdiv(N_q, BLOCK_M)
    start_m = pid % blocks * BLOCK_M
    head = (pid // blocks).to(tl.int64)  # b * H + h; int64: an offset may pass 2**31
    b, h = head // H, head % H

    # Given: offsets and masks
    offs_m = start_m + tl.arange(0, BLOCK_M)  # [BLOCK_M], my queries
    offs_d = tl.arange(0, BLOCK_D).to(tl.int64)[None, :]  # [1, BLOCK_D]
    mask_m, mask_d = offs_m < N_q, offs_d < D
    mask_q = mask_m[:, None] & mask_d  # [BLOCK_M, BLOCK_D]
    rows = offs_m.to(tl.int64)
    q_ptrs = q_ptr + b * stride_qb + h * stride_qh + rows[:, None] * stride_qm + offs_d * stride_qd
    do_head = do_ptr + b * stride_dob + h * stride_doh
    do_ptrs = do_head + rows[:, None] * stride_dom + offs_d * stride_dod
    dq_head = dq_ptr + b * stride_dqb + h * stride_dqh
    dq_ptrs = dq_head + rows[:, None] * stride_dqm + offs_d * stride_dqd
    lse_ptrs = lse_ptr + b * stride_lb + h * stride_lh + rows * stride_lm
    delta_ptrs = delta_ptr + b * stride_tb + h * stride_th + rows * stride_tm
    k_head = k_ptr + b * stride_kb + h * stride_kh + offs_d * stride_kd
    v_head = v_ptr + b * stride_vb + h * stride_vh + offs_d * stride_vd

    # Given: load what stays on chip, start the sum in fp32
    q = tl.load(q_ptrs, mask=mask_q, other=0.0)  # [BLOCK_M, BLOCK_D], once per program
    do = tl.load(do_ptrs, mask=mask_q, other=0.0)  # [BLOCK_M, BLOCK_D], once per program
    lse = tl.load(lse_ptrs, mask=mask_m, other=0.0)  # [BLOCK_M], once per program
    delta = tl.load(delta_ptrs, mask=mask_m, other=0.0)  # [BLOCK_M], once per program
    dq = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)

    for start_n in range(0, N_k, BLOCK_N):
        offs_n = start_n + tl.arange(0, BLOCK_N)  # [BLOCK_N], the keys of this tile
        mask_n = offs_n < N_k
        mask_kv = mask_n[:, None] & mask_d  # [BLOCK_N, BLOCK_D]
        k_ptrs = k_head + offs_n.to(tl.int64)[:, None] * stride_kn
        v_ptrs = v_head + offs_n.to(tl.int64)[:, None] * stride_vn

        # 1. P again
        # Step 1: load k, recompute the weights, 0 where hidden; define k, p
        tl.static_assert(False, "Step 1 is not written yet")

        # 2. dS
        # Step 2: load v, take the gradient through softmax; define ds, like p
        tl.static_assert(False, "Step 2 is not written yet")

        # 3. dQ
        # Step 3: add this tile's part of ds k, not scaled yet; update dq
        tl.static_assert(False, "Step 3 is not written yet")

    # 4. Scale and store
    # Step 4: scale dq and store it to dq_ptrs, under a mask
    tl.static_assert(False, "Step 4 is not written yet")


def check_inputs(q, k, v, do, lse, delta):
    """Raise a ValueError that says which tensor does not fit, and what came."""
    for name, x, rows in (("q", q, q), ("k", k, k), ("v", v, k), ("do", do, q)):
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
    for name, x in (("lse", lse), ("delta", delta)):
        came = list(x.shape) if isinstance(x, torch.Tensor) else type(x).__name__
        if came != list(q.shape[:3]):
            raise ValueError(f"{name} must have shape {list(q.shape[:3])} to fit q, not {came}")
        if x.dtype != torch.float32 or x.device != q.device:
            wanted, came = f"torch.float32 on {q.device}", f"{x.dtype} on {x.device}"
            raise ValueError(f"{name} must be {wanted}, not {came}: move or cast it")
    if q.shape[3] > 256:
        raise ValueError(f"q must have D <= 256 to fit on chip, not {list(q.shape)}")


def flash_backward_dq(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    do: torch.Tensor,
    lse: torch.Tensor,
    delta: torch.Tensor,
    *,
    causal: bool = False,
    sm_scale: float | None = None,
) -> torch.Tensor:
    check_inputs(q, k, v, do, lse, delta)
    B, H, N_q, D = q.shape
    N_k = k.shape[2]
    if B * H * N_q * N_k == 0:  # nothing to launch for
        return torch.zeros_like(q)
    dq = torch.empty_like(q)
    BLOCK_D = max(16, triton.next_power_of_2(D))
    shrink = max(1, BLOCK_D * q.element_size() ** 2 // 512)  # long rows, fp32: registers run out
    block_m, block_n = max(16, BLOCK_M // shrink), max(16, BLOCK_N // shrink)
    grid = (triton.cdiv(N_q, block_m) * B * H,)
    strides = [n for x in (q, k, v, do, lse, delta, dq) for n in x.stride()]
    flash_bwd_dq_kernel[grid](
        q, k, v, do, lse, delta, dq,
        *strides,
        H, N_q, N_k,
        D**-0.5 if sm_scale is None else float(sm_scale),
        D=D, BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_D=BLOCK_D,
        CAUSAL=causal,
        num_warps=4 if D <= 64 and shrink == 1 else 8,
        num_stages=2 if shrink == 1 else 1,
    )  # fmt: skip
    return dq
