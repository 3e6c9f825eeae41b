"""Contract and reference of the matrix product: torch, any float dtype. Floor: core."""

import torch
from torch import Tensor

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def check_inputs(a, b):
    """Raise a ValueError that says which of a and b does not fit, and what came."""
    for name, x, shape in (("a", a, "[M, K]"), ("b", b, "[K, N]")):
        if not isinstance(x, torch.Tensor) or x.dim() != 2:
            came = list(x.shape) if isinstance(x, torch.Tensor) else type(x).__name__
            raise ValueError(f"{name} must be a tensor {shape}, not {came}: reshape it")
        if x.dtype not in DTYPES:
            raise ValueError(f"{name} must have a dtype of {DTYPES}, not {x.dtype}: cast it")
    if b.dtype != a.dtype or b.device != a.device:
        wanted, came = f"{a.dtype} on {a.device}", f"{b.dtype} on {b.device}"
        raise ValueError(f"b must be {wanted} like a, not {came}: move or cast it")
    if b.shape[0] != a.shape[1]:
        wanted = f"[{a.shape[1]}, N]"
        raise ValueError(f"b must have shape {wanted} to fit a, not {list(b.shape)}")


def tiled_matmul(a: Tensor, b: Tensor) -> Tensor:
    """The product of two matrices.

    c_mn = sum_k a_mk * b_kn, summed in float32, rounded once.

    Args:
        a: [M, K]; float16, bfloat16 or float32 (here also float64); any strides.
        b: [K, N]; dtype and device of a; any strides. Any of M, N and K may be 0.

    Returns:
        c: [M, N], contiguous; dtype of a; 0 where K is 0.

    Raises:
        ValueError: a or b is not such a matrix, or b's dtype, device or shape does not fit a's.

    Source: Triton's tutorial 03 has the same tiles and the same order of programs.
    """
    check_inputs(a, b)
    high = torch.promote_types(a.dtype, torch.float32)
    return (a.to(high) @ b.to(high)).to(a.dtype)
