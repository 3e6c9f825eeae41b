"""Inputs of every attention exercise: random, or hostile in one named way. Floor: course."""

from collections.abc import Callable

import torch
from torch import Tensor

from flashlab.exercise import Sizes

SCORES = ("random", "large", "negative", "rising", "falling")
VALUES = ("random", "large", "one-hot")
LAYOUTS = ("contiguous", "permuted", "expanded", "packed", "shared")


def make_inputs(sizes: Sizes, dtype: torch.dtype, generator: torch.Generator) -> dict:
    """``{"q": [B, H, N_q, D], "k", "v": [B, H_kv, N_k, D]}``, and causal, sm_scale if set.

    ``sizes`` holds B H N_q N_k D and may hold H_kv (H if left out), causal, sm_scale, and
    ``scores``: random (default); large (beyond +-88 at D 16: exp overflows in fp32); negative (all
    near -120); rising, falling (the row maximum moves by 2.5, by -50, in two stairs);
    ``values``: random (default); large (6,000 and more: sums pass fp16's 65,504); one-hot (v_j is
    unit vector j: o is P);
    ``layout``: contiguous (default); permuted ([B, N, H, D] memory, k a slice of longer rows, v
    with D outermost in each head); expanded (q, k every second element, k shared by the batch,
    v by the heads); packed ([B, N, H, D] memory, k and v side by side in one tensor, rows padded
    to whole steps of 16 bytes); shared (k shared by the batch, v by the heads and in longer rows,
    D side by side). A tensor descriptor can describe contiguous (D a multiple of 16 bytes), packed
    and shared.
    """
    B, D, heads = sizes["B"], sizes["D"], (sizes["H"], sizes.get("H_kv", sizes["H"]))
    scores, values = sizes.get("scores", "random"), sizes.get("values", "random")
    layout = sizes.get("layout", "contiguous")
    for name, chosen, known in (
        ("scores", scores, SCORES),
        ("values", values, VALUES),
        ("layout", layout, LAYOUTS),
    ):
        if chosen not in known:
            raise ValueError(f"{name} must be one of {known}, not {chosen!r}")

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    q, k, v = _LAYOUTS[layout](draw, B, heads, sizes["N_q"], sizes["N_k"], D)
    _set_scores(q, k, scores)
    if values == "large":
        v.abs_().add_(1.0).mul_(6000.0)
    if values == "one-hot":
        v.copy_(torch.eye(sizes["N_k"], D))
    inputs = {name: _cast(x, dtype) for name, x in (("q", q), ("k", k), ("v", v))}
    return inputs | {name: sizes[name] for name in ("causal", "sm_scale") if name in sizes}


def _set_scores(q: Tensor, k: Tensor, scores: str) -> None:
    """Channel 0 of q and k carries the wish: at D 16 and the default scale it adds k's value."""
    if scores == "random" or not k.shape[2]:
        return
    if scores == "large":
        q.mul_(60.0)
        return
    stairs = torch.arange(k.shape[2]) * 3 // k.shape[2]  # 0, 1, 2
    offsets = {"negative": 0.0 * stairs - 120.0, "rising": 2.5 * stairs, "falling": -50.0 * stairs}
    unit = 4.0 * (q.shape[3] / 16) ** 0.5
    q[..., 0] = unit
    k[..., 0] = offsets[scores]


Heads = tuple[int, int]  # of the queries, of the keys


def _contiguous(draw: Callable, B: int, heads: Heads, N_q: int, N_k: int, D: int) -> list[Tensor]:
    H, H_kv = heads
    return [draw(B, H, N_q, D), draw(B, H_kv, N_k, D), draw(B, H_kv, N_k, D)]


def _permuted(draw: Callable, B: int, heads: Heads, N_q: int, N_k: int, D: int) -> list[Tensor]:
    H, H_kv = heads
    q = draw(B, N_q, H, D).permute(0, 2, 1, 3)
    k = draw(B, N_k + 1, H_kv, D + 4)[:, 1:, :, 4:].permute(0, 2, 1, 3)
    return [q, k, draw(B, H_kv, D, N_k).transpose(2, 3)]


def _expanded(draw: Callable, B: int, heads: Heads, N_q: int, N_k: int, D: int) -> list[Tensor]:
    H, H_kv = heads
    q = draw(B, H, N_q, 2 * D)[..., ::2]
    k, v = draw(1, H_kv, N_k, 2 * D)[..., ::2], draw(B, 1, N_k, D)
    return [q, k.expand(B, H_kv, N_k, D), v.expand(B, H_kv, N_k, D)]


def _packed(draw: Callable, B: int, heads: Heads, N_q: int, N_k: int, D: int) -> list[Tensor]:
    H, H_kv = heads
    width = -(-D // 8) * 8  # 8 elements of 2 bytes are a step
    q = draw(B, N_q, H, width)[..., :D].permute(0, 2, 1, 3)
    k, v = draw(B, N_k, 2, H_kv, width)[..., :D].permute(2, 0, 3, 1, 4)
    return [q, k, v]


def _shared(draw: Callable, B: int, heads: Heads, N_q: int, N_k: int, D: int) -> list[Tensor]:
    H, H_kv = heads
    k, v = draw(1, H_kv, N_k, D), draw(B, 1, N_k, D + 8)[..., :D]
    return [draw(B, H, N_q, D), k.expand(B, H_kv, N_k, D), v.expand(B, H_kv, N_k, D)]


_LAYOUTS = {
    "contiguous": _contiguous,
    "permuted": _permuted,
    "expanded": _expanded,
    "packed": _packed,
    "shared": _shared,
}


def _cast(x: Tensor, dtype: torch.dtype) -> Tensor:
    """The same view of the same storage in another dtype."""
    base = x.new_empty(0).set_(x.untyped_storage()).to(dtype)
    return base.as_strided(x.shape, x.stride(), x.storage_offset())
