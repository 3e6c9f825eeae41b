"""Tensors with poisoned surroundings: a wrong stride or a missing mask cannot pass unseen."""

import torch
from torch import Tensor


def redzone(x: Tensor, pad: int = 16) -> Tensor:
    """A copy of ``x`` with padding after every row, and after every matrix's last row.

    The result is a strided view of a larger tensor filled with NaN (with the smallest value for
    integers), so a load that leaves its row or its head lands in a hole of the view, which the
    recorder reports, and not in the next head's data.

    Args:
        x: Tensor of one dimension or more; its values are copied, its strides are not kept.
        pad: Elements of padding after each of the last two dimensions; a multiple of 16 keeps
            rows aligned.
    Returns:
        A view of x's shape, dtype and device.
    Raises:
        ValueError: x has no dimension, or pad is negative.
    """
    if x.dim() == 0 or pad < 0:
        raise ValueError(
            f"redzone needs a dimension and pad >= 0, not shape {list(x.shape)}, pad {pad}"
        )
    shape = list(x.shape)
    for d in range(max(0, x.dim() - 2), x.dim()):
        shape[d] += pad
    full = torch.empty(shape, dtype=x.dtype, device=x.device)
    if x.dtype.is_floating_point:
        full.fill_(float("nan"))
    elif x.dtype is torch.bool:
        full.fill_(True)
    else:
        full.fill_(torch.iinfo(x.dtype).min)
    view = full[tuple(slice(0, n) for n in x.shape)]
    return view.copy_(x)
