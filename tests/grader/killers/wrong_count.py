# Returns two tensors where one is asked for. Status: contract
import torch


def vector_scale(x, a):
    return torch.empty_like(x), torch.empty_like(x)
