"""What goes into a run and what must come out of it: inputs, padding, fp64 reference, limits.

Trusted side; nothing here ever reaches a worker except the padded inputs.
"""

import contextlib
import importlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from flashlab import numerics
from flashlab.exercise import Case, Exercise
from flashlab.grader.pool import Reply
from flashlab.grader.report import CaseResult

PAD = 16  # elements after every row, and rows after every matrix: keeps 16-byte alignment
GUARD = 64  # elements before and after every storage
KEPT = 512  # trials kept per process

Tensors = dict[str, torch.Tensor]


@dataclass
class Trial:
    """One case at one set of tile sizes.

    ``arguments`` are those of the call, as the exercise made them; ``sent`` holds the tensors
    among them as padded views; ``reference`` is fp64 by output name.
    """

    case: Case
    tiles: dict[str, int]
    sizes: dict[str, Any]
    arguments: dict[str, Any]
    sent: Tensors
    reference: dict[str, Any]
    limits: Mapping[str, Any]
    own: bool = False
    tier: str = "cpu"


@dataclass(frozen=True)
class Raw:
    """What the diagnosis compares: outputs where status is "ran", else how the run failed."""

    status: str
    outputs: Mapping[str, torch.Tensor] = field(default_factory=dict)
    argument: str = ""
    kind: str = ""
    detail: str = ""


@dataclass
class Run:
    """A trial and what an answer made of it."""

    trial: Trial
    reply: Reply
    outputs: Tensors = field(default_factory=dict)  # by output name, if they are comparable
    result: CaseResult | None = None
    raw: Raw = Raw("grader_error")


_trials: OrderedDict[tuple[Any, ...], Trial] = OrderedDict()


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """torch on one thread: sharing out small tensors costs more than it saves.

    Beside workers that use every core, threads that wait for each other made inputs, references
    and limits of a check take 20 times as long.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def trial(
    exercise: Exercise,
    case: Case,
    tiles: Mapping[str, int],
    own: bool = False,
    tier: str = "cpu",
) -> Trial:
    """The trial of ``case`` at ``tiles``; made once per process.

    On a GPU the limits allow for TF32, in which Triton multiplies fp32 by default.
    """
    key = (exercise.slug, case.name, case.seed, tuple(sorted(tiles.items())), own, tier)
    if key in _trials:
        _trials.move_to_end(key)
        return _trials[key]
    sizes = dict(case.sizes(tiles))
    generator = torch.Generator().manual_seed(case.seed)
    with one_thread():
        inputs = dict(exercise.make_inputs(sizes, getattr(torch, case.dtype), generator))
        made = with_inputs(exercise, case, tiles, inputs, sizes, own, tier)
    _trials[key] = made
    if len(_trials) > KEPT:
        _trials.popitem(last=False)
    return made


def with_inputs(
    exercise: Exercise,
    case: Case,
    tiles: Mapping[str, int],
    inputs: Mapping[str, Any],
    sizes: Mapping[str, Any],
    own: bool = False,
    tier: str = "cpu",
) -> Trial:
    """A trial of these very inputs (not remembered)."""
    dtype = getattr(torch, case.dtype)
    tensors = {n: v for n, v in inputs.items() if isinstance(v, torch.Tensor)}
    arguments = dict(inputs)
    if exercise.tiles_as == "arguments":
        arguments |= {name.lower(): size for name, size in tiles.items()}
    reference = answer(exercise, case, wide(arguments))
    tf32 = tier != "cpu"
    limits = {}
    if exercise.kind != "python":
        honest = exercise.honest(inputs)
        limits = numerics.limits(reference, honest, inputs, dtype, tf32=tf32)
    sent = {n: padded(t) for n, t in tensors.items()}
    return Trial(case, dict(tiles), dict(sizes), arguments, sent, reference, limits, own, tier)


def answer(exercise: Exercise, case: Case, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The reference's outputs by name."""
    module, function = exercise.reference.split(":")
    reference = getattr(importlib.import_module(module), case.function or function)
    with torch.no_grad():
        returned = reference(**arguments)
    items = returned if isinstance(returned, tuple) else (returned,)
    return dict(zip((o.name for o in exercise.returns(case)), items, strict=True))


def wide(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The same call in fp64."""
    return {
        n: v.double() if isinstance(v, torch.Tensor) and v.is_floating_point() else v
        for n, v in arguments.items()
    }


def padded(x: torch.Tensor) -> torch.Tensor:
    """``x`` in a larger storage of NaN (integers: garbage) with a guard on both sides.

    A contiguous tensor gets padding after its rows and matrices; any other view keeps its strides,
    and the elements of its storage that it skips become NaN.
    """
    shape, strides = list(x.shape), list(x.stride())
    if x.is_contiguous() and x.dim() >= 2 and x.numel():
        wider = [*shape[:-2], shape[-2] + PAD, shape[-1] + PAD]
        strides = [1] * x.dim()
        for axis in range(x.dim() - 2, -1, -1):
            strides[axis] = strides[axis + 1] * wider[axis + 1]
        span = strides[0] * wider[0]
    else:
        span = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
        span = span if x.numel() else 0
    storage = _garbage(span + 2 * GUARD, x.dtype)
    view = storage.as_strided(shape, strides, GUARD)
    once = tuple(
        slice(0, 1) if s == 0 and n else slice(None) for n, s in zip(shape, strides, strict=True)
    )
    view[once].copy_(x[once])
    return view


def _garbage(count: int, dtype: torch.dtype) -> torch.Tensor:
    if dtype.is_floating_point and dtype.itemsize > 1:
        return torch.full((count,), float("nan"), dtype=dtype)
    return torch.full((count * dtype.itemsize,), 0x7F, dtype=torch.uint8).view(dtype)
