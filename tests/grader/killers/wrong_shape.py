# Returns another shape. Status: contract
import torch


def vector_scale(x, a):
    return torch.empty(x.numel() + 1, dtype=x.dtype)
