"""Cases and hints of ``ring_attention``: ranks in processes of their own. Floor: course."""

from typing import Any

import torch

from flashlab.exercise import Case, Exercise, Inputs, Output, Sizes
from flashlab.exercises import attention_inputs, backward_inputs
from flashlab.exercises.mistakes.ring_attention import MISTAKES
from flashlab.reference.honest import honest_attention, honest_attention_backward

SPREAD = ("world", "zigzag", "spare", "late")  # of the sizes: not about the numbers


def make_inputs(sizes: Sizes, dtype: torch.dtype, generator: torch.Generator) -> dict[str, Any]:
    """q, k, v and do of the whole sequence of N tokens; causal, sm_scale and SPREAD if set."""
    whole = {**sizes, "N_q": sizes["N"], "N_k": sizes["N"]}
    inputs = attention_inputs.make_inputs(whole, dtype, generator)
    inputs["do"] = backward_inputs.gradient(whole, dtype, generator)
    return inputs | {name: sizes[name] for name in SPREAD if name in sizes}


def honest(inputs: Inputs) -> list[dict[str, torch.Tensor]]:
    """Six honest answers on one device: the scale on S, q or k; exp or exp2."""
    call = {name: x for name, x in inputs.items() if name not in SPREAD}
    backward = honest_attention_backward(**call)
    del call["do"]
    return [f | b for f, b in zip(honest_attention(**call), backward, strict=True)]


def _sizes(world: int, rows: int, **changes: Any) -> Sizes:
    """``rows`` tokens a rank; one batch, two heads, D 16 but for what is said."""
    return {"B": 1, "H": 2, "N": world * rows, "D": 16, "world": world} | changes


CASES = (
    Case(
        "two-ranks",
        "core",
        lambda t: _sizes(2, 16),
        "Two ranks, no mask: each block of keys travels once.",
        dtype="float32",
    ),
    Case(
        "four-ranks",
        "core",
        lambda t: _sizes(4, 8, scores="rising"),
        "Four ranks, and scores that rise along the sequence: every block must be seen by every "
        "rank, and the parts have very different lse.",
        dtype="float32",
    ),
    Case(
        "large-scores",
        "core",
        lambda t: _sizes(2, 12, scores="large"),
        "Scores beyond +-88: exp of an lse itself overflows in float32.",
        dtype="float32",
    ),
    Case(
        "one-rank",
        "ragged",
        lambda t: _sizes(1, 18, causal=True, zigzag=True),
        "A ring of one rank: nobody to send to.",
        dtype="float32",
    ),
    Case(
        "three-ranks-odd-rows",
        "ragged",
        lambda t: _sizes(3, 7, B=2, H=3, D=24),
        "Three ranks with 7 rows each, two batches, three heads, D 24.",
        dtype="float32",
    ),
    Case(
        "two-ranks-causal",
        "causal",
        lambda t: _sizes(2, 10, causal=True),
        "Causal in order: rank 0 sees nothing of rank 1, rank 1 all of rank 0.",
        dtype="float32",
    ),
    Case(
        "four-ranks-causal",
        "causal",
        lambda t: _sizes(4, 6, causal=True),
        "Causal in order on four ranks: a block that comes from a later rank is hidden whole.",
        dtype="float32",
    ),
    Case(
        "two-ranks-zigzag",
        "causal",
        lambda t: _sizes(2, 12, causal=True, zigzag=True),
        "Rank 0 holds chunks 0 and 3, rank 1 chunks 1 and 2.",
    ),
    Case(
        "four-ranks-zigzag",
        "causal",
        lambda t: _sizes(4, 8, causal=True, zigzag=True),
        "Rank r of four holds chunks r and 7 - r: every round is half a block of work.",
        dtype="float32",
    ),
    Case(
        "grouped-heads",
        "hostile",
        lambda t: _sizes(
            2, 8, H=4, H_kv=2, causal=True, zigzag=True, sm_scale=0.4, gradient="expanded"
        ),
        "4 query heads share 2 key heads, a scale of its own, and the gradient of o.sum(), whose "
        "strides are 0.",
        dtype="float32",
    ),
    Case(
        "late-rank",
        "hostile",
        lambda t: _sizes(3, 8, late=1),
        "Rank 1 begins 0.3 s late: nothing of its block is there when the others are ready. In "
        "float16, where the sums of three ranks are kept in float32.",
    ),
    Case(
        "part-of-a-world",
        "hostile",
        lambda t: _sizes(2, 8, causal=True, spare=1),
        "The group is a part of three processes: its rank 0 is number 1 among all.",
        dtype="float32",
    ),
    Case(
        "strided",
        "hostile",
        lambda t: _sizes(2, 9, B=2, H=2, layout="permuted", causal=True, gradient="permuted"),
        "q, k, v and do are views with rows apart: what is sent has to be contiguous.",
        dtype="float32",
    ),
)

EXERCISE = Exercise(
    slug="ring_attention",
    chapter="11",
    title="Attention round a ring of GPUs",
    kind="torch",
    reference="flashlab.reference.ring:whole_attention",
    outputs=(Output("o"), Output("lse", "float32"), Output("dq"), Output("dk"), Output("dv")),
    make_inputs=make_inputs,
    honest=honest,
    cases=CASES,
    mistakes=MISTAKES,
    hints=(
        "Follow one block of keys and values. It starts on its owner; after round 1 it lies on "
        "the owner's right neighbour, after round 2 on the next, and after world - 1 rounds "
        "everybody has seen it once. So in round t rank r works on the block of rank "
        "(r - t) % world. What every rank finds over one block is a part of the answer, and lab "
        "03's merge puts parts together.",
        "Two parts have log-sum-exps lse and lse_part. Together the keys weigh "
        "exp(lse) + exp(lse_part), and the new part's share of that is "
        "exp(lse_part) / (exp(lse) + exp(lse_part)) = sigmoid(lse_part - lse), which never "
        "overflows. torch.logaddexp gives the new lse.",
        "Zigzag: I hold chunks r and 2 world - 1 - r, early and late. If the owner's rank is "
        "smaller than mine, its early chunk comes before both of mine and its late chunk after "
        "both: all my rows see its first half. If it is larger, only my late chunk sees anything, "
        "and that sees both of its chunks. In order: a smaller owner is seen whole, a larger one "
        "not at all, and attention over 0 rows is a call that does nothing.",
        "Backward, blocks go to the left: in round t rank r works on the block of (r + t) % "
        "world, and the first of them was kept. attend_backward with the final o and lse gives "
        "the share of these keys, and shares simply add. dq stays; dkv belongs to the block and "
        "follows it: dkv = arrived(gradients) is what the ranks after me found, each of its two "
        "tensors gets my share at [:, :, keys], gradients = pass_on(dkv, group, -1) sends it on. "
        "In the last round too: the rank before me is then the owner.",
    ),
    steps=(
        "One message out, one in, neither waited for",
        "What causal hides: whole halves, or everything",
        "Weigh both by their lse",
        "A round: the block of another rank",
        "A round backward, to the left: a block, and its gradient one round behind",
    ),
    minutes=75,
    harness="flashlab.grader.ring:run",
    ranks=True,
)
