"""Marks one submission: a payload of JSON in, a result of JSON out. Trusted side. Floor: front.

The marks come from hidden cases, drawn from the payload's seeds. What the student is shown comes
from the public cases, on which the likely mistake is looked for. All of a submission's code runs
in one fresh sandbox.
"""

import dataclasses
import json
import time
from collections.abc import Mapping
from typing import Any

from flashlab import exercises, grader
from flashlab.classroom import grade_cost, grade_device, report_similar, sandbox, seeds_draw
from flashlab.exercise import Exercise
from flashlab.grader import cpu, gpu, pool, steps, trials
from flashlab.grader.report import Report

LIMITS = pool.Limits(cpu_seconds=5, wall_seconds=60.0, memory_bytes=1 << 30)
UNSEEN = ("unfilled", "contract", "forbidden")  # decided by reading: there is nothing to diagnose
BY_CHANCE = ("timeout", "crash")  # of a compilation: a busy machine may be the cause
EVIDENCE = 4  # failing runs on which each step is tried alone
DIAGNOSIS_SECONDS = 20.0


def run_bytes(data: bytes) -> bytes:
    """``run`` for a scheduler: only bytes travel."""
    return json.dumps(run(json.loads(data))).encode()


def run(payload: Mapping[str, Any]) -> dict[str, Any]:
    """The result of one submission.

    Args:
        payload: ``key``, ``student``, ``lab``, ``tier``, ``sandbox`` (``Sandbox``'s fields),
            ``answers`` (slug -> text) and ``seeds`` (slug -> case -> seed).
    """
    start, used = time.monotonic(), grade_cost.cpu_seconds()
    ranks = any(exercises.get(slug).ranks for slug in payload["answers"])
    closed = sandbox.Sandbox(**payload["sandbox"] | {"ranks": ranks})
    marked = {}
    with closed.open(), gpu.turns(grade_device.alone):
        for slug, text in payload["answers"].items():
            marked[slug] = _exercise(slug, text, payload["seeds"][slug], payload["tier"])
        used = grade_cost.cpu_seconds() - used
    return {
        "key": payload["key"],
        "student": payload["student"],
        "lab": payload["lab"],
        "tier": payload["tier"],
        "sandbox": closed.title,
        "exercises": marked,
        "seconds": round(time.monotonic() - start, 2),
        "cpu_seconds": round(used, 2),
    }


def lost(payload: Mapping[str, Any], why: str) -> dict[str, Any]:
    """The result of a submission that no worker survives: an error of ours, not a mark of 0."""
    report = Report("", payload["tier"], "grader_error", f"The grader failed: {why}")
    marked = {}
    for slug in payload["answers"]:
        report = dataclasses.replace(report, slug=slug)
        marked[slug] = _entry(report, None, [], "", [])
    same = {name: payload[name] for name in ("key", "student", "lab", "tier")}
    title = sandbox.Sandbox(**payload["sandbox"]).title
    return {**same, "sandbox": title, "exercises": marked, "seconds": 0.0, "cpu_seconds": 0.0}


def _exercise(slug: str, text: str, seeds: Mapping[str, int], tier: str) -> dict[str, Any]:
    public = exercises.get(slug)
    with trials.one_thread():
        hidden = seeds_draw.hidden(public, seeds)
    report = _marks(hidden, text, tier)
    right = _steps(hidden, text, report)
    shown = None if report.passed or report.status == "grader_error" else _shown(text, report)
    signature = report_similar.signature(shown) if shown else ""
    return _entry(report, shown, right, signature, report_similar.shape(text))


def _entry(
    report: Report, shown: Report | None, right: list[bool], signature: str, shape: list[int]
) -> dict[str, Any]:
    return {
        "status": report.status,
        "points": report.points,
        "steps": right,
        "hidden": json.loads(report.to_json()),
        "shown": json.loads(shown.to_json()) if shown else None,
        "signature": signature,
        "shape": shape,
    }


def _marks(hidden: Exercise, text: str, tier: str) -> Report:
    """The check that counts; once more where the machine, not the answer, may be to blame."""
    report = _check(hidden, text, tier)
    chance = any(row.get("error") in BY_CHANCE for row in report.resources)
    if chance or report.status == "grader_error":
        report = _check(hidden, text, tier)
    return report


def _check(hidden: Exercise, text: str, tier: str) -> Report:
    return grader.check(
        hidden.slug,
        text,
        tier=tier,
        path=f"{hidden.slug}.py",
        diagnose=False,
        limits=LIMITS,
        exercise=hidden,
    )


def _shown(text: str, report: Report) -> Report:
    """The report that the student may see whole: of the public cases, with the likely mistake."""
    if not report.cases and report.status in UNSEEN:
        return report
    exercise = exercises.get(report.slug)
    names = [case.name for case in exercise.cases]  # named, they are not compiled again
    return grader.check(
        report.slug,
        text,
        path=f"{report.slug}.py",
        cases=None if report.status == "compile" else names,
        budget_seconds=DIAGNOSIS_SECONDS,
        limits=LIMITS,
    )


def _steps(hidden: Exercise, text: str, report: Report) -> list[bool]:
    """Whether each step is right: all of a text that passes, else each alone in the solution."""
    count = len(hidden.steps)
    if report.passed:
        return [True] * count
    if report.status in ("grader_error", "contract", "forbidden"):
        return [False] * count
    right = dict.fromkeys(range(1, count + 1), False)
    here = [c for c in report.cases if c.tier == "cpu"]  # the solution is tried on the CPU
    failing = [c for c in here if c.status not in ("pass", "grader_error")][:EVIDENCE]
    evidence = [trials.trial(hidden, hidden.case(c.name), c.tiles, c.own) for c in failing]
    if not evidence:  # not finished, or wrong on a GPU alone: each step on the first cases
        first = [c for c in hidden.cases if c.group == "core"][:EVIDENCE]
        evidence = [trials.trial(hidden, c, hidden.tiles(c.pairs[0])) for c in first]
    alone = steps.transplants(hidden.slug, text)
    wanted = [(one, trial) for _, one in alone for trial in evidence]
    found = cpu.run_texts(hidden, wanted, f"{hidden.slug}.py")
    for place, (step, _) in enumerate(alone):
        mine = found[place * len(evidence) : (place + 1) * len(evidence)]
        right[step] = all(run.result.status == "pass" for run in mine)
    return [right[step] for step in sorted(right)]
