"""Runs mutants of the solution and says whether two runs went wrong alike. Floor: course.

Mutants run through the same workers as the learner's text, at the same cases and tile sizes.
"""

import hashlib
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from flashlab import sources
from flashlab.error_budget import as_fp64
from flashlab.exercise import Case, Exercise, Mistake
from flashlab.grader.report import CaseResult

ALIKE = 1e-3  # relative distance of two outputs that count as equal
CLEAR = 0.25  # ... and at most this part of the distance to the reference
COMPARABLE = ("pass", "nan", "wrong", "precision", "uninitialised")
BATCH = 16  # mutant runs between two looks at the clock
PLACE = re.compile(r'(,? ?at )?line \d+( of \S+?\.py)?(: "[^\n]*")?')
CHANCE = ("timeout", "oom", "grader_error")
KEPT = 2000  # mutant runs remembered between checks

Edits = tuple[Mistake, ...]
Job = tuple[str, Case, Mapping[str, int]]


@dataclass(frozen=True)
class Raw:
    """What came of one run; ``status`` is ``"ran"`` where its outputs can be compared."""

    status: str
    outputs: Mapping[str, Any] = field(default_factory=dict)
    argument: str = ""
    kind: str = ""
    detail: str = ""

    @classmethod
    def of(cls, result: CaseResult, outputs: Mapping[str, Any], kind: str = "") -> "Raw":
        """The raw run behind a judged one."""
        ran = bool(outputs) and result.status in COMPARABLE
        status = "ran" if ran else result.status
        return cls(status, outputs, result.argument, kind or result.output, result.detail)


@dataclass(frozen=True)
class Run:
    """One graded run of the learner's text, with what the trusted side knows of it."""

    case: Case
    tiles: Mapping[str, int]
    result: CaseResult
    raw: Raw
    reference: Mapping[str, Tensor]
    inputs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        """True unless the run passed or the grader itself failed."""
        return self.result.status not in ("pass", "grader_error")


class Bank:
    """Mutants of one exercise's solution, run on demand and remembered by text, case and tiles."""

    _kept: OrderedDict[tuple, Any] = OrderedDict()

    def __init__(
        self, exercise: Exercise, solution: str, run_many: Callable[[Sequence[Job]], Sequence[Raw]]
    ) -> None:
        self.exercise, self.solution, self.run_many = exercise, solution, run_many

    def text(self, edits: Edits) -> str | None:
        """The solution with every edit, or None where an earlier edit took a later one's text."""
        text = self.solution
        try:
            for mistake in edits:
                text = sources.mutant(text, mistake)
        except ValueError:
            return None
        return text

    def raws(self, many: Sequence[Edits], run: Run, deadline: float) -> list[Raw | None]:
        """Each mutant's result at the case and tiles of ``run``.

        None where edits do not fit together, or where ``time.monotonic()`` passed ``deadline``
        before a run that is not remembered yet.
        """
        texts = [self.text(edits) for edits in many]
        keys = [None if text is None else _key(text, run) for text in texts]
        todo = [(k, t) for k, t in dict(zip(keys, texts, strict=True)).items() if k]
        todo = [(key, text) for key, text in todo if key not in self._kept]
        came: dict[tuple, Raw] = {}
        for at in range(0, len(todo), BATCH):
            if time.monotonic() > deadline:
                break
            batch = todo[at : at + BATCH]
            came |= self._run(batch, run)
            spoilt = [(key, text) for key, text in batch if came[key].status in CHANCE]
            if run.raw.status not in CHANCE:
                came |= self._run(spoilt, run)
        found = [came.get(key) or self._kept.get(key) for key in keys]
        self._keep(came)
        return found

    def _run(self, batch: Sequence[tuple[tuple, str]], run: Run) -> dict[tuple, Raw]:
        raws = self.run_many([(text, run.case, run.tiles) for _, text in batch]) if batch else ()
        return dict(zip((key for key, _ in batch), raws, strict=True))

    def _keep(self, came: Mapping[tuple, Raw]) -> None:
        """Remember runs, but for those that a busy machine may have spoilt."""
        self._kept.update((k, raw) for k, raw in came.items() if raw.status not in CHANCE)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)


def _key(text: str, run: Run) -> tuple:
    digest = hashlib.sha256(text.encode()).hexdigest()
    case = run.case
    return digest, case.name, case.seed, case.dtype, tuple(sorted(run.tiles.items()))


def agree(run: Run, mutant: Raw | None) -> bool:
    """Whether a mutant goes wrong as the learner's run does.

    By outputs where both returned some, else by status, argument and kind; where the fault
    names no argument, by its message.
    """
    mine = run.raw
    if mutant is None:
        return False
    if mine.status == mutant.status == "ran":
        wrong = run.result.output if run.failed else ""
        return same_outputs(mine.outputs, mutant.outputs, run.reference, run.failed, wrong)
    return _signature(mine) == _signature(mutant)


def same_detail(run: Run, mutant: Raw | None) -> bool:
    """A finer test for runs without outputs: the message too is the same."""
    return mutant is not None and _gist(run.raw) == _gist(mutant)


def same_outputs(
    mine: Mapping[str, Any],
    other: Mapping[str, Any],
    reference: Mapping[str, Tensor],
    failed: bool = True,
    wrong: str = "",
) -> bool:
    """Whether all outputs agree within 1e-3 of their size, NaN and infinity at the same places.

    For a failed run the two must also be much nearer to one another than to the reference, in the
    output that is ``wrong``, if one is named: what both have right says nothing.
    """
    clear = not failed
    for name, ref in reference.items():
        if name not in mine or name not in other:
            return False
        a, b, ref = as_fp64(mine[name]), as_fp64(other[name]), as_fp64(ref)
        if a.shape != b.shape or not torch.equal(_pattern(a), _pattern(b)):
            return False
        apart = _rms(a - b)
        if apart > max(ALIKE, _eps(mine[name])) * max(_rms(b), 1e-12):
            return False
        odd = a.shape != ref.shape or not torch.equal(_pattern(a), _pattern(ref))
        if wrong in ("", name):
            clear = clear or odd or apart <= CLEAR * _rms(a - ref) > 0
    return clear


def _signature(raw: Raw) -> tuple[str, ...]:
    """What two faults must share; the message where no argument is named."""
    return raw.status, raw.argument, raw.kind, "" if raw.argument else _gist(raw)


def _gist(raw: Raw) -> str:
    """The message without file, line and source text, which differ between two texts."""
    return " ".join(PLACE.sub("", raw.detail).split())


def _pattern(x: Tensor) -> Tensor:
    """0 where finite; NaN and the two infinities as three other numbers."""
    return x.isnan() * 1 + x.isposinf() * 2 + x.isneginf() * 3


def _rms(x: Tensor) -> float:
    x = x[torch.isfinite(x)]
    return float(x.square().mean().sqrt()) if x.numel() else 0.0


def _eps(value: Any) -> float:
    dtype = getattr(value, "dtype", None)
    floating = isinstance(dtype, torch.dtype) and dtype.is_floating_point
    return torch.finfo(dtype).eps if floating else 0.0
