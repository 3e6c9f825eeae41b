"""FlashAttention forward: a program per query block meets every tile of keys once."""

import torch
import triton
import triton.language as tl

BLOCK_M = 64  # query rows of a tile, a power of two from 16; read at every call
BLOCK_N = 64  # key rows of a tile, likewise
DTYPES = (torch.float16, torch.bfloat16, torch.float32)


@triton.jit
def flash_fwd_kernel(
    q_ptr,  # [B, H, N_q, D]
    k_ptr,  # [B, H, N_k, D]
    v_ptr,  # [B, H, N_k, D]
    o_ptr,  # [B, H, N_q, D]
    lse_ptr,  # [B, H, N_q], fp32
    stride_qb, stride_qh, stride_qm, stride_qd,
    stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd,
    stride_ob, stride_oh, stride_om, stride_od,
    stride_lb, stride_lh, stride_lm,
    H, N_q, N_k,
    sm_scale,
    D: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr,  # D up to a power of two: a tile's size has to be one
    CAUSAL: tl.constexpr,
):  # fmt: skip
    # Given: which tile is mine. The blocks of one head are neighbours, so they share K and V in L2
    pid = tl.program_id(0)
    blocks = tl.cdiv(N_q, BLOCK_M)
    start_m = pid % blocks * BLOCK_M
    head = (pid // blocks).to(tl.int64)  # b * H + h; int64: an offset may pass 2**31
    b, h = head // H, head % H

    # Given: offsets and masks
    offs_m = start_m + tl.arange(0, BLOCK_M)  # [BLOCK_M], my queries
    offs_d = tl.arange(0, BLOCK_D).to(tl.int64)  # [BLOCK_D]
    mask_m = offs_m < N_q
    mask_d = offs_d < D
    mask_q = mask_m[:, None] & mask_d[None, :]  # [BLOCK_M, BLOCK_D]
    rows = offs_m.to(tl.int64)[:, None]
    q_ptrs = q_ptr + b * stride_qb + h * stride_qh + rows * stride_qm + offs_d[None, :] * stride_qd
    o_ptrs = o_ptr + b * stride_ob + h * stride_oh + rows * stride_om + offs_d[None, :] * stride_od
    lse_ptrs = lse_ptr + b * stride_lb + h * stride_lh + offs_m.to(tl.int64) * stride_lm
    k_head = k_ptr + b * stride_kb + h * stride_kh + offs_d[None, :] * stride_kd  # [1, BLOCK_D]
    v_head = v_ptr + b * stride_vb + h * stride_vh + offs_d[None, :] * stride_vd

    # Given: load what stays on chip. other=0.0: a lane that is masked off holds garbage otherwise
    q = tl.load(q_ptrs, mask=mask_q, other=0.0)  # [BLOCK_M, BLOCK_D], once per program

    # 1. Running state
    # Step 1: start the state in fp32: define m_i, l_i (a number a row), acc (like q)
    tl.static_assert(False, "Step 1 is not written yet")

    for start_n in range(0, N_k, BLOCK_N):
        offs_n = start_n + tl.arange(0, BLOCK_N)  # [BLOCK_N], the keys of this tile
        k_ptrs = k_head + offs_n.to(tl.int64)[:, None] * stride_kn  # [BLOCK_N, BLOCK_D]
        v_ptrs = v_head + offs_n.to(tl.int64)[:, None] * stride_vn

        # 2. Load the tile, score, mask
        # Step 2: load k and v, score, hide keys that a query must not see; define v, s
        tl.static_assert(False, "Step 2 is not written yet")

        # 3. New maximum and weights
        # Step 3: define m_new, alpha, l_new [BLOCK_M], p [BLOCK_M, BLOCK_N], never NaN
        tl.static_assert(False, "Step 3 is not written yet")

        # 4. Rescale, accumulate, divide
        # Step 4: bring acc to m_new, add p @ v, divide by l_new; update acc, m_i, l_i
        tl.static_assert(False, "Step 4 is not written yet")

    # 5. Finish and store
    # Step 5: store acc to o_ptrs and the log-sum-exp (nats) to lse_ptrs, under masks
    tl.static_assert(False, "Step 5 is not written yet")


def check_inputs(q, k, v):
    """Raise a ValueError that says which of q, k, v does not fit, and what came."""
    for name, x, rows in (("q", q, q), ("k", k, k), ("v", v, k)):
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


def flash_forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    sm_scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    check_inputs(q, k, v)
    B, H, N_q, D = q.shape
    N_k = k.shape[2]
    if D > 256:
        raise ValueError(f"q must have D <= 256 to fit on chip, not {list(q.shape)}")
    if B * H * N_q * N_k == 0:  # nothing to launch for
        lse = torch.full([B, H, N_q], float("-inf"), dtype=torch.float32, device=q.device)
        return torch.zeros_like(q), lse
    o = torch.empty_like(q)
    lse = torch.empty([B, H, N_q], dtype=torch.float32, device=q.device)
    BLOCK_D = max(16, triton.next_power_of_2(D))
    shrink = max(1, BLOCK_D * q.element_size() ** 2 // 512)  # long rows, fp32: registers run out
    block_m, block_n = max(16, BLOCK_M // shrink), max(16, BLOCK_N // shrink)
    grid = (triton.cdiv(N_q, block_m) * B * H,)
    flash_fwd_kernel[grid](
        q, k, v, o, lse,
        *q.stride(), *k.stride(), *v.stride(), *o.stride(), *lse.stride(),
        H, N_q, N_k,
        D**-0.5 if sm_scale is None else float(sm_scale),
        D=D, BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_D=BLOCK_D,
        CAUSAL=causal,
        num_warps=4 if block_m <= 64 else 8,
        num_stages=3,
    )  # fmt: skip
    return o, lse
