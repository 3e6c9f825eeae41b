"""Cases, budget and hints of ``fp8_forward``. Floor: course."""

from collections.abc import Mapping

import torch

from flashlab.exercise import Case, Exercise, Inputs, Output, Sizes, Tiles
from flashlab.exercises.fp8_inputs import fp8_inputs
from flashlab.exercises.mistakes.fp8_forward import MISTAKES
from flashlab.iocount.bounds import keys_met
from flashlab.reference.honest_fp8 import honest_fp8

STATISTIC, BF16 = 4, 2  # bytes of a scale or of lse, of an element of o


def honest(inputs: Inputs) -> list[dict[str, torch.Tensor]]:
    """Honest answers: P rounded to e4m3 as it is, times 2^8, or in between; a band for o."""
    return honest_fp8(**inputs)


def budget(sizes: Sizes, tiles: Tiles, itemsize: int) -> Mapping[str, tuple[int, int]]:
    """A byte an element of q8, k8, v8; a scale for each row of q8 and each tile of k8, v8."""
    B, H, N_q, N_k, D = (sizes[name] for name in ("B", "H", "N_q", "N_k", "D"))
    block_m, block_n, block_rows = tiles["BLOCK_M"], tiles["BLOCK_N"], sizes["block_rows"]
    if block_rows < N_k and block_rows % block_n:
        block_n = 32  # a tile has one scale of k8 and one of v8
    causal = sizes.get("causal", False)
    heads = B * H if N_q * N_k else 0
    met = keys_met(N_q, N_k, block_m, block_n, causal)
    visits = heads * _tiles_met(N_q, N_k, block_m, block_n, causal)
    rows, keys = heads * N_q, heads * met * D * itemsize
    return {
        "q8": (rows * D * itemsize, 0),
        "k8": (keys, 0),
        "v8": (keys, 0),
        "q_scale": (rows * STATISTIC, 0),
        "k_scale": (visits * STATISTIC, 0),
        "v_scale": (visits * STATISTIC, 0),
        "o": (0, rows * D * BF16),
        "lse": (0, rows * STATISTIC),
    }


