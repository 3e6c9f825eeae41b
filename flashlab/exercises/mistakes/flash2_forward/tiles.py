"""Mistakes in which tiles and which head ``flash2_forward`` reads. Floor: course."""

from flashlab.exercise import Mistake

_ALL = "full, end = N_k, N_k"
_FULL = "full = tl.minimum(full, start_m + 1 + shift)"
_END = "end = tl.minimum(end, start_m + BLOCK_M + shift)"
_H_KV = "h_kv = h // group"

TILES = (
    Mistake(
        "stops-before-the-diagonal",
        _END,
        "end = tl.minimum(end, start_m + shift)",
        "causal-square",
        "wrong",
        "The causal loop ends one block early: the tiles on the diagonal are never visited.",
    ),
    Mistake(
        "end-of-the-wrong-block",
        _END,
        "end = tl.minimum(end, start_m + BLOCK_N + shift)",
        "causal-square",
        "wrong",
        "end counts BLOCK_N queries: my block has BLOCK_M of them.",
    ),
    Mistake(
        "end-without-shift",
        _END,
        "end = tl.minimum(end, start_m + BLOCK_M)",
        "causal-few-queries",
        "wrong",
        "end ignores the shift of the diagonal: with fewer queries than keys, keys that are seen "
        "are skipped.",
    ),
    Mistake(
        "end-beyond-the-last-key",
        _END,
        "end = start_m + BLOCK_M + shift",
        "causal-long",
        "oob",
        "end may pass N_k: the last block of queries is not full, and keys beyond N_k do not "
        "exist.",
    ),
    Mistake(
        "end-at-my-first-query",
        _END,
        "end = tl.minimum(end, start_m + 1 + shift)",
        "causal-square",
        "wrong",
        "end is what my first query sees: my last one sees BLOCK_M - 1 keys more.",
    ),
    Mistake(
        "end-one-key-short",
        _END,
        "end = tl.minimum(end, start_m + BLOCK_M - 1 + shift)",
        "causal-last-key",
        "wrong",
        "end is the last key that my last query sees: it has to be the number of keys, one more.",
    ),
    Mistake(
        "last-tile-dropped",
        _ALL,
        "full, end = N_k, N_k // BLOCK_N * BLOCK_N",
        "ragged-keys",
        "wrong",
        "The loop drops the last key tile when it is not full.",
    ),
    Mistake(
        "nothing-hidden",
        f"        {_FULL}  # so many keys my first query sees\n",
        "",
        "causal-square",
        "wrong",
        "full is N_k under a causal mask too: no tile on the diagonal is masked.",
    ),
    Mistake(
        "full-at-my-last-query",
        _FULL,
        "full = tl.minimum(full, start_m + BLOCK_M + shift)",
        "causal-square",
        "wrong",
        "full is what my last query sees: the first one sees BLOCK_M - 1 keys less.",
    ),
    Mistake(
        "full-one-key-too-many",
        _FULL,
        "full = tl.minimum(full, start_m + 2 + shift)",
        "causal-one-hidden",
        "wrong",
        "full is one key too many: my first query sees start_m + shift + 1 keys.",
    ),
    Mistake(
        "full-without-shift",
        _FULL,
        "full = tl.minimum(full, start_m + 1)",
        "causal-many-queries",
        "wrong",
        "full ignores the shift of the diagonal: with more queries than keys, tiles go unmasked "
        "that hold hidden keys.",
    ),
    Mistake(
        "bounds-swapped",
        "    return full, end\n",
        "    return end, full\n",
        "causal-square",
        "wrong",
        "full and end are exchanged: the loop stops where masking should begin.",
    ),
)

HEADS = (
    Mistake(
        "key-head-by-remainder",
        _H_KV,
        "h_kv = h % H_kv",
        "grouped-heads",
        "wrong",
        "Query head h reads key head h % H_kv: neighbours share a key head, so it is h // (H / "
        "H_kv).",
    ),
    Mistake(
        "divided-by-the-key-heads",
        _H_KV,
        "h_kv = h // H_kv",
        "two-tiles",
        "wrong",
        "h is divided by H_kv, the number of key heads: divide by H / H_kv, the heads that share.",
    ),
    Mistake(
        "own-key-head",
        _H_KV,
        "h_kv = h",
        "grouped-heads",
        "oob",
        "Every query head reads a key head of its own number, but there are only H_kv of them.",
    ),
    Mistake(
        "remainder-in-the-group",
        _H_KV,
        "h_kv = h % group",
        "two-tiles",
        "wrong",
        "h % (H / H_kv) is the place of h within its group: the number of the group is the "
        "quotient.",
    ),
)
