"""Cases, budget and hints of ``tma_forward``. Floor: course."""

from flashlab.exercise import Case, Exercise, Output
from flashlab.exercises import flash2_forward
from flashlab.exercises.attention_inputs import make_inputs
from flashlab.exercises.mistakes.tma_forward import MISTAKES

NOT_DESCRIBED = ("permuted", "expanded")  # layouts whose D is not side by side

RAGGED = (
    Case(
        "several-ragged-heads",
        "ragged",
        lambda t: flash2_forward._sizes(2, 2, 2, t["BLOCK_M"] + 3, t["BLOCK_N"] + 5),
        "4 heads with an unfilled block of queries and of keys each: after the last row of a "
        "head comes the next head, and a box must not reach into it.",
        pairs=(0, 1),
    ),
    Case(
        "columns-inside-rows",
        "ragged",
        lambda t: flash2_forward._sizes(1, 2, 2, 9, t["BLOCK_N"] + 3, 20, layout="packed"),
        "D is 20 in rows of 24 elements: what lies between the rows is neither zero nor yours.",
        pairs=(0, 2),
    ),
)

HOSTILE = (
    Case(
        "packed",
        "hostile",
        lambda t: flash2_forward._sizes(2, 3, 3, 17, 19, layout="packed"),
        "q is [B, N, H, D] in memory; k and v lie side by side in one tensor: rows of a head are "
        "far apart.",
        pairs=(0, 2),
    ),
    Case(
        "one-key-head",
        "hostile",
        lambda t: flash2_forward._sizes(2, 3, 1, 9, 21, causal=True, layout="packed"),
        "3 query heads share one key head, causal with N_q != N_k, [B, N, H, D] in memory.",
        pairs=(0, 2),
    ),
    Case(
        "shared",
        "hostile",
        lambda t: flash2_forward._sizes(2, 2, 2, 18, 20, layout="shared"),
        "The batch shares k (stride 0) and the heads share v, whose rows lie further apart: each "
        "tensor has steps of its own.",
    ),
)


def _cases() -> tuple[Case, ...]:
    """The cases of ``flash2_forward`` that can be described, with those of boxes between."""
    replaced = {case.name for case in HOSTILE}
    old = [c for c in flash2_forward.EXERCISE.cases if c.name not in (*NOT_DESCRIBED, *replaced)]
    core, ragged, causal, hostile = (
        tuple(c for c in old if c.group == group)
        for group in ("core", "ragged", "causal", "hostile")
    )
    return (*core, *ragged, *RAGGED, *causal, *HOSTILE, *hostile)


EXERCISE = Exercise(
    slug="tma_forward",
    chapter="08",
    title="Forward pass with tensor descriptors",
    kind="triton",
    reference="flashlab.reference.described:tma_forward",
    outputs=(Output("o"), Output("lse", "float32")),
    make_inputs=make_inputs,
    honest=flash2_forward.honest,
    cases=_cases(),
    mistakes=MISTAKES,
    hints=(
        "A descriptor says once what a head looks like: how many rows and columns there are, how "
        "far apart the rows lie, and how large a box one load brings. After that a program names "
        "coordinates, a row and a column, and nothing else: no pointers and no masks. So most of "
        "chapter 07's kernel stays, and what was addressed is named.",
        "The shape in a descriptor is the head's own, N rows of D, not that of a box: it is what "
        "the hardware cuts boxes off at. Coordinates count rows and columns of the head, not "
        "boxes: tile 2 starts at row 2 * BLOCK_N. Beyond the shape a load brings zeros and a "
        "store writes nothing.",
        "A row of zeros has the score 0, which may be the largest of all. So keys beyond N_k have "
        "to be hidden as in chapter 07: -inf where offs_n >= N_k, and under a causal mask where "
        "offs_n > offs_m + shift. Only tiles with start_n + BLOCK_N > full hold any of them.",
        "Step 1: tl.make_tensor_descriptor(head_ptr, shape=[N, D], strides=[stride_n, 1], "
        "block_shape=[ROWS, BLOCK_D]); write the lists in the call, since a name makes a number "
        "of the last 1. Step 2: k_head.load([start_n, 0]), then tl.dot(q, tl.trans(k), "
        "input_precision='ieee'). Step 4: v_head.load([start_n, 0]), then tl.dot(p.to(v.dtype), "
        "v, alpha[:, None] * acc, input_precision='ieee'). Step 5: o_head.store([start_m, 0], o).",
    ),
    steps=(
        "Describe a head",
        "Score the tile",
        "Hide keys",
        "Add the values",
        "Divide and store",
    ),
    budget=flash2_forward.budget,
    needs=("tma",),
    tile_names=("BLOCK_M", "BLOCK_N"),
    tile_pairs=((16, 16), (32, 16), (16, 32)),
    minutes=45,
)
