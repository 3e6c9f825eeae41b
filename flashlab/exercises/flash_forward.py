"""Cases, budget and hints of ``flash_forward``. Floor: course."""

from collections.abc import Mapping

import torch

from flashlab.exercise import Case, Exercise, Inputs, Output, Sizes, Tiles
from flashlab.exercises.attention_inputs import make_inputs
from flashlab.exercises.mistakes.flash_forward import MISTAKES
from flashlab.iocount.bounds import flash_forward_bytes
from flashlab.reference.honest import honest_attention


def honest(inputs: Inputs) -> list[dict[str, torch.Tensor]]:
    """Six honest answers: the scale on S, q or k; exp or exp2."""
    return honest_attention(**inputs)


def budget(sizes: Sizes, tiles: Tiles, itemsize: int) -> Mapping[str, tuple[int, int]]:
    """q read and o, lse written once; k and v read once by every query block, causal or not."""
    shape = (sizes[name] for name in ("B", "H", "N_q", "N_k", "D"))
    return flash_forward_bytes(*shape, tiles["BLOCK_M"], tiles["BLOCK_N"], itemsize)


def _sizes(N_q: int, N_k: int, B: int = 1, H: int = 1, D: int = 16, **rest) -> Sizes:
    return {"B": B, "H": H, "N_q": N_q, "N_k": N_k, "D": D, **rest}


CASES = (
    Case(
        "one-tile",
        "core",
        lambda t: _sizes(t["BLOCK_M"], t["BLOCK_N"], D=32),
        "One query block and one key tile: plain softmax attention, nothing to rescale yet.",
        pairs=(1, 2),
    ),
    Case(
        "two-tiles",
        "core",
        lambda t: _sizes(2 * t["BLOCK_M"], 2 * t["BLOCK_N"], B=2, H=3),
        "Two query blocks, two key tiles, 2 batches of 3 heads: the second tile must be merged "
        "with what the first one left, and every program must find its own head.",
        pairs=(0, 1, 2),
        own=True,
    ),
    Case(
        "given-scale",
        "core",
        lambda t: _sizes(t["BLOCK_M"], 2 * t["BLOCK_N"], sm_scale=0.5),
        "sm_scale is given as 0.5, which is not 1/sqrt(D).",
        pairs=(0, 1),
    ),
    Case(
        "large-scores",
        "core",
        lambda t: _sizes(t["BLOCK_M"], 2 * t["BLOCK_N"], scores="large"),
        "Scores beyond +-88, where exp overflows in fp32 unless the maximum is subtracted.",
        pairs=(0, 1),
    ),
    Case(
        "rising-scores",
        "core",
        lambda t: _sizes(t["BLOCK_M"], 3 * t["BLOCK_N"], scores="rising"),
        "Every tile raises the row maximum: all that was summed before must shrink.",
    ),
    Case(
        "falling-scores",
        "core",
        lambda t: _sizes(t["BLOCK_M"], 3 * t["BLOCK_N"], scores="falling"),
        "Every tile lies 50 below the one before: the maximum of the first must be kept.",
    ),
    Case(
        "ragged-keys",
        "ragged",
        lambda t: _sizes(t["BLOCK_M"], t["BLOCK_N"] + 5, scores="negative"),
        "The last key tile has 5 keys, and all scores are near -120: a lane beyond the last key "
        "that counts as score 0 outweighs every real key.",
        pairs=(0, 1),
        own=True,
    ),
    Case(
        "ragged-queries",
        "ragged",
        lambda t: _sizes(t["BLOCK_M"] + 4, t["BLOCK_N"]),
        "The last query block has 4 queries: its other rows must not be read or written.",
        pairs=(0, 1),
    ),
    Case(
        "odd-head-dim",
        "ragged",
        lambda t: _sizes(t["BLOCK_M"], t["BLOCK_N"] + 3, D=24),
        "D is 24 and BLOCK_D 32: the columns from D on belong to the next row.",
        pairs=(0, 2),
    ),
    Case(
        "negative-scale",
        "ragged",
        lambda t: _sizes(t["BLOCK_M"], t["BLOCK_N"] + 5, sm_scale=-0.5),
        "sm_scale is -0.5: a hidden key's -inf turns into +inf if it is multiplied afterwards.",
    ),
    Case(
        "one-token",
        "ragged",
        lambda t: _sizes(1, 1),
        "One query and one key: o is v, lse is the score itself.",
        trivial="the only key has all the weight: V[0] and the mean of V are right",
    ),
    Case(
        "causal-square",
        "causal",
        lambda t: _sizes(*[2 * max(t["BLOCK_M"], t["BLOCK_N"])] * 2, H=2, causal=True),
        "Causal with N_q = N_k: row 0 sees key 0 alone, the diagonal is seen.",
        pairs=(0, 1, 2),
        own=True,
    ),
    Case(
        "causal-few-queries",
        "causal",
        lambda t: _sizes(5, t["BLOCK_N"] + 5, causal=True),
        "Causal with 5 queries and more keys: the last query sees the last key, so the diagonal "
        "is shifted by N_k - N_q.",
        pairs=(0, 2),
    ),
    Case(
        "causal-many-queries",
        "causal",
        lambda t: _sizes(2 * t["BLOCK_M"] + 8, t["BLOCK_N"] + 4, causal=True),
        "Causal with more queries than keys: the first rows see no key; their o is 0, lse -inf.",
        pairs=(0, 1),
    ),
    Case(
        "causal-negative",
        "causal",
        lambda t: _sizes(*[t["BLOCK_N"] + 7] * 2, causal=True, scores="negative"),
        "Causal and ragged with all scores near -120: a hidden key must weigh nothing at all.",
    ),
    Case(
        "permuted",
        "hostile",
        lambda t: _sizes(17, 19, B=2, H=3, layout="permuted"),
        "q and k are [B, N, H, D] in memory, v has D outermost: only the strides tell.",
        pairs=(0, 2),
    ),
    Case(
        "expanded",
        "hostile",
        lambda t: _sizes(18, 20, B=2, H=2, layout="expanded"),
        "q and k are every second element, the batch shares k (stride 0) and the heads share v.",
        pairs=(0, 2),
    ),
    Case(
        "fp32",
        "hostile",
        lambda t: _sizes(t["BLOCK_M"], 2 * t["BLOCK_N"]),
        "float32: no tile may pass through fp16 on its way.",
        dtype="float32",
        pairs=(0, 1),
    ),
    Case(
        "bf16",
        "hostile",
        lambda t: _sizes(20, 2 * t["BLOCK_N"] + 3, causal=True),
        "bfloat16 in, bfloat16 out; the statistics stay fp32.",
        dtype="bfloat16",
    ),
    Case(
        "large-values",
        "hostile",
        lambda t: _sizes(t["BLOCK_M"], 3 * t["BLOCK_N"], values="large"),
        "Values of 6,000 and more: their sum over a row does not fit in fp16.",
    ),
    Case(
        "head-dim-80",
        "hostile",
        lambda t: _sizes(5, t["BLOCK_N"] + 1, D=80),
        "D is 80 and BLOCK_D 128.",
    ),
    Case(
        "no-keys",
        "hostile",
        lambda t: _sizes(3, 0, H=2),
        "N_k is 0: there is no tile to visit; o is 0 and lse is -inf.",
        trivial="no query sees a key, so zeros are right",
    ),
    Case(
        "empty-batch",
        "hostile",
        lambda t: _sizes(4, 4, B=0),
        "B is 0: the outputs are empty (and a grid of no programs must not be launched).",
        trivial="o has no elements, so every answer is right",
    ),
)

