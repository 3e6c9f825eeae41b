"""Which step of an answer is the first wrong one: each alone in the solution. Floor: course."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from flashlab import sources
from flashlab.exercise import GROUPS, Exercise
from flashlab.grader import cpu, trials, wording
from flashlab.grader.cpu import Answer
from flashlab.grader.report import CaseResult
from flashlab.grader.trials import Run

EVIDENCE = 2  # failing runs that each step is tried on
# Places in messages, with what leads up to them: "; line 3", ", line 3", ' at line 3: "x = 1"'
_LINE = re.compile(
    r"(?P<before>(?:[;,] (?:the first at )?| at | of )?)"
    r'line (?P<number>\d+)(?P<quoted>: "[^\n]*")?'
)
UNABLE = frozenset({"compile", "crash"})  # such as a name that the solution does not define


def first_wrong(exercise: Exercise, answer: Answer, runs: Sequence[Run]) -> int | None:
    """Number of the first step that fails by itself as the answer fails.

    None if the text outside the holes was changed, if every step is right alone, or if a step
    cannot run alone, because the answer renamed what the steps hand on to each other.
    """
    failing = [r.trial for r in runs if r.result.status != "pass"][:EVIDENCE]
    own = {r.result.status for r in runs}
    texts = transplants(exercise.slug, answer.text)
    wanted = [(text, trial) for _, text in texts for trial in failing]
    found = cpu.run_texts(exercise, wanted, answer.filename)
    for number, (step, _) in enumerate(texts):
        mine = found[number * len(failing) : (number + 1) * len(failing)]
        if any(run.result.status in UNABLE - own for run in mine):
            return None
        if any(run.result.status != "pass" for run in mine):
            return step
    return None


@dataclass(frozen=True)
class SoFar:
    """What is known of the steps before the first that is not written: a sentence, and of whom."""

    said: str
    right: bool
    wrong_step: int | None = None


def so_far(exercise: Exercise, answer: Answer, unwritten: int) -> SoFar | None:
    """Try the steps before ``unwritten`` in the solution: all together, then each alone.

    None if there is none. Steps that fit each other may differ from the solution's, such as a
    scale that moved, so each alone is tried only if they fail together.
    """
    done = range(1, unwritten)
    if not done:
        return None
    one = len(done) == 1
    names = f"step {done[0]}" if one else f"steps {wording.listed(list(done))}"
    try:
        together = _with(exercise.slug, answer.text, done)
        alone = [_with(exercise.slug, answer.text, [step]) for step in done]
    except (sources.TransplantError, KeyError, FileNotFoundError) as error:
        why = error.args[0] if isinstance(error, sources.TransplantError) else "no solution here"
        return SoFar(f"{names} could not be tried alone, because {why}", False)
    if _failure(exercise, answer, together) is None:
        return SoFar(f"{names} {'is' if one else 'are'} right so far", True)
    for step, text in zip(done, alone, strict=True):
        broken = _failure(exercise, answer, text)
        if broken is not None:
            where = f" at {broken.line}" if broken.line not in broken.detail else ""
            said = in_answer(f"{broken.detail}{where}", text, answer.text)
            said = f"step {step} is not right yet (case {broken.name}: {said})"
            return SoFar(said, False, step)
    return SoFar(f"{names} do not fit together yet, though each is right alone", False)


def in_answer(said: str, text: str, answer: str) -> str:
    """A message about ``text`` with the answer's line numbers; without lines it does not hold.

    A step tried alone stands in the solution, whose other lines the learner has not written.
    """
    same = SequenceMatcher(None, text.splitlines(), answer.splitlines(), autojunk=False)
    here = {
        block.a + i + 1: block.b + i + 1
        for block in same.get_matching_blocks()
        for i in range(block.size)
    }

    def line(found: re.Match[str]) -> str:
        number = here.get(int(found["number"]))
        return f"{found['before']}line {number}{found['quoted'] or ''}" if number else ""

    return _LINE.sub(line, said)


def _with(slug: str, text: str, steps: Iterable[int]) -> str:
    """The solution with these steps as the learner wrote them."""
    solution = sources.solution_text(slug)
    mine = sources.fillings(solution, text)
    filled = sources.refill(solution, {step: mine[step - 1] for step in steps})
    return sources.without_markers(filled)


def _failure(exercise: Exercise, answer: Answer, text: str) -> CaseResult | None:
    """The first run of ``text`` that fails, group by group, each case at its first tile sizes."""
    for group in GROUPS:
        cases = [c for c in exercise.cases if c.group == group]
        many = [trials.trial(exercise, c, exercise.tiles(c.pairs[0])) for c in cases]
        found = cpu.run_texts(exercise, [(text, t) for t in many], answer.filename)
        bad = next((run.result for run in found if run.result.status != "pass"), None)
        if bad is not None:
            return bad
    return None


def transplants(slug: str, text: str) -> list[tuple[int, str]]:
    """(step, solution with the learner's lines in it); nothing if given lines changed."""
    try:
        solution = sources.solution_text(slug)
        return [
            (hole.number, sources.transplant(solution, text, hole.number))
            for hole in sources.holes(solution)
        ]
    except (sources.TransplantError, KeyError, FileNotFoundError):
        return []
