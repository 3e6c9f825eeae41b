"""Cases, budget and hints of ``split_kv_decode``. Floor: course."""

from collections.abc import Mapping

import torch

from flashlab.exercise import Case, Exercise, Output, Sizes, Tiles
from flashlab.exercises import decode_inputs
from flashlab.exercises.mistakes.split_kv_decode import MISTAKES
from flashlab.iocount.bounds import split_kv_bytes


def make_inputs(sizes: Sizes, dtype: torch.dtype, generator: torch.Generator) -> dict:
    """q, k, v of ``decode_inputs.cached``, and ``num_splits``, which ``sizes`` holds too."""
    return decode_inputs.cached(sizes, dtype, generator) | {"num_splits": sizes["num_splits"]}


def budget(sizes: Sizes, tiles: Tiles, itemsize: int) -> Mapping[str, tuple[int, int]]:
    """k and v once, whatever num_splits is and however many heads share them; parts in fp32.

    Scratch is the parts: written once by the first kernel, read once by the second.
    """
    B, H, N, D = (sizes[n] for n in ("B", "H", "N", "D"))
    H_kv, lengths = sizes.get("H_kv", H), sizes.get("lengths")
    names = ("q", "k", "v", "o", "lse", *(["cache_seqlens"] if lengths is not None else []))
    if B * H * H_kv * N == 0:  # no launch
        return dict.fromkeys(names, (0, 0))
    keys = N if lengths is None else lengths
    moved = split_kv_bytes(B, H, H_kv, keys, D, sizes["num_splits"], itemsize)
    parts = moved.pop("o_partial")[0] + moved.pop("lse_partial")[0]
    return moved | {"scratch": (parts, parts)}


def _sizes(N: int, num_splits: int, B: int = 1, H: int = 1, D: int = 16, **rest) -> Sizes:
    return {"B": B, "H": H, "N": N, "D": D, "num_splits": num_splits, **rest}


CASES = (
    Case(
        "one-share",
        "core",
        lambda t: _sizes(2 * t["BLOCK_N"], 1, D=32),
        "One share: the first kernel is lab 04's loop for one query, the merge has one part.",
        pairs=(0, 1, 2),
    ),
    Case(
        "four-shares",
        "core",
        lambda t: _sizes(4 * t["BLOCK_N"], 4, B=2, H=3),
        "Four tiles, four shares, 2 batches of 3 heads: every program must find its own keys.",
        pairs=(0, 1),
        own=True,
    ),
    Case(
        "uneven-shares",
        "core",
        lambda t: _sizes(5 * t["BLOCK_N"], 3),
        "Five tiles in three shares: 2, 2 and 1. Rounded down, two tiles would be forgotten.",
        own=True,
    ),
    Case(
        "given-scale",
        "core",
        lambda t: _sizes(2 * t["BLOCK_N"], 2, sm_scale=0.5),
        "sm_scale is given as 0.5, which is not 1/sqrt(D).",
    ),
    Case(
        "large-scores",
        "core",
        lambda t: _sizes(4 * t["BLOCK_N"], 2, scores="large"),
        "Scores beyond +-88, where exp overflows in fp32 unless the maximum is subtracted.",
        pairs=(0, 1),
    ),
    Case(
        "rising-scores",
        "core",
        lambda t: _sizes(6 * t["BLOCK_N"], 2, scores="rising"),
        "Every tile raises the maximum: what was summed before must shrink, in a share and in "
        "the merge.",
    ),
    Case(
        "falling-scores",
        "core",
        lambda t: _sizes(6 * t["BLOCK_N"], 1, scores="falling"),
        "Every second tile lies 50 below the one before: the maximum of the first must be kept.",
        pairs=(0, 1),
    ),
    Case(
        "grouped-heads",
        "core",
        lambda t: _sizes(2 * t["BLOCK_N"], 2, B=2, H=6, H_kv=2),
        "6 query heads share 2 key heads: head h reads key head h // 3, and three heads read it "
        "together, once.",
    ),
    Case(
        "ragged-keys",
        "ragged",
        lambda t: _sizes(2 * t["BLOCK_N"] + 5, 2, scores="negative"),
        "The last tile has 5 keys, and all scores are near -120: a lane beyond the last key that "
        "counts as score 0 outweighs every real key.",
        pairs=(0, 1),
        own=True,
    ),
    Case(
        "more-shares-than-tiles",
        "ragged",
        lambda t: _sizes(t["BLOCK_N"] + 3, 5, H=2),
        "Two tiles in five shares: three programs have no key, and their parts must add nothing.",
        pairs=(0, 2),
    ),
    Case(
        "odd-head-dim",
        "ragged",
        lambda t: _sizes(t["BLOCK_N"] + 3, 2, H=2, D=24),
        "D is 24 and BLOCK_D 32: the columns from D on belong to the next row.",
    ),
    Case(
        "one-key",
        "ragged",
        lambda t: _sizes(1, 3, H=2),
        "One key in three shares: o is v, lse is the score itself.",
        trivial="the only key has all the weight: V[0] and the mean of V are right",
    ),
    Case(
        "negative-scale",
        "ragged",
        lambda t: _sizes(t["BLOCK_N"] + 5, 2, sm_scale=-0.5),
        "sm_scale is -0.5: a hidden key's -inf turns into +inf if it is multiplied afterwards.",
    ),
    Case(
        "scale-zero",
        "ragged",
        lambda t: _sizes(t["BLOCK_N"], 2, B=2, sm_scale=0.0, lengths=[t["BLOCK_N"], 5]),
        "sm_scale is 0, which is not None: all keys weigh the same.",
        trivial="all keys weigh the same, so the mean of V is right",
    ),
    Case(
        "lengths",
        "hostile",
        lambda t: _sizes(3 * t["BLOCK_N"], 2, B=3, H=2, lengths=[3 * t["BLOCK_N"], 5, 0]),
        "The batches hold 3 tiles, 5 and no keys; the rest of the cache is NaN and must not be "
        "read. Without a key, o is 0 and lse is -inf.",
        pairs=(0, 2),
    ),
    Case(
        "grouped-lengths",
        "hostile",
        lambda t: _sizes(
            2 * t["BLOCK_N"], 3, B=2, H=4, H_kv=2, lengths=[t["BLOCK_N"] + 1, 2 * t["BLOCK_N"]]
        ),
        "Grouped heads and lengths together: the length belongs to the batch, not to the head.",
    ),
    Case(
        "one-key-head",
        "hostile",
        lambda t: _sizes(t["BLOCK_N"] + 1, 2, H=20, H_kv=1),
        "20 query heads share one key head: the query tile has 32 rows, 12 of them idle.",
    ),
    Case(
        "many-shares",
        "hostile",
        lambda t: _sizes(2 * t["BLOCK_N"], 70),
        "70 shares: more parts than one tile of the merge holds.",
    ),
    Case(
        "many-full-shares",
        "hostile",
        lambda t: _sizes(130 * t["BLOCK_N"], 130, scores="rising"),
        "130 shares with keys, and later tiles of the merge raise the largest lse: what was "
        "merged before must shrink.",
    ),
    Case(
        "permuted",
        "hostile",
        lambda t: _sizes(19, 2, B=2, H=6, H_kv=3, layout="permuted", lengths=[19, 18]),
        "q and k are [B, N, H, D] in memory, v has D outermost, the lengths are every second "
        "element: only the strides tell.",
        pairs=(0, 2),
    ),
    Case(
        "expanded",
        "hostile",
        lambda t: _sizes(20, 2, B=2, H=2, layout="expanded"),
        "q and k are every second element, the batch shares k (stride 0) and the heads share v.",
    ),
    Case(
        "fp32",
        "hostile",
        lambda t: _sizes(4 * t["BLOCK_N"], 2, D=32),
        "float32: no tile may pass through fp16 on its way.",
        dtype="float32",
    ),
    Case(
        "bf16",
        "hostile",
        lambda t: _sizes(2 * t["BLOCK_N"] + 3, 2, H=2),
        "bfloat16 in, bfloat16 out; the parts stay fp32.",
        dtype="bfloat16",
    ),
    Case(
        "large-values",
        "hostile",
        lambda t: _sizes(4 * t["BLOCK_N"], 2, values="large"),
        "Values of 6,000 and more: their sum over the keys does not fit in fp16.",
    ),
    Case(
        "head-dim-80",
        "hostile",
        lambda t: _sizes(t["BLOCK_N"] + 1, 2, D=80),
        "D is 80 and BLOCK_D 128.",
    ),
    Case(
        "no-keys",
        "hostile",
        lambda t: _sizes(0, 2, H=2),
        "N is 0: o is 0 and lse is -inf, whatever num_splits is.",
        trivial="there is no key, so zeros are right",
    ),
    Case(
        "empty-batch",
        "hostile",
        lambda t: _sizes(4, 2, B=0),
        "B is 0: the outputs are empty (and a grid of no programs must not be launched).",
        trivial="o has no elements, so every answer is right",
    ),
)

