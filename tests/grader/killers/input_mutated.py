# Changes its input. Status: contract
import torch


def vector_scale(x, a):
    x.fill_(1)
    return torch.empty(x.numel(), dtype=x.dtype)
