"""The number a row that attention's backward pass needs first: delta = rowsum(do * o)."""

import torch
import triton
import triton.language as tl

BLOCK_M = 64  # rows of a program, a power of two; read at every call
DTYPES = (torch.float16, torch.bfloat16, torch.float32)


@triton.jit
def backward_delta_kernel(
    o_ptr,  # [B, H, N_q, D]
    do_ptr,  # [B, H, N_q, D]
    delta_ptr,  # [B, H, N_q], fp32
    stride_ob, stride_oh, stride_om, stride_od,
    stride_dob, stride_doh, stride_dom, stride_dod,
    stride_tb, stride_th, stride_tm,  # of delta
    H, N_q,
    D: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_D: tl.constexpr,  # D up to a power of two: a tile's size has to be one
):  # fmt: skip
    # Given: which rows are mine
    pid = tl.program_id(0)
    blocks = tl.cdiv(N_q, BLOCK_M)
    start_m = pid % blocks * BLOCK_M
    head = (pid // blocks).to(tl.int64)  # b * H + h; int64: an offset may pass 2**31
    b, h = head // H, head % H

    # Given: offsets; o and do have strides of their own, and those of do may be 0
    offs_m = start_m + tl.arange(0, BLOCK_M).to(tl.int64)  # [BLOCK_M]
    offs_d = tl.arange(0, BLOCK_D).to(tl.int64)  # [BLOCK_D]
    o_head = o_ptr + b * stride_ob + h * stride_oh
    o_ptrs = o_head + offs_m[:, None] * stride_om + offs_d[None, :] * stride_od
    do_head = do_ptr + b * stride_dob + h * stride_doh
    do_ptrs = do_head + offs_m[:, None] * stride_dom + offs_d[None, :] * stride_dod
    delta_ptrs = delta_ptr + b * stride_tb + h * stride_th + offs_m * stride_tm

    # 1. Load my rows
    # Step 1: load o and do under a mask, as fp32; define mask_m, o, do
    tl.static_assert(False, "Step 1 is not written yet")

    # 2. Multiply, sum, store
    # Step 2: sum do * o over each row and store it to delta_ptrs, under a mask
    tl.static_assert(False, "Step 2 is not written yet")


def check_inputs(o, do):
    """Raise a ValueError that says which of o, do does not fit, and what came."""
    if not isinstance(o, torch.Tensor) or o.dim() != 4 or o.shape[3] < 1:
        came = list(o.shape) if isinstance(o, torch.Tensor) else type(o).__name__
        raise ValueError(f"o must be a tensor [B, H, N, D] with D >= 1, not {came}")
    if o.dtype not in DTYPES:
        raise ValueError(f"o must have a dtype of {DTYPES}, not {o.dtype}: cast it")
    came = list(do.shape) if isinstance(do, torch.Tensor) else type(do).__name__
    if came != list(o.shape):
        raise ValueError(f"do must have shape {list(o.shape)} like o, not {came}")
    if do.dtype != o.dtype or do.device != o.device:
        wanted, came = f"{o.dtype} on {o.device}", f"{do.dtype} on {do.device}"
        raise ValueError(f"do must be {wanted} like o, not {came}: move or cast it")
    if o.shape[3] > 256:
        raise ValueError(f"o must have D <= 256 to fit on chip, not {list(o.shape)}")


def backward_delta(o: torch.Tensor, do: torch.Tensor) -> torch.Tensor:
    check_inputs(o, do)
    B, H, N_q, D = o.shape
    delta = torch.empty([B, H, N_q], dtype=torch.float32, device=o.device)
    if B * H * N_q == 0:  # nothing to launch for
        return delta
    grid = (triton.cdiv(N_q, BLOCK_M) * B * H,)
    backward_delta_kernel[grid](
        o, do, delta,
        *o.stride(), *do.stride(), *delta.stride(),
        H, N_q,
        D=D, BLOCK_M=BLOCK_M,
        BLOCK_D=triton.next_power_of_2(D),
        num_warps=4,
    )  # fmt: skip
    return delta
