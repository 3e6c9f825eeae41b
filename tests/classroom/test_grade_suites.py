"""Correct answers all pass their hidden cases, mistakes all fail theirs and are named."""

from collections import Counter

import pytest

from flashlab import exercises, sources
from flashlab.authoring.verify import variants
from flashlab.classroom import grade_job, seeds, seeds_draw
from flashlab.classroom.sandbox import Sandbox
from flashlab.exercise import Exercise

QUICK, MOST = "vector_scale", 6  # mistakes of it that the quick form tries
RUNS = 3000  # of correct answers, without a false failure
NAMED = 0.95


def hidden(slug: str, student: str) -> Exercise:
    exercise = exercises.get(slug)
    key = seeds.lab_key(bytes(32), exercise.chapter)
    names = [case.name for case in exercise.cases]
    return seeds_draw.hidden(exercise, seeds.case_seeds(key, student, slug, names))


def correct(slug: str) -> list[tuple[str, str]]:
    return [("solution", sources.solution_text(slug)), *variants(slug)]


def false_failures(slug: str, student: str, totals: Counter[str]) -> list[str]:
    found = []
    for name, text in correct(slug):
        report = grade_job._check(hidden(slug, student), text, "cpu")
        totals["runs of correct answers"] += len(report.cases)
        if not report.passed:
            found.append(f"{slug} {name} for {student}: {report.headline}")
    totals["false failures"] += len(found)
    return found


def survivors(slug: str, totals: Counter[str], most: int | None = None) -> list[str]:
    """Mistakes that pass their hidden cases; those that are named are counted."""
    exercise, found = exercises.get(slug), []
    solution = sources.solution_text(slug)
    for mistake in exercise.mistakes[:most]:
        if mistake.tier != "cpu":
            continue
        text = sources.mutant(solution, mistake)
        report = grade_job._check(hidden(slug, mistake.slug), text, "cpu")
        totals["mistakes graded"] += 1
        if report.passed or report.points >= 100:
            found.append(f"{slug} {mistake.slug}")
            continue
        shown = grade_job._shown(text, report)
        totals["mistakes named"] += mistake.says in shown.headline or (
            (shown.mistake or {}).get("slug") == mistake.slug
        )
    totals["mistakes that pass"] += len(found)
    return found


def test_correct_answers_pass_and_mistakes_fail(totals: Counter[str]) -> None:
    before = Counter(totals)
    with Sandbox().open():
        assert false_failures(QUICK, "ann", totals) == []
        assert survivors(QUICK, totals, MOST) == []
    graded = totals["mistakes graded"] - before["mistakes graded"]
    assert totals["mistakes named"] - before["mistakes named"] >= NAMED * graded


@pytest.mark.slow
def test_no_correct_answer_fails_in_thousands_of_runs(totals: Counter[str]) -> None:
    before, wrong, student = totals["runs of correct answers"], [], 0
    while totals["runs of correct answers"] - before < RUNS:
        student += 1
        for slug in exercises.SYLLABUS:
            if exercises.get(slug).kind != "gluon":
                with Sandbox(ranks=exercises.get(slug).ranks).open():
                    wrong += false_failures(slug, f"s{student}", totals)
    assert wrong == []


@pytest.mark.slow
def test_every_mistake_fails_and_is_named(totals: Counter[str]) -> None:
    before, alive = Counter(totals), []
    for slug in exercises.SYLLABUS:
        with Sandbox(ranks=exercises.get(slug).ranks).open():
            alive += survivors(slug, totals)
    assert alive == []
    graded = totals["mistakes graded"] - before["mistakes graded"]
    assert totals["mistakes named"] - before["mistakes named"] >= NAMED * graded
