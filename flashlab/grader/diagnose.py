"""From a failed check to its cause: a known mistake, or what the numbers show. Floor: course."""

import time
from collections.abc import Callable, Sequence

from flashlab import sources
from flashlab.exercise import Exercise
from flashlab.grader import attention_matrix, structure, wording
from flashlab.grader.bank import Bank, Job, Raw, Run
from flashlab.grader.report import Report
from flashlab.grader.search import Diagnosis, Search

__all__ = ["Diagnosis", "Run", "apply", "diagnose"]

SEARCH = 0.85  # part of the budget for mutants; the rest is for the attention matrix


def diagnose(
    exercise: Exercise,
    runs: Sequence[Run],
    run_text: Callable[..., Raw],
    *,
    text: str,
    solution: str | None = None,
    budget_seconds: float = 8.0,
    run_many: Callable[[Sequence[Job]], Sequence[Raw]] | None = None,
) -> Diagnosis:
    """Explain the failing runs of a learner's text.

    Args:
        exercise: What was graded.
        runs: Every run that was graded, passed ones too: they tell mistakes apart.
        run_text: ``(text, case, tiles, inputs=None) -> Raw`` through an isolated worker.
        text: The learner's text, for the attention matrix.
        solution: The solution; None reads the course's, without which no mistake is known.
        budget_seconds: Time after which nothing new is started.
        run_many: Runs several jobs at once; None runs them one by one.
    """
    if not any(run.failed for run in runs):
        return Diagnosis()
    start = time.monotonic()
    search = None
    many = run_many or (lambda jobs: [run_text(*job) for job in jobs])
    try:
        bank = Bank(exercise, solution or sources.solution_text(exercise.slug), many)
        search = Search(bank, runs, start + SEARCH * budget_seconds, text)
    except KeyError:  # a student's bundle holds no solutions
        pass
    found = search and search.one()
    formula = "" if found else structure.formula(runs)
    if search and not found and not formula:
        found = search.more()
    if found:
        return found
    shown = time.monotonic() < start + budget_seconds
    matrix, seen = attention_matrix.ask(exercise, runs, run_text, text) if shown else ([], [])
    sentences = (structure.describe(runs) + seen)[: structure.MOST]
    return Diagnosis(formula=formula, structure=sentences, attention_matrix=matrix)


def apply(report: Report, diagnosis: Diagnosis) -> None:
    """Write a diagnosis into a report: mistake, structure, headline, statuses, failing call.

    A run judged "precision" is "wrong" where the mistake found says so.
    """
    report.structure = diagnosis.structure
    report.attention_matrix = diagnosis.attention_matrix
    report.notes += diagnosis.notes
    if diagnosis.mistake:
        found = dict(diagnosis.mistake)
        expect = found.pop("expect")
        report.mistake = found
        for case in report.cases:
            if case.status == "precision" and expect != "precision":
                case.status = "wrong"
        if report.status == "precision" and expect != "precision":
            report.status = "wrong"
    smallest = wording.smallest_failure(report)
    if smallest is not None:
        report.failing_call = wording.failing_call(report.slug, smallest)
    report.headline = wording.headline(report, diagnosis.formula)
