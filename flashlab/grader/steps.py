"""Which step of an answer is the first wrong one: each alone in the solution. Floor: course."""

from collections.abc import Sequence

from flashlab import sources
from flashlab.exercise import Exercise
from flashlab.grader import cpu
from flashlab.grader.cpu import Answer
from flashlab.grader.trials import Run

EVIDENCE = 2  # failing runs that each step is tried on
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
