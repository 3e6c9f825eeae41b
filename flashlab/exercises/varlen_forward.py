"""Inputs, cases, budget and hints of ``varlen_forward``. Floor: course."""

from collections.abc import Mapping, Sequence
from itertools import accumulate

import torch
from torch import Tensor

from flashlab.exercise import Case, Exercise, Inputs, Output, Sizes, Tiles
from flashlab.exercises import attention_inputs
from flashlab.exercises.decode_inputs import indices
from flashlab.exercises.mistakes.varlen_forward import MISTAKES
from flashlab.iocount.bounds import keys_met
from flashlab.reference.honest import honest_attention

STATISTIC = INDEX = 4  # bytes of an lse, of an end


def make_inputs(sizes: Sizes, dtype: torch.dtype, generator: torch.Generator) -> dict:
    """``{"q": [T_q, H, D], "k", "v": [T_k, H_kv, D]}``, both ends, max_seqlen_q, causal, sm_scale.

    ``sizes`` holds H D and the lengths N_q N_k, a number a sequence, and may hold what
    ``attention_inputs.make_inputs`` knows, and ``rest``: so many tokens behind the last sequence,
    all NaN (no keys where there is no sequence); ``spare``: max_seqlen_q is so much too large;
    ``layout`` permuted: q is [H, T_q, D] in memory, k a slice of longer rows, v has D outermost,
    the ends are every second element.
    """
    permuted = sizes.get("layout") == "permuted"
    totals = {name: sum(sizes[name]) for name in ("N_q", "N_k")}
    rest = {"q": sizes.get("rest", 0), "k": sizes.get("rest", 0) * bool(sizes["N_k"])}
    whole = {**sizes, "B": 1, "N_q": totals["N_q"] + rest["q"], "N_k": totals["N_k"] + rest["k"]}
    made = attention_inputs.make_inputs(whole, dtype, generator)
    for name in "qkv":
        made[name] = made[name][0].transpose(0, 1)  # [T, H, D]
        if "layout" not in sizes:
            made[name] = made[name].contiguous()
        made[name][totals["N_q" if name == "q" else "N_k"] :] = torch.nan
    if permuted:
        made["q"] = made["q"].transpose(0, 1).contiguous().transpose(0, 1)
    for name in ("N_q", "N_k"):
        ends = [0, *accumulate(sizes[name])]
        made[f"cu_seqlens_{name[-1]}"] = indices(ends, permuted)
    return made | {"max_seqlen_q": max(sizes["N_q"], default=0) + sizes.get("spare", 0)}


def honest(inputs: Inputs) -> list[dict[str, Tensor]]:
    """Six honest answers: the scale on S, q or k; exp or exp2; each sequence by itself."""
    q, k, v = (inputs[name] for name in "qkv")
    more = {n: inputs[n] for n in ("causal", "sm_scale") if n in inputs}
    ends = [inputs[f"cu_seqlens_{name}"].tolist() for name in "qk"]
    T_q, H, D = q.shape
    made = [
        {"o": q.new_zeros(T_q, H, D), "lse": torch.full([H, T_q], -torch.inf)} for _ in range(6)
    ]
    for q_0, q_1, k_0, k_1 in zip(ends[0], ends[0][1:], ends[1], ends[1][1:], strict=False):
        parts = [x[None].transpose(1, 2) for x in (q[q_0:q_1], k[k_0:k_1], v[k_0:k_1])]
        for whole, part in zip(made, honest_attention(*parts, **more), strict=True):
            whole["o"][q_0:q_1] = part["o"][0].transpose(0, 1)
            whole["lse"][:, q_0:q_1] = part["lse"][0]
    return made


