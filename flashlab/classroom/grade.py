"""``flashlab class grade DIR``: marks for what was handed in. Floor: front."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashlab.classroom import (
    answers,
    grade_plan,
    grade_progress,
    gradebook,
    report_write,
    seeds,
    shards,
)
from flashlab.classroom.course import Course, find_lab
from flashlab.classroom.grade_marks import Graded, graded
from flashlab.classroom.grade_plan import Plan
from flashlab.classroom.report_class import LabReport
from flashlab.classroom.sandbox import BUBBLEWRAP, NONE, Sandbox, choose
from flashlab.classroom.store import FOLDER, Store
from flashlab.grader import gpu
from flashlab.render.safe import one_line

SHOWN = 50  # things to look at that are printed; all are in the report


@dataclass(frozen=True)
class Options:
    """What an instructor may ask of a run."""

    labs: Sequence[str] = ()
    attempt: int = 1
    workers: int = 0
    sandbox: str = ""
    image: str = ""
    tier: str = "cpu"
    shard: str = ""
    scheduler: str = ""


def main(folder: str, options: Options = Options()) -> int:
    """Grade; the exit code is 0 if every submission got a mark and nothing needs a look."""
    course = Course.load(folder)
    if options.tier != "cpu" and not options.scheduler and (why_not := gpu.available()):
        raise ValueError(f"--tier {options.tier}: {why_not}")
    closed = choose(options.sandbox, options.image, gpu=options.tier != "cpu")
    plans = plan(course, options, closed)
    _announce(plans, closed)
    store = Store(shards.folder(course.dir / FOLDER, options.shard))
    beside = Store(course.dir / FOLDER)
    with store.locked():
        jobs = [job for one in plans for job in one.jobs.values()]
        jobs = grade_plan.of_shard(jobs, options.shard)
        todo = [j for j in jobs if store.get(j["key"]) is None and beside.get(j["key"]) is None]
        print(f"{len(jobs)} submissions, {len(jobs) - len(todo)} of them graded before")
        _run(todo, store, options)
        if options.shard:
            print(f"This part is done; when all are: flashlab class merge {folder}")
            return 0
        return finish(course, plans, store)


def plan(course: Course, options: Options, closed: Sandbox) -> list[Plan]:
    """What there is to grade in the labs asked for, else in all of the course."""
    names = [find_lab(text) for text in options.labs] or list(course.labs)
    if missing := [name for name in names if name not in course.labs]:
        raise ValueError(f"{course.name} has no {missing[0]}; it has {', '.join(course.labs)}")
    return [
        grade_plan.plan(course, course.labs[name], closed, options.tier, options.attempt)
        for name in names
    ]


def _announce(plans: Sequence[Plan], closed: Sandbox) -> None:
    print(f"sandbox: {closed.title}")
    if closed.kind == NONE:
        print("WARNING: learners' code runs with your rights; every report says so.")
    for one in plans:
        print(f"{one.lab.name}: commitment of the hidden cases {one.commitment}")


def _run(todo: Sequence[Mapping[str, Any]], store: Store, options: Options) -> None:
    """Grade and keep each result as it comes."""
    results: Iterable[dict[str, Any]]
    if options.scheduler:
        from flashlab.classroom import shards_dask

        results = shards_dask.mark(options.scheduler, todo)
    else:
        from flashlab.classroom import grade_pool

        results = grade_pool.mark(
            todo,
            options.workers or grade_pool.cores(),
            store.losses,
            store.note_loss,
            store.folder / "workers.log",
        )
    with grade_progress.shown(len(todo)) as advance:
        for result in results:
            store.put(result["key"], result)
            advance(one_line(f"{result['lab']} {result['student']}", 60))


def finish(course: Course, plans: Sequence[Plan], store: Store) -> int:
    """Reports, table and gradebook from the results that are there."""
    reports = []
    for one in plans:
        rows = []
        for submission in one.submissions:
            job = one.jobs.get(submission.student)
            result = store.get(job["key"]) if job else None
            rows.append(graded(submission, one.lab, job["key"] if job else "", result))
        reports.append(LabReport(one.lab.name, rows, one.commitment))
    said = [f"damaged result set aside: {path}" for path in store.broken]
    for report in reports:
        said += _to_look_at(report.graded)
    for path in report_write.write(course, reports):
        print(f"wrote {path}")
    for report in reports:
        written = gradebook.write_scores(course, report.lab, report.graded)
        print(f"gradebook: {one_line('; '.join(written[:3]) or 'scores written')}")
    return _say(said)


def _to_look_at(rows: Sequence[Graded]) -> list[str]:
    found = []
    for one in rows:
        who = answers.shown(one.submission.student)
        found += [f"{who}: {said}" for said in one.submission.said]
        found += [
            f"{who}: {mark.slug} has no mark: {mark.status.replace('_', ' ')}"
            for mark in one.marks
            if mark.points is None
        ]
    return found


def _say(said: Sequence[str]) -> int:
    for text in said[:SHOWN]:
        print(f"look at {one_line(text)}", file=sys.stderr)
    if len(said) > SHOWN:
        print(f"and {len(said) - SHOWN} more, see report.html", file=sys.stderr)
    return 1 if said else 0


def report(folder: str, options: Options = Options()) -> int:
    """``flashlab class report DIR``: reports anew from what is graded; runs nothing."""
    return merge(folder, None, options)


def merge(folder: str, stores: Sequence[str] | None, options: Options = Options()) -> int:
    """``flashlab class merge DIR``: results of parts into the course's store, then reports."""
    course = Course.load(folder)
    plans = plan(course, options, Sandbox(options.sandbox or BUBBLEWRAP))
    with Store(course.dir / FOLDER).locked() as store:
        said: list[str] = []
        if stores is not None:
            added, said = shards.merge(store, [Path(place) for place in stores])
            print(f"{added} results were new")
        return max(finish(course, plans, store), _say(said))


def reveal(folder: str, lab: str, attempt: int) -> int:
    """``flashlab class reveal DIR``: the key that a lab's hidden cases were drawn with."""
    course, name = Course.load(folder), find_lab(lab)
    key = seeds.lab_key(course.secret, name, attempt)
    print(f"{name}, attempt {attempt}: key {key.hex()}")
    print(f"its commitment: {seeds.commitment(key)}")
    return 0
