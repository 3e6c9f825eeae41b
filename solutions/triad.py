"""Two vectors in, one out, hardly any arithmetic: z = x + a * y measures the memory's speed."""

import torch
import triton
import triton.language as tl

# Elements of a program, a power of two; read at every call. 16 for each of its 128 threads: in
# fp16 two reads of 16 bytes, the widest there are, from each vector
BLOCK = 2048
DTYPES = (torch.float16, torch.bfloat16, torch.float32)


@triton.jit
def triad_kernel(
    x_ptr,  # [N]
    y_ptr,  # [N]
    z_ptr,  # [N], contiguous
    stride_x,  # elements from one x to the next
    stride_y,
    N,
    a,
    BLOCK: tl.constexpr,
):
    # 1. Which elements are mine
    ### BEGIN SOLUTION 1: define offs [BLOCK], the indices of my elements (int64), and their mask
    pid = tl.program_id(0).to(tl.int64)  # int64: offs * stride_x may pass 2**31
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offs < N  # the last program may have fewer than BLOCK elements
    ### END SOLUTION

    # 2. Load, multiply, add, store
    ### BEGIN SOLUTION 2: load x and y in fp32, store x + a * y to z_ptr, all under the mask
    x = tl.load(x_ptr + offs * stride_x, mask=mask, other=0.0).to(tl.float32)  # one read each
    y = tl.load(y_ptr + offs * stride_y, mask=mask, other=0.0).to(tl.float32)  # one read each
    z = x + a * y  # fp32: the store rounds once; in fp16 each operation would round
    tl.store(z_ptr + offs, z, mask=mask)  # one write each, rounded to the dtype of z
    ### END SOLUTION


def check_inputs(x, y, a):
    """Raise a ValueError that says which of x, y and a does not fit, and what came."""
    if not isinstance(x, torch.Tensor) or x.dim() != 1:
        came = list(x.shape) if isinstance(x, torch.Tensor) else type(x).__name__
        raise ValueError(f"x must be a tensor [N], not {came}: flatten it")
    if x.dtype not in DTYPES:
        raise ValueError(f"x must have a dtype of {DTYPES}, not {x.dtype}: cast it")
    if not isinstance(a, int | float):
        raise ValueError(f"a must be a Python number, not {type(a).__name__}: pass a float")
    if not isinstance(y, torch.Tensor) or y.shape != x.shape:
        came = list(y.shape) if isinstance(y, torch.Tensor) else type(y).__name__
        raise ValueError(f"y must be a tensor {list(x.shape)} like x, not {came}")
    if y.dtype != x.dtype or y.device != x.device:
        wanted, came = f"{x.dtype} on {x.device}", f"{y.dtype} on {y.device}"
        raise ValueError(f"y must be {wanted} like x, not {came}: move or cast it")


def triad(x: torch.Tensor, y: torch.Tensor, a: float) -> torch.Tensor:
    check_inputs(x, y, a)
    N = x.numel()
    z = torch.empty(N, dtype=x.dtype, device=x.device)

    # 3. Launch
    ### BEGIN SOLUTION 3: start one program for every BLOCK elements, none where N is 0; it fills z
    if N > 0:
        grid = (triton.cdiv(N, BLOCK),)
        triad_kernel[grid](x, y, z, x.stride(0), y.stride(0), N, float(a), BLOCK=BLOCK)
    ### END SOLUTION
    return z
