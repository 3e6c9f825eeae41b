"""Every exercise by itself: its solution passes, mistakes fail as declared, trivial answers fail.

Runs each call in this process, under the recorder and the comparer; the grader's own tests repeat
the mistakes in workers. A mutant runs the case that it breaks and the first case, not all of them.
"""

import functools

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from flashlab import exercises, iocount, numerics, sources
from flashlab.exercise import Case, Exercise, Mistake
from flashlab.grader import sentences, trials, worker
from flashlab.grader.trivial import trivial
from flashlab.holes import without_markers
from flashlab.loading import load_module
from flashlab.pipeline import PipelineError
from flashlab.ring import RankError

# NaNs nobody computes, by bytes of an element
SENTINEL = {1: (torch.uint8, 0x7F), 2: (torch.int16, 0x7FB7), 4: (torch.int32, 0x7FB75EAD)}


class Fresh(TorchDispatchMode):
    """As in a worker: what ``torch.empty`` makes holds the sentinel; reading it is an error."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        if not func.__name__.startswith("empty"):  # others may return a number or a list
            return made
        if made.element_size() in SENTINEL and made.dtype != torch.bool and made.numel():
            kind, value = SENTINEL[made.element_size()]
            made.view(kind).fill_(value)
        iocount.expect_output(made)
        return made


@functools.cache
def loaded(text: str):
    return load_module(text, f"<answer {hash(text)}>")


def _dtype(exercise: Exercise, output: str) -> str:
    return next(o.dtype for o in exercise.outputs if o.name == output)


def _plain(reference: dict):
    """What a function written in plain Python returns: one value, or a tuple of several."""
    values = list(reference.values())
    return values if len(values) > 1 else values[0]


def run(text: str, exercise: Exercise, case: Case, tiles: dict[str, int]):
    """(status, sentence, bytes moved by tensor) of one call."""
    trial = trials.trial(exercise, case, tiles)
    sent = {name: trials.padded(x) for name, x in trial.sent.items()}  # a mutant may write to them
    module = loaded(text)
    if exercise.tiles_as == "constants":
        vars(module).update(tiles)
    try:
        with np.errstate(all="ignore"), iocount.count_io(poison=True) as tally, Fresh():
            function = worker.called(module, exercise.called(case), exercise.harness)
            got = function(**trial.arguments | sent)
    except iocount.KernelError as error:
        return error.kind, str(error), {}
    except (PipelineError, RankError) as error:
        return error.kind, str(error), {}
    except RuntimeError as error:
        return "crash", str(error), {}
    if exercise.kind == "python":
        said = sentences.first_difference(*map(sentences.as_json, (_plain(trial.reference), got)))
        return ("wrong" if said else "pass"), said, tally
    got, reference = got if isinstance(got, tuple) else (got,), trial.reference
    if len(got) != len(reference):
        return "contract", f"{len(got)} outputs, expected {len(reference)}", {}
    outputs = dict(zip(reference, got, strict=True))
    for name, out in outputs.items():
        wanted = case.dtype if _dtype(exercise, name) == "input" else _dtype(exercise, name)
        if out.shape != reference[name].shape or out.dtype != getattr(torch, wanted):
            return "contract", f"{name} is {out.dtype} {list(out.shape)}", {}
        kind, value = SENTINEL[out.element_size()]
        if bool((out.view(kind) == value).any()):
            return "uninitialised", f"{name} is not written everywhere", {}
    for name, x in sent.items():
        if not torch.equal(*(t.contiguous().view(torch.uint8) for t in (x, trial.sent[name]))):
            return "contract", f"input {name} was changed", {}
    worst = numerics.worst(numerics.compare(outputs, reference, trial.limits, tiles))
    return worst.status, worst.sentence, moved_bytes(tally, sent, outputs)


def moved_bytes(tally, inputs, outputs):
    """Bytes by tensor; an input and an output of one name (merge_partials) are added up."""
    named = inputs | {f"{name} out": out for name, out in outputs.items()}
    moved: dict[str, tuple[int, int]] = {}
    for name, (loaded, stored) in tally.by_tensor(named).items():
        before = moved.get(name.removesuffix(" out"), (0, 0))
        moved[name.removesuffix(" out")] = (before[0] + loaded, before[1] + stored)
    return moved


def runs(exercise: Exercise) -> list:
    return [
        pytest.param(exercise, case, pair, id=f"{exercise.slug}-{case.name}-{pair}")
        for case in exercise.cases
        for pair in case.pairs
    ]


ALL = [exercises.get(slug) for slug in exercises.SYLLABUS]


@pytest.mark.parametrize(("exercise", "case", "pair"), [r for e in ALL for r in runs(e)])
def test_solution_passes_and_moves_exactly_the_budget(exercise, case, pair):
    tiles = exercise.tiles(pair)
    text = without_markers(sources.solution_text(exercise.slug))
    status, sentence, moved = run(text, exercise, case, tiles)
    assert status == "pass", sentence
    if exercise.budget:
        itemsize = getattr(torch, case.dtype).itemsize
        assert moved == dict(exercise.budget(case.sizes(tiles), tiles, itemsize))


@pytest.mark.parametrize(
    ("exercise", "mistake"),
    [
        pytest.param(e, m, id=f"{e.slug}-{m.slug}")
        for e in ALL
        for m in e.mistakes
        if m.tier == "cpu"
    ],
)
def test_mistake_fails_the_case_it_breaks_as_declared(exercise: Exercise, mistake: Mistake):
    text = sources.mutant(sources.solution_text(exercise.slug), mistake)
    case = exercise.case(mistake.breaks)
    found = [run(text, exercise, case, exercise.tiles(pair)) for pair in case.pairs]
    failed = next((f for f in found if f[0] != "pass"), found[0])
    # In a check the offline compiler refuses first; without it, the interpreter may just crash.
    expected = {"compile": ("compile", "crash")}.get(mistake.expect, (mistake.expect,))
    assert failed[0] in expected, failed[1]


@pytest.mark.parametrize(
    ("exercise", "case", "pair"), [r for e in ALL if e.kind != "python" for r in runs(e)]
)
def test_trivial_answers_miss_by_ten_limits(exercise, case, pair):
    trial = trials.trial(exercise, case, exercise.tiles(pair))
    name = exercise.returns(case)[0].name
    reference, limit = trial.reference[name], trial.limits[name].limit
    answers = trivial(trial.arguments, reference)
    errors = {answer: numerics.max_error(out, reference) for answer, out in answers.items()}
    accepted = [answer for answer, error in errors.items() if error <= 10 * limit]
    assert bool(accepted) == bool(case.trivial), (errors, limit)


@pytest.mark.parametrize("exercise", ALL, ids=[e.slug for e in ALL])
def test_exercise_is_complete(exercise):
    holes = sources.holes(sources.solution_text(exercise.slug))
    assert len(exercise.steps) == len(holes)
    assert 3 <= len(exercise.hints) <= 4
    names = [c.name for c in exercise.cases]
    assert len(set(names)) == len(names)
    assert len({m.slug for m in exercise.mistakes}) == len(exercise.mistakes)
    constants = bool(exercise.tile_names) and exercise.tiles_as == "constants"
    assert sum(c.own for c in exercise.cases) == (3 if constants else 0)
    if exercise.tile_names:
        assert any(c.pairs == (0, 1, 2) for c in exercise.cases if c.group == "core")
    assert [c.group for c in exercise.cases] == sorted(
        (c.group for c in exercise.cases), key=("core", "ragged", "causal", "hostile").index
    )


def test_an_unknown_slug_suggests_the_nearest():
    with pytest.raises(KeyError, match="did you mean 'flash_forward'"):
        exercises.get("flash_foward")
