"""Cases, budget and hints of ``block_sparse_forward``. Floor: course."""

from collections.abc import Mapping

import torch

from flashlab.exercise import Case, Exercise, Inputs, Output, Sizes, Tiles
from flashlab.exercises.block_inputs import block_mask, make_inputs
from flashlab.exercises.mistakes.block_sparse_forward import MISTAKES
from flashlab.iocount.bounds import block_sparse_forward_bytes
from flashlab.reference.block_sparse import visible_keys
from flashlab.reference.honest import honest_attention

_NUMBER = 4  # bytes of an entry of a list, and of a count


def honest(inputs: Inputs) -> list[dict[str, torch.Tensor]]:
    """Six honest answers: the scale on S, q or k; exp or exp2."""
    q, k, v = (inputs[name] for name in "qkv")
    tiles = inputs["block_m"], inputs["block_n"]
    seen = visible_keys(inputs["block_mask"], q.shape[2], k.shape[2], *tiles)
    return honest_attention(q, k, v, sm_scale=inputs.get("sm_scale"), seen=seen)


def budget(sizes: Sizes, tiles: Tiles, itemsize: int) -> Mapping[str, tuple[int, int]]:
    """k and v of the kept tiles alone; the mask once; lists ("scratch") written once.

    A program reads how long its list is, its last entry, and every entry once.
    """
    shape = tuple(sizes[name] for name in ("B", "H", "N_q", "N_k", "D"))
    mask = block_mask(sizes)
    launched = 0 not in shape
    traffic = block_sparse_forward_bytes(
        *shape, sizes["block_m"], sizes["block_n"], itemsize, mask
    )
    counts = mask.sum(2)  # [mask_heads, T_q], kept tiles of each row
    read = counts.numel() + counts.sum() + (counts > 0).sum()  # by the programs of all its heads
    readers = sizes["B"] * sizes["H"] // mask.shape[0] * launched
    written = (counts.numel() + counts.sum()) * launched
    traffic["block_mask"] = (mask.numel() * launched, 0)
    traffic["scratch"] = (int(read) * readers * _NUMBER, int(written) * _NUMBER)
    return {name: moved for name, moved in traffic.items() if name != "scratch" or launched}


def _sizes(t: Tiles, N_q: int, N_k: int, pattern: str, B: int = 1, H: int = 1, **rest) -> Sizes:
    tiles = {"block_m": t["BLOCK_M"], "block_n": t["BLOCK_N"]}
    return {"B": B, "H": H, "N_q": N_q, "N_k": N_k, "D": 16, "pattern": pattern} | tiles | rest