EXERCISE = Exercise(
    slug="flash_forward",
    chapter="04",
    title="FlashAttention forward in Triton",
    kind="triton",
    reference="flashlab.reference.attention:flash_forward",
    outputs=(Output("o"), Output("lse", "float32")),
    make_inputs=make_inputs,
    honest=honest,
    cases=CASES,
    mistakes=MISTAKES,
    hints=(
        "You never hold a whole row of scores. After each tile, three things say all that matters "
        "of the keys so far: the largest score m_i, the sum l_i of exp(s - m_i), and acc, the "
        "output as it would be if there were no more keys. Write down on paper how each changes "
        "when a tile with a larger maximum arrives.",
        "alpha = exp(m_i - m_new) takes everything that was summed against the old maximum to the "
        "new one. acc has been divided by l_i already: multiply it with alpha * l_i to get the "
        "sum back, add p @ v, and divide by the new l.",
        "Keys that do not exist (offs_n >= N_k) and keys that a causal query must not see get the "
        "score -inf before the maximum is taken. The diagonal ends in the bottom right corner: "
        "key j is seen by query i if j <= i + N_k - N_q. A row that has seen no key yet has "
        "m_new = -inf, and -inf - -inf is NaN: subtract 0 there; and 0 / 0 is NaN: divide by 1.",
        "Step 2 ends with s = sm_scale * tl.dot(q, tl.trans(k), input_precision='ieee') and "
        "tl.where(visible, s, float('-inf')). Step 3: m_new = tl.maximum(m_i, tl.max(s, 1)), "
        "alpha and p by tl.exp, l_new = alpha * l_i + tl.sum(p, 1). Step 4: "
        "acc = tl.dot(p.to(v.dtype), v, acc * (alpha * l_i)[:, None], input_precision='ieee'), "
        "then divide. Step 5: lse = m_i + tl.log(l_i).",
    ),
    steps=(
        "Running state",
        "Load the tile, score, mask",
        "New maximum and weights",
        "Rescale, accumulate, divide",
        "Finish and store",
    ),
    budget=budget,
    tile_names=("BLOCK_M", "BLOCK_N"),
    tile_pairs=((16, 16), (32, 16), (16, 32)),
    minutes=90,
)
