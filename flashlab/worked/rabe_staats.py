"""Attention in chunks that are merged at the end, as Rabe and Staats do it, in PyTorch.

Kept for comparison (chapter 06): no N x N matrix either, but one partial output for each chunk of
keys until all are merged; autograd computes each part again in the backward pass.
"""

import math

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint


def part(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """One chunk of keys: output not divided [.., M, D], sum and maximum [.., M, 1] of each row."""
    s = q @ k.mT / math.sqrt(q.shape[-1])
    m = s.amax(-1, keepdim=True).detach()  # the result does not depend on it, so no gradient does
    p = torch.exp(s - m)
    return p @ v, p.sum(-1, keepdim=True), m


def chunked_attention(
    q: Tensor, k: Tensor, v: Tensor, *, query_chunk: int, key_chunk: int
) -> Tensor:
    """Exact attention; differentiable.

    Args:
        q, k, v: [B, H, N, D].
        query_chunk, key_chunk: Rows of q, and of k and v, that are taken at a time.

    Returns:
        o: [B, H, N, D].

    Source: Rabe and Staats 2021 (arXiv:2112.05682); their listing is in JAX.
    """
    out = []
    for rows in q.split(query_chunk, dim=2):
        parts = [
            checkpoint(part, rows, keys, values, use_reentrant=False)
            for keys, values in zip(
                k.split(key_chunk, dim=2), v.split(key_chunk, dim=2), strict=True
            )
        ]
        highest = torch.stack([m for _, _, m in parts]).amax(0)
        factors = [torch.exp(m - highest) for _, _, m in parts]
        total = sum(factor * l_sum for factor, (_, l_sum, _) in zip(factors, parts, strict=True))
        o = sum(factor * acc for factor, (acc, _, _) in zip(factors, parts, strict=True))
        out.append(o / total)
    return torch.cat(out, dim=2)
