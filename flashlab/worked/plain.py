"""Attention as plain PyTorch, one operator a line: what autograd differentiates (chapter 06)."""

import math

import torch
from torch import Tensor

FORMS = ("plain", "causal", "causal, dropout")


def plain_attention(
    q: Tensor, k: Tensor, v: Tensor, form: str = "plain", p: float = 0.1
) -> Tensor:
    """o [B, H, N, D] from q, k, v of that shape, by operators that autograd knows.

    Args:
        form: One of ``FORMS``.
        p: Share of the weights that dropout sets to 0.
    """
    s = q @ k.mT / math.sqrt(q.shape[-1])
    if form != "plain":
        hidden = torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device).triu(1)
        s = s.masked_fill(hidden, -math.inf)
    weights = torch.softmax(s, -1)
    if form == "causal, dropout":
        weights, _ = torch.native_dropout(weights, p, True)
    return weights @ v
