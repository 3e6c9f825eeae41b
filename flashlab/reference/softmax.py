"""Contracts and references of softmax over the rows of a matrix: torch, no Triton. Floor: core."""

import torch
from torch import Tensor

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def check_inputs(x):
    """Raise a ValueError that says what is wrong with x."""
    if not isinstance(x, torch.Tensor) or x.dim() != 2:
        came = list(x.shape) if isinstance(x, torch.Tensor) else type(x).__name__
        raise ValueError(f"x must be a tensor [R, C], not {came}: reshape it")
    if x.dtype not in DTYPES:
        raise ValueError(f"x must have a dtype of {DTYPES}, not {x.dtype}: cast it")


def row_softmax(x: Tensor) -> Tensor:
    """Softmax of every row of a matrix whose rows fit on chip.

    m_r = max_c x_rc;  p_rc = exp(x_rc - m_r) / sum_c exp(x_rc - m_r).

    Args:
        x: [R, C]; float16, bfloat16 or float32 (here also float64); any strides; R and C may be 0;
            a kernel takes C up to 32,768.

    Returns:
        p: [R, C], contiguous; dtype of x; computed in float32; a row of only -inf gives 0.

    Raises:
        ValueError: x is not two-dimensional or of another dtype, or its rows are too long.

    Source: Milakov & Gimelshein 2018, section 2 ("safe softmax").
    """
    return online_softmax(x)[0]


def online_softmax(x: Tensor) -> tuple[Tensor, Tensor]:
    """Softmax of every row, and the log of the sum of its exponentials; rows of any length.

    lse_r = log sum_c exp(x_rc);  p_rc = exp(x_rc - lse_r).

    Args:
        x: [R, C]; float16, bfloat16 or float32 (here also float64); any strides; R and C may be 0.

    Returns:
        p: [R, C], contiguous; dtype of x; computed in float32; a row of only -inf gives 0.
        lse: [R]; in nats; float32 (float64 for float64); -inf for a row of only -inf, or of
            no columns.

    Raises:
        ValueError: x is not two-dimensional or of another dtype.

    Source: Milakov & Gimelshein 2018, Algorithm 3 (online normaliser).
    """
    check_inputs(x)
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    lse = torch.logsumexp(wide, dim=1)  # [R]
    p = torch.exp(wide - lse.masked_fill(lse == -torch.inf, 0.0)[:, None])  # no -inf - -inf
    return p.to(x.dtype).contiguous(), lse