CASES = (
    Case(
        "one-tile",
        "core",
        lambda t: _sizes(t, t["BLOCK_M"], t["BLOCK_N"], "all", D=32),
        "One tile, and the mask keeps it: ordinary attention with a list of length 1.",
        pairs=(1, 2),
    ),
    Case(
        "holes",
        "core",
        lambda t: _sizes(t, 2 * t["BLOCK_M"], 3 * t["BLOCK_N"], "holes", B=2, H=2),
        "Of three key tiles the first and the last are kept; batches and heads share the mask.",
        pairs=(0, 1, 2),
    ),
    Case(
        "heads",
        "core",
        lambda t: _sizes(t, 3 * t["BLOCK_M"], 4 * t["BLOCK_N"], "heads", B=2, H=3, mask_heads=3),
        "Every head has a mask of its own, which is not symmetric: rows are blocks of queries.",
        pairs=(0, 2),
    ),
    Case(
        "wide",
        "core",
        lambda t: _sizes(t, 2 * t["BLOCK_M"], 11 * t["BLOCK_N"], "few"),
        "11 key tiles, of which a few are kept: the row of the mask is no power of two.",
        pairs=(0, 1),
    ),
    Case(
        "long-lists",
        "core",
        lambda t: _sizes(t, 9 * t["BLOCK_M"], 19 * t["BLOCK_N"], "heads"),
        "9 rows of 19 key tiles, of which two thirds are kept: lists of a dozen tiles.",
    ),
    Case(
        "given-scale",
        "core",
        lambda t: _sizes(t, t["BLOCK_M"], 3 * t["BLOCK_N"], "holes", sm_scale=0.5),
        "sm_scale is given as 0.5, which is not 1/sqrt(D).",
    ),
    Case(
        "large-scores",
        "core",
        lambda t: _sizes(t, t["BLOCK_M"], 3 * t["BLOCK_N"], "holes", scores="large"),
        "Scores beyond +-88, where exp overflows in fp32 unless the maximum is subtracted.",
    ),
    Case(
        "rising-scores",
        "core",
        lambda t: _sizes(t, t["BLOCK_M"], 3 * t["BLOCK_N"], "all", scores="rising"),
        "Every tile raises the row maximum: all that was summed before must shrink.",
    ),
    Case(
        "falling-scores",
        "core",
        lambda t: _sizes(t, t["BLOCK_M"], 3 * t["BLOCK_N"], "all", scores="falling"),
        "Every tile lies 50 below the one before: the maximum of the first must be kept.",
    ),
    Case(
        "empty-rows",
        "ragged",
        lambda t: _sizes(t, 3 * t["BLOCK_M"], 2 * t["BLOCK_N"], "odd-rows", H=2),
        "The first and the last block of queries have no tile: their o is 0, their lse -inf.",
        pairs=(0, 1),
    ),
    Case(
        "ragged-keys",
        "ragged",
        lambda t: _sizes(t, t["BLOCK_M"], 2 * t["BLOCK_N"] + 5, "holes", scores="negative"),
        "The last kept tile has 5 keys, and all scores are near -120: a lane beyond the last key "
        "that counts as score 0 outweighs every real key.",
        pairs=(0, 1),
    ),
    Case(
        "ragged-tile-dropped",
        "ragged",
        lambda t: _sizes(t, t["BLOCK_M"], 2 * t["BLOCK_N"] + 5, "not-last"),
        "The tile with 5 keys is not kept: the last tile of the list is a whole one.",
    ),
    Case(
        "ragged-tile-only",
        "ragged",
        lambda t: _sizes(t, t["BLOCK_M"], t["BLOCK_N"] + 3, "only-last"),
        "The only kept tile is the one with 3 keys.",
    ),
    Case(
        "ragged-queries",
        "ragged",
        lambda t: _sizes(t, t["BLOCK_M"] + 4, 2 * t["BLOCK_N"], "heads"),
        "The last block has 4 queries: its other rows must not be read or written.",
        pairs=(0, 1),
    ),
    Case(
        "odd-head-dim",
        "ragged",
        lambda t: _sizes(t, t["BLOCK_M"], 3 * t["BLOCK_N"] + 3, "heads", D=24),
        "D is 24 and BLOCK_D 32: the columns from D on belong to the next row.",
        pairs=(0, 2),
    ),
    Case(
        "negative-scale",
        "ragged",
        lambda t: _sizes(t, t["BLOCK_M"], 2 * t["BLOCK_N"] + 5, "holes", sm_scale=-0.5),
        "sm_scale is -0.5: a hidden key's -inf turns into +inf if it is multiplied afterwards.",
    ),
    Case(
        "scale-zero",
        "ragged",
        lambda t: _sizes(t, 5, 2 * t["BLOCK_N"] + 5, "holes", sm_scale=0.0),
        "sm_scale is 0: all keys that are kept weigh the same, and -inf * 0 is NaN.",
    ),
    Case(
        "one-token",
        "ragged",
        lambda t: _sizes(t, 1, 1, "all"),
        "One query and one key: o is v, lse is the score itself.",
        trivial="the only key has all the weight: V[0] and the mean of V are right",
    ),
    Case(
        "permuted",
        "hostile",
        lambda t: _sizes(
            t,
            2 * t["BLOCK_M"] + 1,
            3 * t["BLOCK_N"] + 3,
            "heads",
            B=2,
            H=3,
            mask_heads=3,
            layout="permuted",
            mask_layout="transposed",
        ),  # fmt: skip
        "q and k are [B, N, H, D] in memory, v has D outermost, the mask has columns outermost: "
        "only the strides tell.",
        pairs=(0, 2),
    ),
    Case(
        "expanded",
        "hostile",
        lambda t: _sizes(t, 18, 2 * t["BLOCK_N"] + 4, "holes", B=2, H=2, layout="expanded"),
        "q and k are every second element, the batch shares k (stride 0) and the heads share v.",
    ),
    Case(
        "fp32",
        "hostile",
        lambda t: _sizes(t, t["BLOCK_M"], 3 * t["BLOCK_N"], "holes"),
        "float32: no tile may pass through fp16 on its way.",
        dtype="float32",
    ),
    Case(
        "bf16",
        "hostile",
        lambda t: _sizes(t, 20, 2 * t["BLOCK_N"] + 3, "holes"),
        "bfloat16 in, bfloat16 out; the statistics stay fp32.",
        dtype="bfloat16",
    ),
    Case(
        "large-values",
        "hostile",
        lambda t: _sizes(t, t["BLOCK_M"], 3 * t["BLOCK_N"], "all", values="large"),
        "Values of 6,000 and more: their sum over a row does not fit in fp16.",
    ),
    Case(
        "head-dim-80",
        "hostile",
        lambda t: _sizes(t, 5, 2 * t["BLOCK_N"] + 1, "holes", D=80),
        "D is 80 and BLOCK_D 128.",
    ),
    Case(
        "nothing-kept",
        "hostile",
        lambda t: _sizes(t, t["BLOCK_M"] + 1, t["BLOCK_N"] + 1, "none", H=2),
        "The mask keeps nothing at all: o is 0 and lse is -inf.",
        trivial="no query sees a key, so zeros are right",
    ),
    Case(
        "no-keys",
        "hostile",
        lambda t: _sizes(t, 3, 0, "all", H=2),
        "N_k is 0: the mask has no columns; o is 0 and lse is -inf.",
        trivial="no query sees a key, so zeros are right",
    ),
    Case(
        "empty-batch",
        "hostile",
        lambda t: _sizes(t, 4, 4, "all", B=0),
        "B is 0: the outputs are empty (and a grid of no programs must not be launched).",
        trivial="o has no elements, so every answer is right",
    ),
)

