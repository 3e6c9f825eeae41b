"""check(): the stages of one check, in order, to one report. Floor: course."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from flashlab import exercises, sources
from flashlab.exercise import GROUPS, Case, Exercise
from flashlab.grader import pool, trials, verdict
from flashlab.grader.report import Report
from flashlab.grader.trials import Run

Progress = Callable[[int, int, str], None]


def check(
    slug: str,
    text: str,
    *,
    tier: str = "cpu",
    path: str = "",
    saved_at: str = "",
    cases: Sequence[str] | None = None,
    all_cases: bool = False,
    progress: Progress | None = None,
    diagnose: bool = True,
) -> Report:
    exercise = exercises.get(slug)
    start = time.monotonic()
    report = Report(slug, tier, "pass", "")
    report.path, report.saved_at, report.text_hash = path, saved_at, sources.text_hash(text)
    step = sources.unfilled_step(slug, text)
    if step is not None:
        report.status, report.step = "unfilled", step
        report.headline = (
            sources.alarm_sentence(slug, step) if False else f"Step {step} is not written yet"
        )
        return report
    for case in exercise.cases:
        for pair in case.pairs:
            t = trials.trial(exercise, case, exercise.tiles(pair))
            job = make_job(exercise, text, path or f"{slug}.py", t)
            [(_, reply)] = pool.default().run([job])
            run = verdict.judge(exercise, t, reply)
            report.cases.append(run.result)
    bad = report.first_failure
    report.status = bad.status if bad else "pass"
    report.headline = f"{bad.name}: {bad.detail}" if bad else "All cases pass."
    report.seconds = time.monotonic() - start
    return report


def make_job(
    exercise: Exercise, text: str, filename: str, trial: trials.Trial, both: bool = True
) -> pool.Job:
    arguments: dict[str, Any] = {
        n: "tensor" if n in trial.sent else {"value": v} for n, v in trial.arguments.items()
    }
    outputs = sum(getattr(r, "nbytes", 0) for r in trial.reference.values())
    request = {
        "run": 0,
        "text": text,
        "filename": filename,
        "function": exercise.slug,
        "torch_allowed": exercise.kind in ("torch", "python"),
        "constants": trial.tiles if exercise.tiles_as == "constants" else {},
        "arguments": arguments,
        "reversed": both,
        "reply_limit": 2 * outputs + (1 << 20),
    }
    return pool.Job(request, trial.sent, tag=trial)
