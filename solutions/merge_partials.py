"""Merge attention over parts of the keys into attention over all of them, by their lse."""

import torch
import triton
import triton.language as tl

BLOCK_M = 32  # query rows of a program, a power of two; read at every call
DTYPES = (torch.float16, torch.bfloat16, torch.float32)


@triton.jit
def merge_kernel(
    o_ptr,  # [S, B, H, N, D]
    lse_ptr,  # [S, B, H, N], fp32
    o_out_ptr,  # [B, H, N, D], contiguous
    lse_out_ptr,  # [B, H, N], contiguous, fp32
    stride_os, stride_ob, stride_oh, stride_om, stride_od,
    stride_ls, stride_lb, stride_lh, stride_lm,
    S, H, N,
    D: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_D: tl.constexpr,  # D up to a power of two: a tile's size has to be one
):  # fmt: skip
    # Given: which rows are mine. The blocks of one head are neighbours
    pid = tl.program_id(0)
    blocks = tl.cdiv(N, BLOCK_M)
    head = (pid // blocks).to(tl.int64)  # b * H + h; int64: an offset may pass 2**31
    b, h = head // H, head % H

    # Given: offsets and masks; the pointers start at part 0
    offs_m = pid % blocks * BLOCK_M + tl.arange(0, BLOCK_M).to(tl.int64)  # [BLOCK_M]
    offs_d = tl.arange(0, BLOCK_D).to(tl.int64)  # [BLOCK_D]
    mask_m = offs_m < N
    mask = mask_m[:, None] & (offs_d < D)[None, :]  # [BLOCK_M, BLOCK_D]
    o_head = o_ptr + b * stride_ob + h * stride_oh
    o_ptrs = o_head + offs_m[:, None] * stride_om + offs_d[None, :] * stride_od
    lse_ptrs = lse_ptr + b * stride_lb + h * stride_lh + offs_m * stride_lm

    # 1. Running state
    ### BEGIN SOLUTION 1: start the state in fp32, of no parts yet: define m_i, l_i, acc (like o)
    m_i = tl.full([BLOCK_M], float("-inf"), tl.float32)  # largest lse so far
    l_i = tl.zeros([BLOCK_M], tl.float32)  # sum of exp(lse - m_i) so far
    acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)  # sum of exp(lse - m_i) * o so far
    ### END SOLUTION

    for _ in range(S):
        # 2. Load a part
        ### BEGIN SOLUTION 2: define lse_s (-inf where off), o_s (fp32, 0 where off or part empty)
        lse_s = tl.load(lse_ptrs, mask=mask_m, other=float("-inf"))  # [BLOCK_M], once
        o_s = tl.load(o_ptrs, mask=mask, other=0.0).to(tl.float32)  # [BLOCK_M, BLOCK_D], once
        o_s = tl.where((lse_s == float("-inf"))[:, None], 0.0, o_s)  # 0 times NaN is NaN
        ### END SOLUTION

        # 3. New maximum, weights
        ### BEGIN SOLUTION 3: define m_new, alpha (weight of the state), w (of this part); no NaN
        m_new = tl.maximum(m_i, lse_s)
        m_safe = tl.where(m_new == float("-inf"), 0.0, m_new)  # only empty parts: -inf - -inf
        alpha = tl.exp(m_i - m_safe)
        w = tl.exp(lse_s - m_safe)
        ### END SOLUTION

        # 4. Rescale, add
        ### BEGIN SOLUTION 4: rescale l_i and acc by alpha, add w and w * o_s; update m_i too
        l_i = alpha * l_i + w
        acc = alpha[:, None] * acc + w[:, None] * o_s
        m_i = m_new
        ### END SOLUTION

        # Given: on to the next part
        o_ptrs += stride_os
        lse_ptrs += stride_ls

    # Given: where the results go
    rows = head * N + offs_m  # [BLOCK_M]
    o_out_ptrs = o_out_ptr + rows[:, None] * D + offs_d[None, :]
    lse_out_ptrs = lse_out_ptr + rows

    # 5. Divide, store
    ### BEGIN SOLUTION 5: store acc / l_i (never 0 / 0) to o_out_ptrs, the new lse to lse_out_ptrs
    l_safe = tl.where(l_i == 0.0, 1.0, l_i)  # every part is empty: o 0, lse -inf
    tl.store(o_out_ptrs, acc / l_safe[:, None], mask=mask)  # rounded to the dtype of o
    tl.store(lse_out_ptrs, m_i + tl.log(l_safe), mask=mask_m)
    ### END SOLUTION


def check_inputs(o, lse):
    """Raise a ValueError that says which of o and lse does not fit, and what came."""
    if not isinstance(o, torch.Tensor) or o.dim() != 5 or o.shape[4] < 1:
        came = list(o.shape) if isinstance(o, torch.Tensor) else type(o).__name__
        raise ValueError(f"o must be a tensor [S, B, H, N, D] with D >= 1, not {came}")
    if o.dtype not in DTYPES:
        raise ValueError(f"o must have a dtype of {DTYPES}, not {o.dtype}: cast it")
    if not isinstance(lse, torch.Tensor) or lse.shape != o.shape[:4]:
        came = list(lse.shape) if isinstance(lse, torch.Tensor) else type(lse).__name__
        raise ValueError(f"lse must be a tensor {list(o.shape[:4])} to fit o, not {came}")
    if lse.dtype != torch.float32 or lse.device != o.device:
        came = f"{lse.dtype} on {lse.device}"
        raise ValueError(f"lse must be torch.float32 on {o.device}, not {came}: move or cast it")


def merge_partials(o: torch.Tensor, lse: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    check_inputs(o, lse)
    S, B, H, N, D = o.shape
    if D > 256:
        raise ValueError(f"o must have D <= 256 to fit on chip, not {list(o.shape)}")
    if S * B * H * N == 0:  # nothing to launch for
        none = torch.full([B, H, N], float("-inf"), dtype=torch.float32, device=o.device)
        return torch.zeros([B, H, N, D], dtype=o.dtype, device=o.device), none
    o_out = torch.empty([B, H, N, D], dtype=o.dtype, device=o.device)
    lse_out = torch.empty([B, H, N], dtype=torch.float32, device=o.device)
    merge_kernel[(triton.cdiv(N, BLOCK_M) * B * H,)](
        o, lse, o_out, lse_out,
        *o.stride(), *lse.stride(),
        S, H, N,
        D=D, BLOCK_M=BLOCK_M, BLOCK_D=triton.next_power_of_2(D),
        num_warps=4,
    )  # fmt: skip
    return o_out, lse_out
