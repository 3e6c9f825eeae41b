"""Contracts and references of the first kernels on vectors: torch, no Triton. Floor: core."""

import torch
from torch import Tensor

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def check_inputs(x, a):
    """Raise a ValueError that says what is wrong with x or a."""
    if not isinstance(x, torch.Tensor) or x.dim() != 1:
        came = list(x.shape) if isinstance(x, torch.Tensor) else type(x).__name__
        raise ValueError(f"x must be a tensor [N], not {came}: flatten it")
    if x.dtype not in DTYPES:
        raise ValueError(f"x must have a dtype of {DTYPES}, not {x.dtype}: cast it")
    if not isinstance(a, int | float):
        raise ValueError(f"a must be a Python number, not {type(a).__name__}: pass a float")


def vector_scale(x: Tensor, a: float) -> Tensor:
    """Every element of a vector times a number.

    y_i = a * x_i, rounded once.

    Args:
        x: [N]; any length (0 too), any stride; float16, bfloat16 or float32 (here also float64).
        a: the factor, a Python number.

    Returns:
        y: [N], contiguous; dtype and device of x.

    Raises:
        ValueError: x is not one-dimensional or of another dtype, or a is not a number.

    Source: the "scale" kernel of McCalpin's STREAM benchmark.
    """
    check_inputs(x, a)
    return (x.double() * a).to(x.dtype)


def check_pair(x, y, a):
    """Raise a ValueError that says which of x, y and a does not fit, and what came."""
    check_inputs(x, a)
    if not isinstance(y, torch.Tensor) or y.shape != x.shape:
        came = list(y.shape) if isinstance(y, torch.Tensor) else type(y).__name__
        raise ValueError(f"y must be a tensor {list(x.shape)} like x, not {came}")
    if y.dtype != x.dtype or y.device != x.device:
        wanted, came = f"{x.dtype} on {x.device}", f"{y.dtype} on {y.device}"
        raise ValueError(f"y must be {wanted} like x, not {came}: move or cast it")


def triad(x: Tensor, y: Tensor, a: float) -> Tensor:
    """A vector plus a number times another: two reads and one write for two FLOPs.

    z_i = x_i + a * y_i, computed in float32, rounded once.

    Args:
        x: [N]; any length (0 too), any stride; float16, bfloat16 or float32 (here also float64).
        y: [N]; any stride; dtype and device of x.
        a: the factor, a Python number.

    Returns:
        z: [N], contiguous; dtype and device of x.

    Raises:
        ValueError: x is not one-dimensional or of another dtype, y does not fit x, or a is not a
            number.

    Source: the "triad" kernel of McCalpin's STREAM benchmark.
    """
    check_pair(x, y, a)
    return (x.double() + y.double() * a).to(x.dtype)
