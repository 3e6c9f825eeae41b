"""Memory that ranks write and the process that forked them reads."""

import math
import mmap
from collections.abc import Sequence

import torch


def shared(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """A tensor of zeros on the CPU, made before ``run``, that its ranks and this process share."""
    count = math.prod(shape)
    memory = mmap.mmap(-1, max(1, count * dtype.itemsize))
    return (
        torch.frombuffer(memory, dtype=dtype, count=count).view(*shape)
        if count
        else (torch.zeros(*shape, dtype=dtype))
    )
