# Returns a tensor on another device. Status: contract
import torch


def vector_scale(x, a):
    return torch.empty(x.numel(), dtype=x.dtype, device="meta")
