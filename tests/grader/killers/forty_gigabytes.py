# Asks for 40 GB at once. Status: oom
import torch


def vector_scale(x, a):
    return torch.empty(10 * 10**9)
