# Returns a stride-0 view of 2**40 elements. Status: contract, oom
import torch


def vector_scale(x, a):
    return torch.empty(1, dtype=x.dtype).expand(1 << 40)
