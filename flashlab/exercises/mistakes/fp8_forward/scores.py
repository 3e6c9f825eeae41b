"""Mistakes of the scores and of what they are scaled by. Floor: course."""

from flashlab.exercise import Mistake

_DOT = "s = tl.dot(q8, tl.trans(k8))  # e4m3 times e4m3, summed in fp32"
_SCALED = "s = s * (q_scale * (k_scale * sm_scale * LOG2E))[:, None]"

SCORES = (
    Mistake(
        "no-scale-of-q",
        _SCALED,
        "s = s * (k_scale * sm_scale * LOG2E)",
        "one-tile",
        "wrong",
        "The scale of q8 is never multiplied in.",
    ),
    Mistake(
        "no-scale-of-k",
        _SCALED,
        "s = s * (q_scale * (sm_scale * LOG2E))[:, None]",
        "one-tile",
        "wrong",
        "The scale of k8 is never multiplied in.",
    ),
    Mistake(
        "no-scale-of-either",
        _SCALED,
        "s = s * (sm_scale * LOG2E)",
        "one-tile",
        "wrong",
        "The scores are products of FP8 numbers: the scales of q8 and k8 are both missing.",
    ),
    Mistake(
        "scale-of-q-twice",
        _SCALED,
        "s = s * (q_scale * q_scale * (k_scale * sm_scale * LOG2E))[:, None]",
        "one-tile",
        "wrong",
        "The scale of q8 is multiplied in twice.",
    ),
    Mistake(
        "scale-of-k-twice",
        _SCALED,
        "s = s * (q_scale * (k_scale * k_scale * sm_scale * LOG2E))[:, None]",
        "one-tile",
        "wrong",
        "The scale of k8 is multiplied in twice.",
    ),
    Mistake(
        "scale-of-the-first-row",
        "offs_m // block_rows * stride_qsn",
        "(start_m // block_rows + 0 * offs_m) * stride_qsn",
        "scales-apart",
        "wrong",
        "All rows of a tile get the scale of its first row: a tile may lie in several blocks.",
    ),
    Mistake(
        "scales-divide",
        _SCALED,
        "s = s * (sm_scale * LOG2E) / (q_scale * k_scale)[:, None]",
        "one-tile",
        "wrong",
        "The scores are divided by the scales: x is x8 times its scale.",
    ),
    Mistake(
        "scale-of-q-along-keys",
        _SCALED,
        "s = s * (tl.max(q_scale, 0) * (k_scale * sm_scale * LOG2E))",
        "scales-apart",
        "wrong",
        "One scale of q8 is taken for all rows of a tile: each row has that of its block.",
    ),
    Mistake(
        "no-sm-scale",
        _SCALED,
        "s = s * (q_scale * (k_scale * LOG2E))[:, None]",
        "one-tile",
        "wrong",
        "sm_scale is never multiplied in.",
    ),
    Mistake(
        "exp2-without-log2e",
        _SCALED,
        "s = s * (q_scale * (k_scale * sm_scale))[:, None]",
        "one-tile",
        "wrong",
        "exp2 is used for exp without a factor of log2(e): the softmax is too flat.",
    ),
    Mistake(
        "first-scale-of-k",
        "k_scale = tl.load(k_scales + start_n // block_rows * stride_ksn)",
        "k_scale = tl.load(k_scales + 0 * start_n)",
        "scales-apart",
        "wrong",
        "The scale of the first block of k8 is taken for all of them.",
    ),
    Mistake(
        "scale-of-v-for-k",
        "k_scale = tl.load(k_scales + start_n // block_rows * stride_ksn)",
        "k_scale = tl.load(v_scale_ptr + b * stride_vsb + h_kv * stride_vsh "
        "+ start_n // block_rows * stride_vsn)",
        "one-tile",
        "wrong",
        "The scores get the scale of v8: k8 has its own.",
    ),
    Mistake(
        "scale-by-tile",
        "k_scale = tl.load(k_scales + start_n // block_rows * stride_ksn)",
        "k_scale = tl.load(k_scales + start_n // BLOCK_N * stride_ksn)",
        "four-tiles",
        "oob",
        "Scales of k8 are counted by tiles: a block has block_rows rows, not BLOCK_N.",
    ),
    Mistake(
        "k-not-transposed",
        _DOT,
        "s = tl.dot(q8, tl.reshape(k8, [BLOCK_D, BLOCK_N]))",
        "one-tile",
        "wrong",
        "k8 is reshaped instead of transposed: its numbers end in other places.",
    ),
)
