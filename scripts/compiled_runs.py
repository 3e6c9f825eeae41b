"""Random runs of the course's own kernels, judged as a check judges a learner's.

``false_failures.py --device cuda`` runs them compiled, in TF32 and ieee fp32, fp16 and bf16. A
family of runs shares one compiled kernel: its dtype, D, tile sizes, layout and mask are fixed,
sizes and numbers are drawn anew for each run. Sizes and strides do not specialise the kernel (a
multiple of 16 compiles to the same code as any other number), so a family compiles once. With
``device`` "cpu" the same runs go through the recorder, to test this file without a GPU.
"""

import itertools
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import torch
import triton
from torch import Tensor

from flashlab import exercises, numerics, sources
from flashlab.exercise import Case, Exercise, Sizes
from flashlab.grader import trials
from flashlab.iocount import count_io
from flashlab.loading import jit_function, load_module

ATTENTION = ("flash_forward", "flash_backward_dkdv", "flash_backward_dq")
VARIANTS = ("fp16", "bf16", "fp32 tf32", "fp32 ieee")
DTYPES = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32"}
SHAPES = (  # D, layout, tile pair
    (24, "permuted", 1),
    (32, "expanded", 0),
    (64, "contiguous", None),
    (128, "contiguous", 2),
)
SCORES = ("random", "random", "random", "large", "negative", "rising", "falling")
GRADIENTS = ("random", "random", "large", "expanded", "permuted")


@dataclass(frozen=True)
class Family:
    """Runs that share a compiled kernel; ``pair`` None: the solution's own tile sizes."""

    slug: str
    variant: str
    D: int
    layout: str
    pair: int | None
    causal: bool


@dataclass(frozen=True)
class Judged:
    """One output of one run: its status, and its error in units of the limit."""

    family: Family
    seed: int
    output: str
    status: str
    ratio: float


def families() -> list[Family]:
    """Every family, those of the slowest compilations first."""
    made = [
        Family(slug, variant, *shape, causal)
        for slug, variant, shape, causal in itertools.product(
            ATTENTION, VARIANTS, SHAPES, (False, True)
        )
    ]
    for variant, layout in itertools.product(VARIANTS, ("contiguous", "transposed", "sliced")):
        pair = 1 if variant == "fp32 ieee" else None
        made.append(Family("tiled_matmul", variant, 0, layout, pair, False))
    return sorted(made, key=lambda f: (f.variant != "fp32 ieee", -f.D))


def judge_family(family: Family, seeds: Sequence[int], device: str) -> list[Judged]:
    """Run and judge a family, one run a seed."""
    torch.set_num_threads(1)
    exercise = exercises.get(family.slug)
    text = sources.solution_text(family.slug)
    if family.variant.endswith("tf32"):
        text = text.replace('input_precision="ieee"', 'input_precision="tf32"')
    module = load_module(text, f"{family.slug}.py")
    if family.pair is not None:
        vars(module).update(exercise.tiles(family.pair))
    unspecialise(module)
    return [one for seed in seeds for one in judge(exercise, module, family, seed, device)]


def unspecialise(module: ModuleType) -> None:
    """Compile the kernels once for all sizes and strides; innermost strides may still be 1."""
    for name, kernel in list(vars(module).items()):
        if not isinstance(kernel, triton.JITFunction):
            continue
        kernel = jit_function(kernel)
        plain = [p.name for p in kernel.params if not p.is_constexpr and "ptr" not in p.name]
        innermost = {re.sub(r".$", "", n): n for n in plain if n.startswith("stride_")}
        fixed = [n for n in plain if n not in innermost.values()]
        setattr(module, name, triton.jit(do_not_specialize=fixed)(kernel.fn))


def judge(
    exercise: Exercise, module: ModuleType, family: Family, seed: int, device: str
) -> list[Judged]:
    """One run: random sizes and numbers, the kernel, the grader's reference, limits, comparer."""
    rng, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    sizes = draw_sizes(family, rng)
    dtype = DTYPES[family.variant.split()[0]]
    inputs = dict(exercise.make_inputs(sizes, getattr(torch, dtype), generator))
    tier = "gpu" if family.variant.endswith("tf32") else "cpu"  # only then TF32 is allowed for
    case = replace(exercise.cases[0], name=f"seed {seed}", dtype=dtype)
    tiles = {name: vars(module)[name] for name in exercise.tile_names}
    trial = trials.with_inputs(exercise, case, tiles, inputs, sizes, tier=tier)
    got = call(exercise, module, case, trial.arguments, device)
    found = numerics.compare(got, trial.reference, trial.limits)
    return [
        Judged(family, seed, f.output, f.status, (f.error or 0.0) / (f.limit or 1.0))
        for f in found
    ]


def draw_sizes(family: Family, rng: random.Random) -> Sizes:
    """Random sizes, ragged more often than not, and what the numbers look like."""
    if family.slug == "tiled_matmul":
        shape = {name: rng.randint(1, 300) for name in "MNK"}
        values = rng.choice(("random", "random", "cancelling"))
        shape["K"] += shape["K"] % 2  # halves that cancel are of one length
        return shape | {"layout": family.layout, "values": values}
    N_q, N_k = rng.randint(1, 160), rng.randint(1, 240)
    scores, values = rng.choice(SCORES), rng.choice(("random", "random", "large"))
    gradient = rng.choice(GRADIENTS)
    if family.slug != "flash_forward":  # what fp16 cannot hold is no fair draw
        values = "random"
        scores = "random" if gradient == "large" else scores
    if family.layout == "expanded":  # shared memory cannot hold a wish for each key
        scores = values = "random"
    return {
        "B": rng.choice((1, 2)),
        "H": rng.choice((1, 3)),
        "N_q": N_k if rng.random() < 0.4 else N_q,
        "N_k": N_k,
        "D": family.D,
        "causal": family.causal,
        "sm_scale": rng.choice((None, None, 0.02, 0.5, -0.3)),
        "scores": scores,
        "values": values,
        "gradient": gradient,
        "layout": family.layout,
    }


def call(
    exercise: Exercise, module: ModuleType, case: Case, arguments: dict[str, Any], device: str
) -> dict[str, Tensor]:
    """The outputs of one call by name, on the CPU."""
    function = getattr(module, exercise.called(case))
    if device == "cpu":
        with count_io():
            returned = function(**arguments)
    else:
        returned = function(**{n: moved(x, device) for n, x in arguments.items()})
    items = returned if isinstance(returned, tuple) else (returned,)
    names = [output.name for output in exercise.returns(case)]
    return {name: x.cpu() for name, x in zip(names, items, strict=True)}


def moved(x: Any, device: str) -> Any:
    """A tensor on ``device`` with the strides that it has; anything else as it is."""
    if not isinstance(x, Tensor):
        return x
    flat = x.new_empty(0).set_(x.untyped_storage()).to(device)
    return flat.as_strided(x.shape, x.stride(), x.storage_offset())
