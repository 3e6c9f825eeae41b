"""Inputs, cases, budget and hints of ``paged_decode``. Floor: course."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from flashlab.exercise import Case, Exercise, Inputs, Output, Sizes, Tiles
from flashlab.exercises import decode_inputs
from flashlab.exercises.mistakes.paged_decode import MISTAKES

STATISTIC = INDEX = 4  # bytes of an lse, of an entry of the table
HOSTILE = (2**30, -7, 2**31 - 1)  # what entries hold that no key needs


def make_inputs(sizes: Sizes, dtype: torch.dtype, generator: torch.Generator) -> dict:
    """``{"q": [B, H, 1, D], "k_pages", "v_pages": [P, page, H_kv, D]}``, block_table, lengths.

    ``sizes`` holds B H D page and lengths, a number a batch, and may hold what
    ``decode_inputs.cached`` knows, and ``shared``: all batches start with the same page;
    ``layout`` permuted: q and the pages have the heads outside the rows in memory, v's slots have
    D outermost, table and lengths are every second element. The pages lie in random order, page
    0 is nobody's, slots without a key are NaN, entries without a key are no pages.
    """
    lengths, page = sizes["lengths"], sizes["page"]
    plain = {n: x for n, x in sizes.items() if n != "layout"}
    made = decode_inputs.cached({**plain, "N": max(lengths, default=0)}, dtype, generator)
    strided = sizes.get("layout") == "permuted"
    counts = [-(-n // page) for n in lengths]
    order = (1 + torch.randperm(sum(counts), generator=generator)).tolist()
    width = max(counts, default=0) + 2
    table = [[HOSTILE[i % len(HOSTILE)] for i in range(width)] for _ in lengths]
    for b, count in enumerate(counts):
        for i in range(count):
            table[b][i] = table[0][0] if sizes.get("shared") and b and i == 0 else order.pop()
    P = sum(counts) + 1
    for name in "kv":
        made[f"{name}_pages"] = _scattered(made.pop(name), table, lengths, page, P)
    if strided:
        made["q"] = made["q"].repeat_interleave(2, dim=3)[..., ::2]
        made["k_pages"] = made["k_pages"].transpose(1, 2).contiguous().transpose(1, 2)
        made["v_pages"] = made["v_pages"].transpose(1, 3).contiguous().transpose(1, 3)
    made["block_table"] = decode_inputs.indices(table, strided) if table else _no_table(width)
    made["cache_seqlens"] = decode_inputs.indices(lengths, strided)
    return made


def _scattered(x: Tensor, table: list, lengths: Sequence[int], page: int, P: int) -> Tensor:
    """Pages [P, page, H_kv, D] that hold x [B, H_kv, N, D] where the table says, else NaN."""
    pages = x.new_full([P, page, x.shape[1], x.shape[3]], torch.nan)
    for b, n in enumerate(lengths):
        for j in range(n):
            pages[table[b][j // page], j % page] = x[b, :, j]
    return pages


def _no_table(width: int) -> Tensor:
    return torch.empty(0, width, dtype=torch.int32)


def honest(inputs: Inputs) -> list[dict[str, Tensor]]:
    """Six honest answers to the same call with the keys in order."""
    lengths, table = inputs["cache_seqlens"].tolist(), inputs["block_table"].tolist()
    cache = {"q": inputs["q"], "cache_seqlens": inputs["cache_seqlens"]}
    page = inputs["k_pages"].shape[1]
    for name in "kv":
        pages = inputs[f"{name}_pages"]
        x = pages.new_zeros(len(lengths), pages.shape[2], max(lengths, default=0), pages.shape[3])
        for b, n in enumerate(lengths):
            for j in range(n):
                x[b, :, j] = pages[table[b][j // page], j % page]
        cache[name] = x
    return decode_inputs.honest(cache | {"sm_scale": inputs.get("sm_scale")})


def budget(sizes: Sizes, tiles: Tiles, itemsize: int) -> Mapping[str, tuple[int, int]]:
    """The keys there are, once for all heads of a group, and an entry of the table for each."""
    B, H, D, lengths = sizes["B"], sizes["H"], sizes["D"], sizes["lengths"]
    H_kv = sizes.get("H_kv", H)
    keys = sum(lengths) * H_kv
    return {
        "q": (B * H * D * itemsize, 0),
        "k_pages": (keys * D * itemsize, 0),
        "v_pages": (keys * D * itemsize, 0),
        "block_table": (keys * INDEX, 0),
        "cache_seqlens": (B * H_kv * INDEX, 0),
        "o": (0, B * H * D * itemsize),
        "lse": (0, B * H * STATISTIC),
    }


def _sizes(lengths: Sequence[int], page: int, H: int = 1, D: int = 16, **rest) -> Sizes:
    return {"B": len(lengths), "H": H, "D": D, "lengths": lengths, "page": page, **rest}


CASES = (
    Case(
        "one-page",
        "core",
        lambda t: _sizes([t["BLOCK_N"]], t["BLOCK_N"], D=32),
        "One page that fills one tile: only the entry of the table is new.",
        pairs=(0, 1, 2),
    ),
    Case(
        "four-pages",
        "core",
        lambda t: _sizes([2 * t["BLOCK_N"]] * 2, t["BLOCK_N"] // 2, H=3),
        "2 batches of four pages that lie in random order, two pages to a tile.",
        pairs=(0, 1),
        own=True,
    ),
    Case(
        "large-pages",
        "core",
        lambda t: _sizes([3 * t["BLOCK_N"]], 2 * t["BLOCK_N"]),
        "A page holds two tiles, and the last page is half full.",
    ),
    Case(
        "given-scale",
        "core",
        lambda t: _sizes([2 * t["BLOCK_N"]], t["BLOCK_N"], sm_scale=0.5),
        "sm_scale is given as 0.5, which is not 1/sqrt(D).",
    ),
    Case(
        "large-scores",
        "core",
        lambda t: _sizes([4 * t["BLOCK_N"]], 16, scores="large"),
        "Scores beyond +-88, where exp overflows in fp32 unless the maximum is subtracted.",
    ),
    Case(
        "falling-scores",
        "core",
        lambda t: _sizes([6 * t["BLOCK_N"]], 16, scores="falling"),
        "Every second tile lies 50 below the one before: the maximum of the first must be kept.",
        pairs=(0, 1),
    ),
    Case(
        "grouped-heads",
        "core",
        lambda t: _sizes([2 * t["BLOCK_N"], t["BLOCK_N"]], 8, H=6, H_kv=2),
        "6 query heads share 2 key heads: head h reads key head h // 3, and three heads read it "
        "together, once.",
    ),
    Case(
        "half-full-page",
        "ragged",
        lambda t: _sizes([t["BLOCK_N"] + 6], 4, scores="negative"),
        "6 keys in pages of 4 beyond a full tile: two slots of the last page are NaN, and all "
        "scores are near -120.",
        pairs=(0, 1),
        own=True,
    ),
    Case(
        "odd-page",
        "ragged",
        lambda t: _sizes([2 * t["BLOCK_N"] + 1, 7], 5, H=2),
        "Pages of 5 keys: no page starts where a tile starts.",
        pairs=(0, 2),
        own=True,
    ),
    Case(
        "page-of-one",
        "ragged",
        lambda t: _sizes([t["BLOCK_N"] + 3, 4], 1),
        "Pages of one key: every key has an entry of its own.",
    ),
    Case(
        "odd-head-dim",
        "ragged",
        lambda t: _sizes([t["BLOCK_N"] + 3], 8, H=2, D=24),
        "D is 24 and BLOCK_D 32: the columns from D on belong to the next head.",
    ),
    Case(
        "one-key",
        "ragged",
        lambda t: _sizes([1, 1], 16, H=2),
        "One key: o is v, lse is the score itself.",
    ),
    Case(
        "negative-scale",
        "ragged",
        lambda t: _sizes([t["BLOCK_N"] + 5], 16, sm_scale=-0.5),
        "sm_scale is -0.5: a hidden key's -inf turns into +inf if it is multiplied afterwards.",
    ),
    Case(
        "scale-zero",
        "ragged",
        lambda t: _sizes([t["BLOCK_N"] + 5, 3], 16, sm_scale=0.0),
        "sm_scale is 0, which is not None: all keys weigh the same.",
    ),
    Case(
        "lengths",
        "hostile",
        lambda t: _sizes([3 * t["BLOCK_N"] - 2, 0, 5], 8, H=2),
        "A long, an empty and a short cache: entries behind the last key are no pages, and "
        "without a key o is 0 and lse is -inf.",
        pairs=(0, 2),
    ),
    Case(
        "shared-page",
        "hostile",
        lambda t: _sizes([12, 9], 8, H=2, shared=True),
        "Two sequences begin with the same text and share its page.",
    ),
    Case(
        "one-key-head",
        "hostile",
        lambda t: _sizes([t["BLOCK_N"] + 1], 16, H=20, H_kv=1),
        "20 query heads share one key head: the query tile has 32 rows, 12 of them idle.",
    ),
    Case(
        "permuted",
        "hostile",
        lambda t: _sizes([19, 18], 4, H=6, H_kv=3, layout="permuted"),
        "The pages have the heads outside the slots in memory, table and lengths are every second "
        "element: only the strides tell.",
        pairs=(0, 2),
    ),
    Case(
        "fp32",
        "hostile",
        lambda t: _sizes([4 * t["BLOCK_N"]], 16, D=32),
        "float32: no tile may pass through fp16 on its way.",
        dtype="float32",
    ),
    Case(
        "bf16",
        "hostile",
        lambda t: _sizes([2 * t["BLOCK_N"] + 3, 3], 16, H=2),
        "bfloat16 in, bfloat16 out; the statistics stay fp32.",
        dtype="bfloat16",
    ),
    Case(
        "large-values",
        "hostile",
        lambda t: _sizes([4 * t["BLOCK_N"]], 16, values="large"),
        "Values of 6,000 and more: their sum over the keys does not fit in fp16.",
    ),
    Case(
        "head-dim-80",
        "hostile",
        lambda t: _sizes([t["BLOCK_N"] + 1], 16, D=80),
        "D is 80 and BLOCK_D 128.",
    ),
    Case(
        "no-keys",
        "hostile",
        lambda t: _sizes([0, 0], 8, H=2),
        "All caches are empty: o is 0 and lse is -inf.",
        trivial="there is no key, so zeros are right",
    ),
    Case(
        "empty-batch",
        "hostile",
        lambda t: _sizes([], 8, H=2),
        "B is 0: the outputs are empty (and a grid of no programs must not be launched).",
        trivial="o has no elements, so every answer is right",
    ),
)

EXERCISE = Exercise(
    slug="paged_decode",
    chapter="10",
    title="Decode from pages",
    kind="triton",
    reference="flashlab.reference.decode:paged_decode",
    outputs=(Output("o"), Output("lse", "float32")),
    make_inputs=make_inputs,
    honest=honest,
    cases=CASES,
    mistakes=MISTAKES,
    hints=(
        "The keys of a sequence are numbered 0, 1, 2 and so on, but they lie in pages, and pages "
        "lie anywhere. Walk over the numbers as always; only the address of a key is new.",
        "Key j lies in the page that entry j // PAGE of the batch's row of the table names, in "
        "slot j % PAGE. A tile of BLOCK_N keys may touch several pages: let every lane look up "
        "its own.",
        "Keys from length on do not exist. Their entries hold anything, so mask the load of the "
        "table too, with other=0. Their slots may be NaN: mask k and v, and give the score -inf. "
        "Turn page and slot into int64 before they meet a stride.",
        "Step 1: mask_n = offs_n < length; page = tl.load(table + (offs_n // PAGE) * stride_tp, "
        "mask=mask_n, other=0).to(tl.int64); slot = (offs_n % PAGE).to(tl.int64). Step 2: k_head "
        "+ page[:, None] * stride_kp + slot[:, None] * stride_kn, v likewise. Step 4: acc / "
        "l_safe[:, None] and m_i + tl.log(l_safe), with l_safe = 1 where l_i is 0.",
    ),
    steps=(
        "Where the keys lie",
        "Load the tile, score, mask",
        "Weights, rescale, accumulate",
        "Finish and store",
    ),
    budget=budget,
    tile_names=("BLOCK_N",),
    tile_pairs=((16,), (32,), (64,)),
    minutes=35,
)