def budget(sizes: Sizes, tiles: Tiles, itemsize: int) -> Mapping[str, tuple[int, int]]:
    """No byte for padding: q once, k and v of a sequence once per block of its own queries.

    Every program reads two ends of each kind, also one that finds nothing to do; the kernel that
    fills the rest reads the last end in each program.
    """
    H, D, names = (
        sizes["H"],
        sizes["D"],
        ("q", "k", "v", "cu_seqlens_q", "cu_seqlens_k", "o", "lse"),
    )
    block_m, block_n, causal = tiles["BLOCK_M"], tiles["BLOCK_N"], sizes.get("causal", False)
    T_q = sum(sizes["N_q"]) + sizes.get("rest", 0)
    if T_q * H == 0:  # no launch
        return dict.fromkeys(names, (0, 0))
    pairs = list(zip(sizes["N_q"], sizes["N_k"], strict=True))
    row = H * D * itemsize
    keys = row * sum(keys_met(N_q, N_k, block_m, block_n, causal) for N_q, N_k in pairs)
    longest = max(sizes["N_q"], default=0) + sizes.get("spare", 0)
    ends = 2 * INDEX * -(-longest // block_m) * H * len(pairs)
    return {
        "q": (sum(sizes["N_q"]) * row, 0),
        "k": (keys, 0),
        "v": (keys, 0),
        "cu_seqlens_q": (ends + INDEX * -(-T_q // block_m) * H, 0),
        "cu_seqlens_k": (ends, 0),
        "o": (0, T_q * row),
        "lse": (0, T_q * H * STATISTIC),
    }


def _sizes(N_q: Sequence[int], N_k: Sequence[int], H: int = 1, D: int = 16, **rest) -> Sizes:
    return {"N_q": N_q, "N_k": N_k, "H": H, "D": D, **rest}


CASES = (
    Case(
        "one-sequence",
        "core",
        lambda t: _sizes([t["BLOCK_M"]], [t["BLOCK_N"]], D=32),
        "One sequence, one tile: lab 07's kernel with another layout.",
        pairs=(1, 2),
    ),
    Case(
        "two-sequences",
        "core",
        lambda t: _sizes([2 * t["BLOCK_M"], t["BLOCK_M"]], [2 * t["BLOCK_N"], t["BLOCK_N"]], H=2),
        "Two sequences of whole tiles: the second starts where the first ends, and neither sees "
        "the other's keys.",
        pairs=(0, 1, 2),
        own=True,
    ),
    Case(
        "lengths-differ",
        "core",
        lambda t: _sizes(
            [t["BLOCK_M"], 2 * t["BLOCK_M"], t["BLOCK_M"]],
            [2 * t["BLOCK_N"], t["BLOCK_N"], 3 * t["BLOCK_N"]],
        ),
        "Each sequence has as many keys as it likes: the ends of the keys are not those of the "
        "queries.",
        pairs=(0, 1),
    ),
    Case(
        "given-scale",
        "core",
        lambda t: _sizes([t["BLOCK_M"]] * 2, [t["BLOCK_N"]] * 2, sm_scale=0.5),
        "sm_scale is given as 0.5, which is not 1/sqrt(D).",
    ),
    Case(
        "large-scores",
        "core",
        lambda t: _sizes([t["BLOCK_M"]] * 2, [2 * t["BLOCK_N"]] * 2, scores="large"),
        "Scores beyond +-88, where exp overflows in fp32 unless the maximum is subtracted.",
    ),
    Case(
        "short-sequences",
        "ragged",
        lambda t: _sizes([5, 1, t["BLOCK_M"] + 6], [5, 1, t["BLOCK_N"] + 6]),
        "5, 1 and a few more tokens: the rows behind a sequence are those of the next one, which "
        "must be neither read as keys nor written.",
        pairs=(0, 1, 2),
        own=True,
    ),
    Case(
        "negative-scores",
        "ragged",
        lambda t: _sizes([6, 7], [t["BLOCK_N"] + 5, 3], scores="negative"),
        "All scores are near -120: a lane beyond the sequence that counts as score 0 outweighs "
        "every real key.",
        pairs=(0, 1),
    ),
    Case(
        "odd-head-dim",
        "ragged",
        lambda t: _sizes([4, 3], [t["BLOCK_N"] + 3, 2], H=2, D=24),
        "D is 24 and BLOCK_D 32: the columns from D on belong to the next head.",
        pairs=(0, 2),
    ),
    Case(
        "spare-blocks",
        "ragged",
        lambda t: _sizes([3, 4], [5, 2], spare=t["BLOCK_M"] + 5),
        "max_seqlen_q is more than the longest sequence: whole blocks have nothing to do.",
    ),
    Case(
        "negative-scale",
        "ragged",
        lambda t: _sizes([5, 2], [t["BLOCK_N"] + 5, 6], sm_scale=-0.5),
        "sm_scale is -0.5: a hidden key's -inf turns into +inf if it is multiplied afterwards.",
    ),
    Case(
        "causal-sequences",
        "causal",
        lambda t: _sizes(
            [5, 1, 2 * t["BLOCK_M"] + 6], [5, 1, 2 * t["BLOCK_M"] + 6], H=2, causal=True
        ),
        "Causal: positions count from the start of each sequence, not of the pack.",
        pairs=(0, 1, 2),
        own=True,
    ),
    Case(
        "causal-few-queries",
        "causal",
        lambda t: _sizes([5, 1, 3], [t["BLOCK_N"] + 5, 7, 2 * t["BLOCK_N"]], causal=True),
        "Causal with more keys than queries, by another number in each sequence: the last query "
        "of each sees its last key.",
        pairs=(0, 2),
    ),
    Case(
        "causal-many-queries",
        "causal",
        lambda t: _sizes([2 * t["BLOCK_M"] + 8, 4], [t["BLOCK_N"] + 4, 1], causal=True),
        "Causal with more queries than keys: the first rows see no key; their o is 0, lse -inf.",
        pairs=(0, 1),
    ),
    Case(
        "causal-negative",
        "causal",
        lambda t: _sizes(
            [t["BLOCK_N"] + 7, 4], [t["BLOCK_N"] + 7, 4], causal=True, scores="negative"
        ),
        "Causal and ragged with all scores near -120: a hidden key must weigh nothing at all.",
    ),
    Case(
        "causal-last-key",
        "causal",
        lambda t: _sizes([3, t["BLOCK_M"]], [3, 2 * t["BLOCK_N"] + 1], causal=True),
        "The third key tile has one key, which the last query alone sees: it is not skipped.",
    ),
    Case(
        "causal-one-hidden",
        "causal",
        lambda t: _sizes([7], [2 * t["BLOCK_N"] + 5], causal=True),
        "The first query sees all keys of the first two tiles but one: the second needs a mask.",
    ),
    Case(
        "scale-zero",
        "hostile",
        lambda t: _sizes([11, 3], [t["BLOCK_N"] + 11, 6], causal=True, sm_scale=0.0),
        "sm_scale is 0: all keys that a query sees weigh the same, and -inf * 0 is NaN.",
    ),
    Case(
        "empty-sequences",
        "hostile",
        lambda t: _sizes([0, 3, 4, 0, 2], [2, 0, 5, 0, t["BLOCK_N"] + 1], H=2),
        "Sequences without queries, without keys, without either: a query without keys has o 0 "
        "and lse -inf.",
        pairs=(0, 2),
    ),
    Case(
        "tokens-of-no-sequence",
        "hostile",
        lambda t: _sizes([5, 4], [6, 3], H=2, rest=t["BLOCK_M"] + 3),
        "The pack is longer than its sequences: the tokens behind them are NaN, get o 0 and lse "
        "-inf, and no query sees them.",
        pairs=(0, 1),
    ),
    Case(
        "grouped-heads",
        "hostile",
        lambda t: _sizes([6, t["BLOCK_M"] + 1], [4, t["BLOCK_N"] + 3], H=4, H_kv=2),
        "4 query heads share 2 key heads: head h reads key head h // 2.",
    ),
    Case(
        "permuted",
        "hostile",
        lambda t: _sizes([9, 8], [11, 8], H=3, layout="permuted"),
        "q has the heads outermost in memory, v has D outermost, the ends are every second "
        "element: only the strides tell.",
        pairs=(0, 2),
    ),
    Case(
        "expanded",
        "hostile",
        lambda t: _sizes([9, 8], [11, 8], H=2, layout="expanded"),
        "q and k are every second element, the heads share v (stride 0).",
    ),
    Case(
        "fp32",
        "hostile",
        lambda t: _sizes([t["BLOCK_M"], 5], [2 * t["BLOCK_N"], 7]),
        "float32: no tile may pass through fp16 on its way.",
        dtype="float32",
    ),
    Case(
        "bf16",
        "hostile",
        lambda t: _sizes([20, 3], [20, 3], causal=True),
        "bfloat16 in, bfloat16 out; the statistics stay fp32.",
        dtype="bfloat16",
    ),
    Case(
        "large-values",
        "hostile",
        lambda t: _sizes([7, 5], [3 * t["BLOCK_N"], 9], values="large"),
        "Values of 6,000 and more: their sum over a row does not fit in fp16.",
    ),
    Case(
        "head-dim-80",
        "hostile",
        lambda t: _sizes([5, 2], [t["BLOCK_N"] + 1, 3], D=80),
        "D is 80 and BLOCK_D 128.",
    ),
    Case(
        "no-sequences",
        "hostile",
        lambda t: _sizes([], [], H=2, rest=3),
        "There are tokens but no sequence: o is 0 and lse -inf.",
        trivial="no query sees a key, so zeros are right",
    ),
    Case(
        "no-tokens",
        "hostile",
        lambda t: _sizes([0, 0], [3, 4], H=2),
        "There are sequences but no query: the outputs are empty, and nothing is launched.",
        trivial="o has no elements, so every answer is right",
    ),
)

EXERCISE = Exercise(
    slug="varlen_forward",
    chapter="10",
    title="Packed sequences of different lengths",
    kind="triton",
    reference="flashlab.reference.varlen:varlen_forward",
    outputs=(Output("o"), Output("lse", "float32")),
    make_inputs=make_inputs,
    honest=honest,
    cases=CASES,
    mistakes=MISTAKES,
    hints=(
        "Nothing inside the loop changes. What changes is where a row lies in memory, and what "
        "counts as its position: the address counts from the start of the pack, everything else "
        "(masks, the diagonal, the end of the keys) from the start of the sequence.",
        "The queries of sequence seq start at cu_seqlens_q[seq] and end before "
        "cu_seqlens_q[seq + 1]; so N_q is the difference. The keys have ends of their own. The "
        "loop then runs as if N_q and N_k were the sizes of the whole tensor.",
        "The diagonal is bottom-right in each sequence: shift = N_k - N_q of this sequence. A key "
        "beyond N_k is a real key, of the next sequence: load it masked and give it the score "
        "-inf. Tokens from cu_seqlens_q[S] on belong to nobody; no program of a sequence writes "
        "them.",
        "Step 1: q_first = tl.load(cu_q_ptr + seq * stride_cq), N_q = tl.load(cu_q_ptr + (seq + "
        "1) * stride_cq) - q_first, keys likewise. Step 2: full, end = N_k, N_k; causal: "
        "tl.minimum with start_m + 1 + shift and start_m + BLOCK_M + shift. Step 3: q_seq = "
        "q_ptr + q_first.to(tl.int64) * stride_qm. Step 5: mask_rest = (rows >= last) & (rows < "
        "T_q), with last = tl.load(cu_q_ptr + S * stride_cq).",
    ),
    steps=(
        "My sequence",
        "Tiles to visit",
        "Where my sequence starts",
        "Hide keys",
        "Tokens of no sequence",
    ),
    budget=budget,
    tile_names=("BLOCK_M", "BLOCK_N"),
    tile_pairs=((16, 16), (32, 16), (16, 32)),
    minutes=45,
)
