"""Honest low-precision attention: what careful kernels lose, in six ways. Floor: core.

Dense torch in working precision: dots and sums in fp32, P cast to the inputs' dtype before P V.
The six ways place the scale on the scores, on q or on k, and use exp or exp2. Their worst error
against fp64 is the base of the comparer's budget.
"""

import itertools
import math

import torch
from torch import Tensor

LOG2E = 1 / math.log(2)
WAYS = tuple(itertools.product(("scores", "q", "k"), ("exp", "exp2")))


def honest_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    causal: bool = False,
    sm_scale: float | None = None,
    factors: Tensor | None = None,
    seen: Tensor | None = None,
) -> list[dict[str, Tensor]]:
    """Six honest answers to ``o = softmax(q k^T * sm_scale) v`` and its ``lse``.

    Args:
        q: [B, H, N_q, D]; dtype of the answers' ``o``.
        k: [B, H_kv, N_k, D], ``H_kv`` divides ``H``.
        v: [B, H_kv, N_k, D].
        causal: Query row i sees key j if ``j <= i + N_k - N_q``.
        sm_scale: None means 1/sqrt(D).
        factors: [B, H, N_q, N_k]; what dropout multiplies each weight by; None: no dropout.
        seen: bool, broadcast to [B, H, N_q, N_k]; which keys a query sees, instead of causal.

    Returns:
        Dictionaries of ``o`` [B, H, N_q, D] and ``lse`` [B, H, N_q] (nats, fp32; fp64 for fp64).
        A row that sees no key has o = 0 and lse = -inf.
    """
    return [_forward(q, k, v, causal, sm_scale, factors, *way, seen) for way in WAYS]


def honest_attention_backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    do: Tensor,
    causal: bool = False,
    sm_scale: float | None = None,
    lse: Tensor | None = None,
    delta: Tensor | None = None,
    factors: Tensor | None = None,
) -> list[dict[str, Tensor]]:
    """Six honest answers to the gradients of attention; shapes as in ``honest_attention``.

    Args:
        lse, delta: [B, H, N_q]; the statistics that a kernel is given. None: each answer makes
            its own, so that errors of its scores cancel in P.
        factors: As in ``honest_attention``.

    Returns:
        Dictionaries of ``dq``, ``dk`` and ``dv`` in the inputs' dtype.
    """
    given = (lse, delta, factors)
    return [_backward(q, k, v, do, causal, sm_scale, *given, *way) for way in WAYS]


def visible(N_q: int, N_k: int, causal: bool) -> Tensor:
    """Which query row sees which key: bool [N_q, N_k], causal aligned bottom-right."""
    rows, columns = torch.arange(N_q)[:, None], torch.arange(N_k)[None, :]
    return (columns <= rows + N_k - N_q) | torch.tensor(not causal)


def _scores(
    q: Tensor,
    k: Tensor,
    causal: bool,
    sm_scale: float | None,
    place: str,
    base: str,
    seen: Tensor | None = None,
) -> Tensor:
    """Scores in the working precision, in base 2 for exp2, -inf where masked."""
    working = torch.promote_types(q.dtype, torch.float32)
    scale = q.shape[-1] ** -0.5 if sm_scale is None else sm_scale
    scale *= LOG2E if base == "exp2" else 1.0
    k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)
    if place == "q":
        q = q * scale
    if place == "k":
        k = k * scale
    s = q.to(working) @ k.to(working).transpose(-1, -2)
    if place == "scores":
        s = s * scale
    seen = visible(q.shape[2], k.shape[2], causal) if seen is None else seen
    return s.masked_fill(~seen.to(s.device), -torch.inf)


def _probabilities(s: Tensor, base: str) -> tuple[Tensor, Tensor, Tensor]:
    """Unnormalised p [.., N_q, N_k], its row sums l [.., N_q] and lse in nats [.., N_q]."""
    m = s.amax(dim=-1) if s.shape[-1] else s.new_full(s.shape[:-1], -torch.inf)
    shifted = s - m.masked_fill(m == -torch.inf, 0.0)[..., None]
    p = torch.exp2(shifted) if base == "exp2" else torch.exp(shifted)
    l_sum = p.sum(dim=-1)
    if base == "exp2":
        return p, l_sum, (m + torch.log2(l_sum)) * math.log(2)
    return p, l_sum, m + torch.log(l_sum)


def _recomputed(s: Tensor, base: str, lse: Tensor | None) -> Tensor:
    """P as a backward kernel makes it again: from the scores and the stored lse."""
    lse = _probabilities(s, base)[2] if lse is None else lse
    lse = lse.masked_fill(lse == -torch.inf, 0.0)[..., None]
    return torch.exp2(s - lse * LOG2E) if base == "exp2" else torch.exp(s - lse)


def _forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    causal: bool,
    sm_scale: float | None,
    factors: Tensor | None,
    place: str,
    base: str,
    seen: Tensor | None = None,
) -> dict[str, Tensor]:
    p, l_sum, lse = _probabilities(_scores(q, k, causal, sm_scale, place, base, seen), base)
    v = v.repeat_interleave(q.shape[1] // v.shape[1], dim=1)
    p = p if factors is None else p * factors.to(p.dtype)
    acc = p.to(q.dtype).to(p.dtype) @ v.to(p.dtype)
    o = acc / l_sum.masked_fill(l_sum == 0, 1.0)[..., None]
    return {"o": o.to(q.dtype), "lse": lse}


def _backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    do: Tensor,
    causal: bool,
    sm_scale: float | None,
    lse: Tensor | None,
    delta: Tensor | None,
    factors: Tensor | None,
    place: str,
    base: str,
) -> dict[str, Tensor]:
    scale = q.shape[-1] ** -0.5 if sm_scale is None else sm_scale
    group = q.shape[1] // k.shape[1]
    s = _scores(q, k, causal, sm_scale, place, base)
    p = _recomputed(s, base, lse)
    wide_v = v.repeat_interleave(group, dim=1).to(s.dtype)
    grad = do.to(s.dtype)
    f = torch.ones_like(p) if factors is None else factors.to(p.dtype)
    dp = f * (grad @ wide_v.transpose(-1, -2))
    if delta is None:
        o = _forward(q, k, v, causal, sm_scale, factors, place, base)["o"].to(s.dtype)
        delta = (grad * o).sum(dim=-1)
    ds = p * (dp - delta[..., None])
    ds, p = ds.to(q.dtype).to(s.dtype), (f * p).to(q.dtype).to(s.dtype)
    wide_k = k.repeat_interleave(group, dim=1).to(s.dtype)
    dq = ds @ wide_k * scale
    dk = (ds.transpose(-1, -2) @ q.to(s.dtype) * scale).unflatten(1, (-1, group)).sum(dim=2)
    dv = (p.transpose(-1, -2) @ grad).unflatten(1, (-1, group)).sum(dim=2)
    return {"dq": dq.to(q.dtype), "dk": dk.to(q.dtype), "dv": dv.to(q.dtype)}
