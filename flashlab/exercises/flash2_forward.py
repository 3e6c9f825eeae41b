"""Cases, budget and hints of ``flash2_forward``. Floor: course."""

from collections.abc import Mapping

import torch

from flashlab.exercise import Case, Exercise, Inputs, Output, Sizes, Tiles
from flashlab.exercises import flash_forward
from flashlab.exercises.attention_inputs import make_inputs
from flashlab.exercises.mistakes.flash2_forward import MISTAKES
from flashlab.iocount.bounds import flash_forward_bytes
from flashlab.reference.honest import honest_attention


def honest(inputs: Inputs) -> list[dict[str, torch.Tensor]]:
    """Six honest answers: the scale on S, q or k; exp or exp2."""
    return honest_attention(**inputs)


def budget(sizes: Sizes, tiles: Tiles, itemsize: int) -> Mapping[str, tuple[int, int]]:
    """q read and o, lse written once; k and v read by every query head and block as far as seen.

    Query heads that share a key head save memory, not these bytes: each reads its own way through.
    """
    shape = (sizes[name] for name in ("B", "H", "N_q", "N_k", "D"))
    causal = sizes.get("causal", False)
    return flash_forward_bytes(*shape, tiles["BLOCK_M"], tiles["BLOCK_N"], itemsize, causal)


def _sizes(B: int, H: int, H_kv: int, N_q: int, N_k: int, D: int = 16, **rest) -> Sizes:
    return {"B": B, "H": H, "H_kv": H_kv, "N_q": N_q, "N_k": N_k, "D": D, **rest}


CAUSAL = (
    Case(
        "causal-long",
        "causal",
        lambda t: _sizes(1, 1, 1, 2 * t["BLOCK_M"] + 3, 4 * t["BLOCK_N"], causal=True),
        "Three query blocks, the last one ragged, and four full key tiles: each block stops at "
        "its own last tile, and only there keys are hidden.",
        pairs=(0, 1, 2),
    ),
    Case(
        "causal-last-key",
        "causal",
        lambda t: _sizes(1, 1, 1, t["BLOCK_M"], 2 * t["BLOCK_N"] + 1, causal=True),
        "The third key tile has one key, which the last query alone sees: it is not skipped.",
    ),
    Case(
        "causal-one-hidden",
        "causal",
        lambda t: _sizes(
            1, 1, 1, t["BLOCK_M"], t["BLOCK_M"] + 2 * t["BLOCK_N"] - 2, causal=True
        ),  # fmt: skip
        "The first query sees all keys of the first two tiles but one: the second needs a mask.",
    ),
)

HOSTILE = (
    Case(
        "grouped-heads",
        "hostile",
        lambda t: _sizes(2, 4, 2, 20, t["BLOCK_N"] + 3, 40),
        "4 query heads share 2 key heads: query head h reads key head h // 2.",
        pairs=(0, 1),
    ),
    Case(
        "one-key-head",
        "hostile",
        lambda t: _sizes(2, 3, 1, 9, 21, causal=True, layout="permuted"),
        "3 query heads share one key head, causal with N_q != N_k, any strides.",
        pairs=(0, 2),
    ),
    Case(
        "scale-zero",
        "hostile",
        lambda t: _sizes(1, 1, 1, 11, t["BLOCK_N"] + 11, causal=True, sm_scale=0.0),
        "sm_scale is 0: all keys that a query sees weigh the same, and -inf * 0 is NaN.",
    ),
    Case(
        "head-dim-256",
        "hostile",
        lambda t: _sizes(1, 1, 1, 3, t["BLOCK_N"] + 1, 256),
        "D is 256, the most that a kernel takes.",
    ),
)


def _cases() -> tuple[Case, ...]:
    """The cases of ``flash_forward``, with those of skipped tiles and shared heads between."""
    before = [c for c in flash_forward.CASES if c.group != "hostile"]
    hostile = [c for c in flash_forward.CASES if c.group == "hostile"]
    return (*before, *CAUSAL, *HOSTILE, *hostile)


EXERCISE = Exercise(
    slug="flash2_forward",
    chapter="07",
    title="FlashAttention-2 forward",
    kind="triton",
    reference="flashlab.reference.attention:flash2_forward",
    outputs=(Output("o"), Output("lse", "float32")),
    make_inputs=make_inputs,
    honest=honest,
    cases=_cases(),
    mistakes=MISTAKES,
    hints=(
        "This is chapter 04's kernel with work taken out of its loop: the division, one product "
        "for every score, masks where nothing is hidden, tiles that nobody sees. Change one thing "
        "at a time: each step is checked alone, in the course's kernel.",
        "Divide after the loop: in it acc and l_i only need the same factor alpha. exp(x) is "
        "exp2(x * log2(e)), and x is scale * s - m: put log2(e) into the scale, so that the "
        "maximum, alpha and p are all in base 2. At the end lse = m + log2(l) is in base 2 too: "
        "turn it into nats.",
        "Query i sees the keys j <= i + shift, which are i + shift + 1 many. My first query is "
        "start_m, my last one start_m + BLOCK_M - 1. Keys that the first one sees are seen by "
        "all; keys that the last one does not see are seen by nobody.",
        "Step 1: m_new = tl.maximum(m_log2, scale_log2 * tl.max(s, 1)), then m_safe as in lab 04, "
        "alpha = tl.exp2(m_log2 - m_safe), p = tl.exp2(scale_log2 * s - m_safe[:, None]). Step 3: "
        "lse = (m_log2 + tl.log2(l_safe)) / LOG2E. Step 4: full = tl.minimum(N_k, start_m + 1 + "
        "shift) and end = tl.minimum(N_k, start_m + BLOCK_M + shift) if CAUSAL. Step 5: "
        "h // (H // H_kv).",
    ),
    steps=(
        "Weights by exp2",
        "Rescale and accumulate",
        "Divide once",
        "Tiles to visit",
        "Key head of a query head",
    ),
    budget=budget,
    tile_names=("BLOCK_M", "BLOCK_N"),
    tile_pairs=((16, 16), (32, 16), (16, 32)),
    minutes=60,
)
