"""Cases (those of ``flash_forward``) and hints of ``flash_forward_tiles``. Floor: course."""

from dataclasses import replace

from flashlab.exercise import Exercise, Output
from flashlab.exercises import flash_forward
from flashlab.exercises.attention_inputs import make_inputs
from flashlab.exercises.mistakes.flash_forward_tiles import MISTAKES

_KERNELS_ONLY = ("odd-head-dim", "head-dim-80")  # about masks of columns

EXERCISE = Exercise(
    slug="flash_forward_tiles",
    chapter="04",
    title="FlashAttention forward, tile by tile in torch",
    kind="torch",
    reference="flashlab.reference.attention:flash_forward_tiles",
    outputs=(Output("o"), Output("lse", "float32")),
    make_inputs=make_inputs,
    honest=flash_forward.honest,
    cases=tuple(
        replace(case, own=False) for case in flash_forward.CASES if case.name not in _KERNELS_ONLY
    ),
    mistakes=MISTAKES,
    hints=(
        "A block of queries never sees a whole row of scores. After each tile, three things say "
        "all that matters of the keys so far: the largest score m_i, the sum l_i of "
        "exp(s - m_i), and acc, the sum of exp(s - m_i) * v: both relative to the maximum so far.",
        "When a tile raises the maximum from m_i to m_new, everything summed so far has to shrink "
        "by alpha = exp(m_i - m_new): both l_i and acc. The new tile is added at m_new already. "
        "Only at the end is acc divided by l_i.",
        "A row that has seen no key yet has m_new = -inf, and -inf - -inf is NaN: subtract 0 in "
        "such rows (masked_fill). At the end such a row has l_i = 0: divide by 1 there, and lse "
        "becomes -inf + log 1 by itself. Causal: hide key j from query i where j > i + N_k - N_q.",
        "Step 2: s = sm_scale * (q_i @ k_j.transpose(2, 3)). Step 3: m_new = torch.maximum(m_i, "
        "s.amax(3)); alpha = torch.exp(m_i - m_safe); p = torch.exp(s - m_safe[..., None]). "
        "Step 4: l_i = alpha * l_i + p.sum(3) and the same for acc with p @ v_j. Step 5: o's rows "
        "start_m : start_m + rows get acc / l_safe[..., None], those of lse m_i + log l_safe.",
    ),
    steps=(
        "Running state",
        "Score and mask",
        "New maximum and weights",
        "Rescale and accumulate",
        "Divide once, store",
    ),
    tile_names=("BLOCK_M", "BLOCK_N"),
    tile_pairs=((16, 16), (32, 16), (16, 32)),
    tiles_as="arguments",
    minutes=60,
)
