"""What answers get in this Python, as JSON: run with and without Triton's compiled part.

``runs.py PLACES MISTAKES SLUG...``: of each exercise the cases at these places (``:`` is all,
``::5`` every fifth), and as many of its mistakes, each in the case that it breaks.
"""

import json
import sys
import time
from typing import Any

from flashlab import compiler, exercises, sources
from flashlab.exercise import Exercise
from flashlab.grader import Report
from flashlab.grader.run import check, warm


def places(text: str) -> slice:
    return slice(*(int(n) if n else None for n in text.split(":")))


def report_of(slug: str, text: str, names: list[str]) -> Report:
    return check(slug, text, cases=names, all_cases=True, diagnose=False)


def told(report: Report) -> list[list[Any]]:
    """Of each run its case, tile sizes, status, bytes by tensor and worst error."""
    return [[c.name, c.tiles, c.status, c.io, c.error] for c in report.cases]


def mistakes(exercise: Exercise, count: int) -> dict[str, list[Any]]:
    """Of some mistakes, spread over the list, the status and what was said of the case."""
    solution, found = sources.solution_text(exercise.slug), {}
    every = [m for m in exercise.mistakes if m.tier == "cpu"]
    for mistake in every[:: max(1, len(every) // count)][:count] if count else ():
        text = sources.mutant(solution, mistake)
        report = report_of(exercise.slug, text, [mistake.breaks])
        found[mistake.slug] = [report.status, told(report)]
    return found


def main(where: str, count: str, *slugs: str) -> None:
    found: dict[str, Any] = {"compiler": compiler.here(), "slugs": {}}
    warm()
    for slug in slugs:
        exercise, start = exercises.get(slug), time.monotonic()
        names = [case.name for case in exercise.cases][places(where)]
        report = report_of(slug, sources.solution_text(slug), names)
        found["slugs"][slug] = {
            "status": report.status,
            "runs": told(report),
            "seconds": time.monotonic() - start,
            "mistakes": mistakes(exercise, int(count)),
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
