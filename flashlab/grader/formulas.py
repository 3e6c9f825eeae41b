"""Attention under one wrong formula, in fp64: "as if the scale were missing". Floor: course.

The second net below the mutant bank: it needs the call's ``q k v`` only, no kernel and no tiles
but those of the run. Layout [B, H, N, D].
"""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from flashlab.error_budget import as_fp64
from flashlab.reference.block_sparse import visible_keys
from flashlab.reference.honest import visible

LN2 = 0.6931471805599453
Formula = tuple[str, dict[str, Tensor]]


def applies(inputs: Mapping[str, Any]) -> bool:
    """Whether the call looks like plain attention: 4-D q, k and v."""
    return all(isinstance(inputs.get(n), Tensor) and inputs[n].dim() == 4 for n in "qkv")


def wrong_formulas(inputs: Mapping[str, Any], tiles: Mapping[str, int]) -> Iterator[Formula]:
    """Pairs of a sentence and the ``o`` and ``lse`` of the formula that it describes."""
    call = _Call(inputs, tiles)
    yield from _scales(call)
    yield from _masks(call)
    yield from _keys(call)
    yield from _finishes(call)


class _Call:
    """fp64 arguments with keys repeated to the query heads, and attention on them."""

    def __init__(self, inputs: Mapping[str, Any], tiles: Mapping[str, int]) -> None:
        self.q, k, v = (as_fp64(inputs[n]) for n in "qkv")
        self.group = self.q.shape[1] // max(1, k.shape[1])
        self.narrow = k, v
        self.k, self.v = (t.repeat_interleave(self.group, dim=1) for t in (k, v))
        given = inputs.get("sm_scale")
        self.scale = self.q.shape[-1] ** -0.5 if given is None else float(given)
        self.causal = bool(inputs.get("causal", False))
        self.N_q, self.N_k = self.q.shape[2], k.shape[2]
        self.block_n = tiles.get("BLOCK_N", 0)
        self.seen = visible(self.N_q, self.N_k, self.causal)
        self.block_mask = inputs.get("block_mask")  # bool [H or 1, T_q, T_k]: tiles that are kept
        if self.block_mask is not None:
            block_m, block_n = inputs["block_m"], inputs["block_n"]
            self.seen = visible_keys(self.block_mask, self.N_q, self.N_k, block_m, block_n)

    def parts(self, scale: float | None = None, seen: Tensor | None = None) -> tuple:
        """Scores, row maximum (0 for a row without keys), weights and their sum."""
        s = self.q @ self.k.transpose(-1, -2) * (self.scale if scale is None else scale)
        s = s.masked_fill(~(self.seen if seen is None else seen), -torch.inf)
        m = s.amax(-1, keepdim=True)
        m = m.masked_fill(m == -torch.inf, 0.0)
        p = torch.exp(s - m)
        return s, m, p, p.sum(-1, keepdim=True)

    def attention(
        self, scale: float | None = None, seen: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Right attention but for a scale or a mask."""
        _, m, p, l_sum = self.parts(scale, seen)
        o = p / l_sum.masked_fill(l_sum == 0, 1.0) @ self.v
        return {"o": o, "lse": (m + torch.log(l_sum))[..., 0]}


def _scales(call: _Call) -> Iterator[Formula]:
    D = call.q.shape[-1]
    for sentence, scale in (
        ("as if the scores were not multiplied by sm_scale", 1.0),
        ("as if the scores were multiplied by sm_scale twice", call.scale**2),
        ("as if the scores were divided by D, not by sqrt(D)", 1 / D),
        ("as if the scores were multiplied by sqrt(D), not divided", D**0.5),
        ("as if sm_scale were ignored and 1/sqrt(D) used", D**-0.5),
        ("as if exp2 were used without the factor log2(e)", call.scale * LN2),
        ("as if the factor log2(e) were there but exp used, not exp2", call.scale / LN2),
    ):
        if abs(scale - call.scale) > 1e-6 * call.scale:
            yield sentence, call.attention(scale=scale)


def _masks(call: _Call) -> Iterator[Formula]:
    rows, columns = torch.arange(call.N_q)[:, None], torch.arange(call.N_k)[None, :]
    shift = call.N_k - call.N_q
    if call.block_mask is not None:
        yield "as if block_mask were ignored", call.attention(seen=columns >= 0)
        yield "as if block_mask said which tiles to drop", call.attention(seen=~call.seen)
        return
    if not call.causal:
        yield "as if causal were always on", call.attention(seen=columns <= rows + shift)
        return
    masks = {
        "as if causal were ignored": torch.ones(call.N_q, call.N_k, dtype=torch.bool),
        "as if a query did not see its own key: the causal mask is one key too strict": columns
        < rows + shift,
        "as if a query saw the next key too: the causal mask is one key too loose": columns
        <= rows + shift + 1,
        "as if the causal mask were reversed": columns >= rows + shift,
    }
    if shift:
        masks["as if the causal mask were aligned top-left, not bottom-right"] = columns <= rows
    for sentence, seen in masks.items():
        yield sentence, call.attention(seen=seen)


def _keys(call: _Call) -> Iterator[Formula]:
    N_k, block = call.N_k, call.block_n
    columns = torch.arange(N_k)[None, :]
    if N_k > 1:
        yield (
            "as if the last key were missing",
            call.attention(seen=call.seen & (columns < N_k - 1)),
        )
        yield "as if the first key were missing", call.attention(seen=call.seen & (columns > 0))
    if block and N_k > block:
        first = call.seen & (columns < block)
        yield "as if only the first tile of keys were used", call.attention(seen=first)
        last = call.seen & (columns >= (N_k - 1) // block * block)
        yield "as if only the last tile of keys were used", call.attention(seen=last)
        if N_k % block:
            whole = call.seen & (columns < N_k // block * block)
            yield (
                "as if the last, partly filled tile of keys were dropped",
                call.attention(seen=whole),
            )
    if block and N_k % block and not call.causal:
        _, m, p, l_sum = call.parts()
        m_pad = m.clamp_min(0.0)
        p, padded = p * torch.exp(m - m_pad), block - N_k % block
        l_pad = l_sum * torch.exp(m - m_pad) + padded * torch.exp(-m_pad)
        yield (
            f"as if the {padded} lanes past the last key entered the softmax with score 0",
            {"o": p / l_pad @ call.v, "lse": (m_pad + torch.log(l_pad))[..., 0]},
        )
    if 1 < call.group < call.q.shape[1]:
        call.k, call.v = (t.repeat(1, call.group, 1, 1) for t in call.narrow)
        yield "as if query head h read key head h % H_kv, not h // group", call.attention()
        call.k, call.v = (t.repeat_interleave(call.group, dim=1) for t in call.narrow)


def _finishes(call: _Call) -> Iterator[Formula]:
    s, m, p, l_sum = call.parts()
    o = p / l_sum.masked_fill(l_sum == 0, 1.0) @ call.v
    m = m.masked_fill(l_sum == 0, -torch.inf)  # as in a kernel
    lse = (m + torch.log(l_sum))[..., 0]
    yield "o is not divided by the row's sum of weights", {"o": p @ call.v, "lse": lse}
    twice = o / l_sum.masked_fill(l_sum == 0, 1.0)
    yield "o is divided by the row's sum of weights twice", {"o": twice, "lse": lse}
    for sentence, value in (
        ("lse is in base 2: multiply it by ln 2", lse / LN2),
        ("lse is multiplied by ln 2 though it is in nats already", lse * LN2),
        ("lse lacks the row maximum m: it holds log(l) only", torch.log(l_sum)[..., 0]),
        ("lse lacks log(l): it holds the row maximum m only", m[..., 0]),
        ("lse is m + l: the logarithm of l is missing", (m + l_sum)[..., 0]),
        ("lse is m - log(l): the sign is wrong", (m - torch.log(l_sum))[..., 0]),
        ("lse holds l itself", l_sum[..., 0]),
        ("lse has the wrong sign", -lse),
        ("lse mixes bases: m is in base 2, log(l) in nats", (m / LN2 + torch.log(l_sum))[..., 0]),
    ):
        yield sentence, {"o": o, "lse": value}
