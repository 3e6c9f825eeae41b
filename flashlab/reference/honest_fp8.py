"""Honest FP8: what careful kernels lose when they round to e4m3, as budgets. Floor: core."""

import itertools

import torch
from torch import Tensor

from flashlab.reference.fp8 import E4M3, MOST, hadamard_matrix, per_row
from flashlab.reference.honest import visible

# P is rounded as it is, or times 2^8, relative to the maximum of the row or of the tiles so far
WAYS = tuple(itertools.product((1.0, 2.0**8), (None, 32, 64)))
TIMES = 2.0  # the limit over the worst of them, where o has no band
LEAST_KEYS = 64  # below, few roundings add up to an error that is anybody's guess
LEAST_WEIGHTS = 4.0  # likewise where softmax gives nearly all weight to fewer keys
MEAN_FREE = 0.5  # a mean of V above this share of its RMS hides the error of P
ACCUMULATED = 2.0**-13  # of the largest term: what a step of Hopper's FP8 product may drop
STEP = 32  # columns of a step
NEAR_TIE = 2.0**-18  # relative; a quotient in fp32 is off by a few 2^-24


def rounded(x: Tensor) -> Tensor:
    """The nearest e4m3 numbers, as fp32; beyond 448 it is 448."""
    return x.clamp(-MOST, MOST).to(E4M3).float()


def honest_hadamard(x: Tensor, signs: Tensor) -> list[dict[str, Tensor]]:
    """Four honest rotations: scaled after, before, or in the matrix; or summed one by one."""
    D = x.shape[-1]
    high = torch.promote_types(x.dtype, torch.float32)
    h, signed, scale = hadamard_matrix(D).to(high), x.to(high) * signs.to(high), D**-0.5
    one_by_one = torch.zeros_like(signed)
    for j in range(D):
        one_by_one = one_by_one + signed[..., j, None] * h[j]
    ways = (signed @ h * scale, (signed * scale) @ h, signed @ (h * scale), one_by_one * scale)
    return [{"y": y.to(x.dtype)} for y in ways]


def honest_quantized(x: Tensor, block_rows: int) -> list[dict[str, Tensor]]:
    """Three honest answers: divided by the scale, times 1 / scale, times 448 / amax."""
    B, H, N, D = x.shape
    blocks = -(-N // block_rows)
    padded = torch.zeros(B, H, blocks * block_rows, D)
    padded[:, :, :N] = x.float()
    amax = padded.abs().unflatten(2, (blocks, block_rows)).amax((3, 4)) if x.numel() else None
    if amax is None:
        none = torch.zeros(x.shape).to(E4M3)
        return [{"x8": none, "scale": torch.ones(B, H, blocks), "x8:band": torch.ones(())}]
    safe = amax.masked_fill(amax == 0, MOST)
    scale, rows = safe / MOST, x.float()
    answers = (
        (rows / per_row(scale, block_rows, N), scale),
        (rows * per_row(1 / scale, block_rows, N), scale),
        (rows * per_row(MOST / safe, block_rows, N), safe * (1 / MOST)),
    )
    band = torch.ones(())  # x8 is compared with x / scale: the error must be that of a rounding
    found = [{"x8": rounded(x8).to(E4M3), "scale": s, "x8:band": band} for x8, s in answers]
    exact = x.double() / per_row(safe.double() / MOST, block_rows, N)
    return [found[0] | {"x8:exact": nearest(exact)}, *found[1:]]


def nearest(x: Tensor) -> Tensor:
    """The nearest e4m3 numbers, as fp64; NaN so near a tie that fp32 may take either side."""
    low, high = (rounded(x * (1.0 + side * NEAR_TIE)).double() for side in (-1, 1))
    return torch.where(low == high, low, torch.nan)


def honest_fp8(
    q8: Tensor,
    k8: Tensor,
    v8: Tensor,
    q_scale: Tensor,
    k_scale: Tensor,
    v_scale: Tensor,
    block_rows: int,
    causal: bool = False,
    sm_scale: float | None = None,
) -> list[dict[str, Tensor]]:
    """Honest answers to ``fp8_forward``: P rounded as it is, times 2^8, or in between.

    Where enough mean-free values add up, the error of o is asked to lie in a band round theirs:
    a smaller one means that P was not rounded to FP8 at all.
    """
    q, k, v = (
        x8.float() * per_row(scale, block_rows, x8.shape[2])
        for x8, scale in ((q8, q_scale), (k8, k_scale), (v8, v_scale))
    )
    group = q.shape[1] // max(1, k.shape[1])
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    factor = q.shape[3] ** -0.5 if sm_scale is None else sm_scale
    if not k.shape[1] or not k.shape[2]:
        lse = torch.full(q.shape[:3], -torch.inf)
        return [{"o": torch.zeros(q.shape).bfloat16(), "lse": lse}]
    s = factor * (q @ k.transpose(2, 3))
    s = s.masked_fill(~visible(q.shape[2], k.shape[2], causal), -torch.inf)
    lse = torch.logsumexp(s, 3)
    answers = [{"o": _forward(s, v, *way).bfloat16(), "lse": lse} for way in WAYS]
    answers[0] |= {"lse:floor": lse_floor(q, k, factor), "o:times": torch.tensor(TIMES)}
    p = torch.exp(s - lse.masked_fill(lse == -torch.inf, 0.0)[..., None])
    if banded(v, p):
        answers[0]["o:band"] = torch.ones(())
    return answers


def _forward(s: Tensor, v: Tensor, times: float, tile: int | None) -> Tensor:
    """o of scores s, tile by tile of keys (None: all at once), P times ``times`` in e4m3."""
    m = s.new_full(s.shape[:3], -torch.inf)
    l_sum, acc = torch.zeros_like(m), s.new_zeros(*s.shape[:3], v.shape[3])
    for part, values in zip(
        s.split(tile or s.shape[3], 3), v.split(tile or v.shape[2], 2), strict=True
    ):
        m_new = torch.maximum(m, part.amax(3))
        safe = m_new.masked_fill(m_new == -torch.inf, 0.0)
        alpha, p = torch.exp(m - safe), torch.exp(part - safe[..., None])
        l_sum = alpha * l_sum + p.sum(3)
        acc = alpha[..., None] * acc + rounded(p * times) @ values / times
        m = m_new
    return acc / l_sum.masked_fill(l_sum == 0, 1.0)[..., None]


def banded(v: Tensor, p: Tensor) -> bool:
    """Whether the error of P shows in o: enough keys that count, and no mean of V to hide it."""
    spread = 1.0 / p.square().sum(3).clamp_min(1e-9)  # so many equal weights would do the same
    centred = bool(v.mean() ** 2 < MEAN_FREE**2 * v.square().mean())
    counted = float(spread[p.sum(3) > 0].mean()) >= LEAST_WEIGHTS if bool((p > 0).any()) else False
    return v.shape[2] >= LEAST_KEYS and centred and counted


def lse_floor(q: Tensor, k: Tensor, factor: float) -> Tensor:
    """What a Hopper tensor core may lose of a score, in sums of FP8 products.

    On an H200 (2026-11-30, Triton 3.6) lse was off by up to half of this: D 32 to 128, N 64 and
    1,024, with and without outliers. Products by mma.sync lost nothing.
    """
    largest = q.abs().amax() * k.abs().amax() if q.numel() else torch.zeros(())
    return ACCUMULATED * -(-q.shape[3] // STEP) * abs(factor) * largest