EXERCISE = Exercise(
    slug="block_sparse_forward",
    chapter="05",
    title="Block-sparse attention",
    kind="triton",
    reference="flashlab.reference.block_sparse:block_sparse_forward",
    outputs=(Output("o"), Output("lse", "float32")),
    make_inputs=make_inputs,
    honest=honest,
    cases=CASES,
    mistakes=MISTAKES,
    hints=(
        "A tile that the mask drops must cost nothing: it is not loaded and not computed. So the "
        "loop does not run over all tiles and ask, it runs over a list of those that are kept. "
        "The first kernel makes that list of every row of the mask: for 1 0 1 1 it is 0, 2, 3, "
        "and its length is 3.",
        "Where in the list does tile j go? There are as many entries before it as there are kept "
        "tiles before j: a running sum of the flags, without its own. tl.cumsum(ones, 0) is the "
        "running sum that includes it.",
        "The variable tile holds a number from the list: its first key is tile * BLOCK_N. Ask for "
        "the next number, entry i + 1, as soon as you have used this one, so that it is there "
        "when the next round begins; the last round has no next entry, so mask that load. Only "
        "if TAIL is 1 can a tile have keys beyond N_k.",
        "Step 1: place = tl.cumsum(ones, 0) - ones, store offs_t to list_row + place with "
        "mask=keep, count = tl.sum(ones, 0). Step 2: start_n first, then tile = tl.load(list_row "
        "+ (i + 1) * stride_tn, mask=i + 1 < count, other=0). Step 3: k = load_tile(k_ptrs, "
        "mask_kv, TAIL or D < BLOCK_D), v likewise. Step 4 is chapter 04's with tl.exp2 and "
        "without the division. Step 5: m_i is in base 2, so lse = m_i * LN2 + tl.log(l_safe).",
    ),
    steps=(
        "List the tiles that are kept",
        "Find the tile",
        "Load and score",
        "Weigh and accumulate",
        "Finish and store",
    ),
    budget=budget,
    tile_names=("BLOCK_M", "BLOCK_N"),
    tile_pairs=((16, 16), (32, 16), (16, 32)),
    tiles_as="arguments",
    minutes=75,
)
