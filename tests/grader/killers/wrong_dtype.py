# Returns another dtype. Status: contract
import torch


def vector_scale(x, a):
    return torch.empty(x.numel(), dtype=torch.float64)