EXERCISE = Exercise(
    slug="split_kv_decode",
    chapter="10",
    title="Decode with split keys",
    kind="triton",
    reference="flashlab.reference.decode:split_kv_decode",
    outputs=(Output("o"), Output("lse", "float32")),
    make_inputs=make_inputs,
    honest=decode_inputs.honest,
    cases=CASES,
    mistakes=MISTAKES,
    hints=(
        "One query a head is one row of work, and one program a head leaves most of the GPU idle. "
        "So the keys are cut into shares, each program does lab 04 on its share alone, and the "
        "merge of lab 03 puts the parts together.",
        "Shares are whole tiles: there are cdiv(length, BLOCK_N) of them, and each share gets "
        "cdiv(tiles, num_splits), rounded up, or the last tiles belong to nobody. A share may "
        "come out empty: then first is not below last and the loop does not run.",
        "The rows of the query tile are the GROUP query heads that read key head h_kv: h_kv * "
        "GROUP and the next ones. Rows from GROUP on are idle. An empty share has l_i = 0: store "
        "o = 0 and lse = -inf. In the merge, subtract the largest lse, or 0 while all are -inf.",
        "Step 1: share = tl.cdiv(tl.cdiv(length, BLOCK_N), num_splits) * BLOCK_N, first = split * "
        "share, last = tl.minimum(first + share, length). Step 4: acc / l_safe[:, None] and m_i + "
        "tl.log(l_safe). Step 5: w = tl.exp(lse_s - m_safe); l_all = tl.exp(m_all - m_safe) * "
        "l_all + tl.sum(w, 0); o likewise with tl.sum(w[:, None] * o_s, 0).",
    ),
    steps=(
        "My query heads, my share of the keys",
        "Load the tile, score, mask",
        "Weights, rescale, accumulate",
        "Store my part",
        "Merge the parts",
    ),
    budget=budget,
    tile_names=("BLOCK_N",),
    tile_pairs=((16,), (32,), (64,)),
    minutes=60,
)