def _tiles_met(N_q: int, N_k: int, block_m: int, block_n: int, causal: bool) -> int:
    """Key tiles visited by all query blocks of a head together."""
    ends = [min(start + block_m, N_q) + N_k - N_q for start in range(0, N_q, block_m)]
    return sum(-(-max(0, end if causal else N_k) // block_n) for end in ends)


def _sizes(B: int, H: int, N_q: int, N_k: int, block_rows: int, D: int = 32, **rest) -> Sizes:
    found = {"B": B, "H": H, "N_q": N_q, "N_k": N_k, "D": D, "block_rows": block_rows}
    return found | rest


E4M3 = {"dtype": "float8_e4m3fn"}
CORE = (
    Case(
        "one-tile",
        "core",
        lambda t: _sizes(1, 1, t["BLOCK_M"], t["BLOCK_N"], 64),
        "One full tile of queries and one of keys, a scale for each of q8, k8 and v8.",
        pairs=(0, 1, 2),
        own=True,
        **E4M3,
    ),
    Case(
        "four-tiles",
        "core",
        lambda t: _sizes(1, 2, t["BLOCK_M"], 4 * t["BLOCK_N"], 8 * t["BLOCK_N"]),
        "Four tiles of keys and two heads, one scale a head. So many values have to show the "
        "error of FP8 weights: neither much more of it nor much less.",
        pairs=(0, 1, 2),
        own=True,
        **E4M3,
    ),
    Case(
        "scales-apart",
        "core",
        lambda t: _sizes(1, 1, 2 * t["BLOCK_M"], 4 * t["BLOCK_N"], 32, blocks="apart"),
        "Blocks of 32 rows, each larger than the one before: a row counts by its own scale.",
        pairs=(0, 1),
        **E4M3,
    ),
    Case(
        "large-scores",
        "core",
        lambda t: _sizes(1, 1, t["BLOCK_M"], 2 * t["BLOCK_N"], 64, scores="large"),
        "Scores beyond +-88, where exp overflows in fp32 unless the row's maximum is subtracted.",
        **E4M3,
    ),
    Case(
        "rising",
        "core",
        lambda t: _sizes(1, 1, t["BLOCK_M"], 3 * t["BLOCK_N"], 96, scores="rising"),
        "The row maximum rises twice by 2.5: what was summed so far has to shrink each time.",
        **E4M3,
    ),
)

RAGGED = (
    Case(
        "ragged-keys",
        "ragged",
        lambda t: _sizes(1, 1, t["BLOCK_M"], 2 * t["BLOCK_N"] + 5, 64, scores="negative"),
        "The last tile has 5 keys and all scores are near -120: a lane beyond the keys that "
        "counts as score 0 outweighs every real one.",
        pairs=(0, 1),
        **E4M3,
    ),
    Case(
        "ragged-queries",
        "ragged",
        lambda t: _sizes(1, 2, t["BLOCK_M"] + 1, 2 * t["BLOCK_N"], 64),
        "The last program has a single query, and the second block of q8 a single row.",
        pairs=(0, 2),
        **E4M3,
    ),
    Case(
        "below-a-tile",
        "ragged",
        lambda t: _sizes(2, 1, 5, 9, 9),
        "5 queries and 9 keys, fewer than any tile holds; one scale a head, for 9 rows.",
        **E4M3,
    ),
    Case(
        "short-blocks",
        "ragged",
        lambda t: _sizes(1, 1, 70, 100, 32, blocks="apart"),
        "Blocks of 32 rows: the last of q8 has 6, the last of k8 and v8 has 4.",
        pairs=(0, 2),
        **E4M3,
    ),
    Case(
        "odd-head-dim",
        "ragged",
        lambda t: _sizes(1, 1, t["BLOCK_M"], t["BLOCK_N"] + 3, 128, 40),
        "D is 40 in a tile of 64 columns: what lies to the right belongs to others.",
        **E4M3,
    ),
    Case(
        "small-head-dim",
        "ragged",
        lambda t: _sizes(1, 1, t["BLOCK_M"], 2 * t["BLOCK_N"], 128, 8),
        "D is 8, and a product in FP8 wants 32 columns: the rest is 0.",
        **E4M3,
    ),
)

CAUSAL = (
    Case(
        "causal-square",
        "causal",
        lambda t: _sizes(1, 1, 2 * t["BLOCK_M"] + 3, 2 * t["BLOCK_M"] + 3, 64, causal=True),
        "Query i sees the keys up to i: the first row of o is the first value.",
        pairs=(0, 1, 2),
        own=True,
        **E4M3,
    ),
    Case(
        "causal-more-keys",
        "causal",
        lambda t: _sizes(1, 1, 9, 2 * t["BLOCK_N"] + 11, 128, causal=True),
        "9 queries and more keys: the mask is aligned at the last query and the last key.",
        seed=1,
        pairs=(0, 2),
        **E4M3,
    ),
    Case(
        "causal-no-key",
        "causal",
        lambda t: _sizes(1, 2, t["BLOCK_M"] + 20, 25, 256, causal=True),
        "More queries than keys: the first ones see no key, o is 0 and lse -inf there.",
        pairs=(0, 1),
        **E4M3,
    ),
)

HOSTILE = (
    Case(
        "outliers",
        "hostile",
        lambda t: _sizes(1, 1, t["BLOCK_M"], 4 * t["BLOCK_N"], 64, 64, blocks="outliers"),
        "A few numbers of q, k and v are ten times as large as the others.",
        pairs=(0, 1),
        **E4M3,
    ),
    Case(
        "zero-block",
        "hostile",
        lambda t: _sizes(1, 1, t["BLOCK_M"], 3 * t["BLOCK_N"], 32, blocks="zeros"),
        "The first block of k8 and of v8 is 0, with a scale of 1.",
        **E4M3,
    ),
    Case(
        "mean",
        "hostile",
        lambda t: _sizes(1, 1, t["BLOCK_M"], 2 * t["BLOCK_N"] + 1, 128, blocks="mean"),
        "The values have mean 8: a scale of v8 that is missing or counted twice shows at once.",
        trivial="all values lie near 8, and so does their mean",
        **E4M3,
    ),
    Case(
        "tiny-values",
        "hostile",
        lambda t: _sizes(1, 1, 5, 20, 64, blocks="tiny"),
        "The values are near 1e-12, and so is their scale: fp16 holds neither.",
        **E4M3,
    ),
    Case(
        "flat",
        "hostile",
        lambda t: _sizes(1, 1, 3, 2048, 4096, sm_scale=0.0),
        "sm_scale is 0 and there are 2,048 keys: each weighs 2^-11, less than e4m3 holds. "
        "Relative to the maximum it is 1.",
        trivial="all keys weigh the same, so the mean of V is right",
        **E4M3,
    ),
    Case(
        "grouped-heads",
        "hostile",
        lambda t: _sizes(2, 4, 20, t["BLOCK_N"] + 3, 128, H_kv=2, blocks="apart"),
        "4 query heads share 2 key heads, and the scales of those: query head h reads h // 2.",
        pairs=(0, 1),
        **E4M3,
    ),
    Case(
        "one-key-head",
        "hostile",
        lambda t: _sizes(2, 3, 9, 70, 96, H_kv=1, causal=True, layout="permuted"),
        "3 query heads share one key head, causal with N_q != N_k, [B, N, H, D] in memory.",
        **E4M3,
    ),
    Case(
        "strided",
        "hostile",
        lambda t: _sizes(1, 2, 7, t["BLOCK_N"] + 2, 128, layout="strided"),
        "q8, k8 and v8 are every second column of longer rows.",
        **E4M3,
    ),
    Case(
        "negative-scale",
        "hostile",
        lambda t: _sizes(1, 1, t["BLOCK_M"], 2 * t["BLOCK_N"], 64, sm_scale=-0.3),
        "sm_scale is negative: the largest product is the smallest score.",
        **E4M3,
    ),
    Case(
        "falling",
        "hostile",
        lambda t: _sizes(1, 1, t["BLOCK_M"], 3 * t["BLOCK_N"], 96, scores="falling"),
        "Scores fall by 50 in two stairs: the maximum stays, later weights vanish.",
        **E4M3,
    ),
    Case(
        "head-dim-256",
        "hostile",
        lambda t: _sizes(1, 1, 3, t["BLOCK_N"] + 1, 128, 256),
        "D is 256, the most that a kernel takes.",
        **E4M3,
    ),
    Case(
        "one-key",
        "hostile",
        lambda t: _sizes(1, 1, 5, 1, 32),
        "One key: its weight is 1, which e4m3 holds exactly, and o is its value.",
        trivial="every query sees the one key alone, so V[0] and the mean of V are right",
        **E4M3,
    ),
    Case(
        "no-keys",
        "hostile",
        lambda t: _sizes(1, 1, 5, 0, 32),
        "No keys at all: o is 0, lse -inf, and nothing is to be launched.",
        trivial="o is 0",
        **E4M3,
    ),
)

EXERCISE = Exercise(
    slug="fp8_forward",
    chapter="09",
    title="FP8 attention",
    kind="triton",
    reference="flashlab.reference.fp8:fp8_forward",
    outputs=(Output("o", "bfloat16"), Output("lse", "float32")),
    make_inputs=fp8_inputs,
    honest=honest,
    cases=CORE + RAGGED + CAUSAL + HOSTILE,
    mistakes=MISTAKES,
    hints=(
        "This is FlashAttention-2 with numbers that are not what they stand for: q is q8 times "
        "its scale, k and v likewise. A scale that is the same along the sum of a product can be "
        "multiplied in afterwards, in fp32. So ask of each scale when it is the same.",
        "The sum of q k^T runs along D: row i's scale of q and the tile's scale of k come to the "
        "scores, with sm_scale, and log2(e) for exp2. The sum of p v runs along the keys of a "
        "tile: they share one scale of v, which comes to the tile's product, before it joins acc.",
        "p lies between 0 and 1 and would lose all below 2^-10. exp2(x + 8) is 2^8 exp2(x): add "
        "P_SHIFT to the exponent, and p ends at 256. l_i adds up the same p, before it is "
        "rounded, so the factor goes when acc is divided by l_i, but it stays in log2(l_i).",
        "Step 1: s = tl.dot(q8, tl.trans(k8)) times (q_scale * (k_scale * sm_scale * LOG2E))[:, "
        "None]. Step 2: as in lab 07, with p = tl.exp2(s - (m_safe - P_SHIFT)[:, None]). Step 3: "
        "acc = alpha[:, None] * acc + v_scale * tl.dot(p.to(v8.dtype), v8). Step 4: lse = "
        "(m_log2 + tl.log2(l_safe) - P_SHIFT) / LOG2E.",
    ),
    steps=("Scores", "Weights", "Accumulate", "Finish"),
    budget=budget,
    tile_names=("BLOCK_M", "BLOCK_N"),
    tile_pairs=((32, 32), (64, 32), (32, 64)),
    archs=(89, 90, 100, 120),
    shuns=("half",),
    minutes=40,
)
