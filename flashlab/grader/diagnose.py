"""From a failed check to its likely cause: a known mistake, two of them, or what the numbers show.

A mistake is named when its mutant fails as the learner's text does on the failing runs and no
other mutant does. Floor: course.
"""

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from flashlab import sources
from flashlab.exercise import Exercise
from flashlab.grader import attention_matrix, structure, wording
from flashlab.grader.bank import Bank, Edits, Job, Raw, Run, agree, same_detail
from flashlab.grader.report import Report

__all__ = ["Diagnosis", "Run", "apply", "diagnose"]

EVIDENCE = 6  # failing runs that a mutant must match
SCREEN = 2  # ... of which every mutant runs this many
WITNESSES = 6  # passing runs that break ties
COSTLY = ("timeout", "oom")  # mutants expected to end so run only if the learner's text did
CERTAIN, LIKELY, POSSIBLE = "certain", "likely", "possible"


@dataclass
class Diagnosis:
    """What is known of a failure.

    ``mistake`` holds slug, says, confidence and ``expect``; ``structure`` is sentences.
    """

    mistake: dict[str, str] | None = None
    structure: list[str] = field(default_factory=list)
    attention_matrix: list[list[float]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


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
    deadline = time.monotonic() + budget_seconds
    if not any(run.failed for run in runs):
        return Diagnosis()
    many = run_many or (lambda jobs: [run_text(*job) for job in jobs])
    try:
        bank = Bank(exercise, solution or sources.solution_text(exercise.slug), many)
    except KeyError:
        bank = None
    if bank and exercise.mistakes:
        found = _Search(bank, runs, deadline).run()
        if found is not None:
            return found
    return _from_structure(exercise, runs, run_text, text, deadline)


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
    report.headline = wording.headline(report)


def _from_structure(
    exercise: Exercise,
    runs: Sequence[Run],
    run_text: Callable[..., Raw],
    text: str,
    deadline: float,
) -> Diagnosis:
    sentences, matrix = structure.describe(runs), []
    if time.monotonic() < deadline:
        matrix, seen = attention_matrix.ask(exercise, runs, run_text, text)
        sentences = (sentences + seen)[: structure.MOST]
    return Diagnosis(structure=sentences, attention_matrix=matrix)


class _Search:
    """The search for the mutants that explain the failing runs."""

    def __init__(self, bank: Bank, runs: Sequence[Run], deadline: float) -> None:
        self.bank, self.deadline = bank, deadline
        self.failing = _spread([r for r in runs if r.failed], EVIDENCE)
        self.passing = _spread([r for r in runs if r.result.status == "pass"], WITNESSES)
        statuses = {r.result.status for r in self.failing}
        self.mistakes = [
            m for m in bank.exercise.mistakes if m.expect not in COSTLY or m.expect in statuses
        ]

    def run(self) -> Diagnosis | None:
        """The diagnosis, or None if no mistake explains the failure."""
        singles = [(m,) for m in self.mistakes]
        table = self._screen(singles)
        full = self._best([e for e, row in table.items() if all(row)])
        if full:
            return self._named(full, len(self.failing))
        partial = self._partial(table)
        pair = self._pair(table, partial)
        if pair:
            return self._named(pair, len(self.failing))
        most = max((sum(table[e]) for e in partial), default=0)
        best = self._best([e for e in partial if sum(table[e]) == most]) if most > 1 else []
        if len(best) != 1:
            return None
        found = self._named(best, most)
        found.notes.append(
            f"That explains {most} of the {len(self.failing)} failing runs looked at; "
            "there may be a second mistake."
        )
        return found

    def _screen(self, candidates: Sequence[Edits]) -> dict[Edits, list[bool]]:
        """Which candidate agrees on which failing run; after the first two only survivors run."""
        table: dict[Edits, list[bool]] = {edits: [] for edits in candidates}
        for number, run in enumerate(self.failing):
            alive = [e for e in candidates if number < SCREEN or all(table[e])]
            raws = dict(zip(alive, self._raws(alive, run), strict=True))
            for edits in candidates:
                table[edits].append(edits in raws and agree(run, raws[edits]))
        return table

    def _raws(self, many: Sequence[Edits], run: Run) -> list[Raw | None]:
        if time.monotonic() > self.deadline:
            return [None] * len(many)
        return self.bank.raws(many, run)

    def _partial(self, table: dict[Edits, list[bool]]) -> list[Edits]:
        """Mistakes that explain some failing runs, after running all on every one."""
        for number, run in enumerate(self.failing[SCREEN:], SCREEN):
            rest = list(table)
            for edits, raw in zip(rest, self._raws(rest, run), strict=True):
                table[edits][number] = agree(run, raw)
        return sorted((e for e in table if any(table[e])), key=lambda e: -sum(table[e]))

    def _pair(self, table: dict[Edits, list[bool]], partial: list[Edits]) -> list[Edits]:
        """Two mistakes at once that explain every failing run: one of them partial first."""
        singles = list(table)
        tried: set[frozenset] = set()
        for first in [*partial, *singles]:
            pairs = [first + other for other in singles if other != first]
            pairs = [p for p in pairs if frozenset(p) not in tried]
            tried.update(map(frozenset, pairs))
            runs = self.failing if first not in partial else self._unexplained(table[first])
            for run in itertools.chain(runs, [r for r in self.failing if r not in runs]):
                raws = self._raws(pairs, run)
                pairs = [p for p, raw in zip(pairs, raws, strict=True) if agree(run, raw)]
                if not pairs:
                    break
            if pairs or time.monotonic() > self.deadline:
                return self._best(pairs)
        return []

    def _unexplained(self, row: list[bool]) -> list[Run]:
        return [run for run, explained in zip(self.failing, row, strict=True) if not explained]

    def _best(self, found: list[Edits]) -> list[Edits]:
        """Ties broken: by the text of the message, then by agreeing on what passed too."""
        if len(found) > 1 or len(self.failing) == 1:
            found = self._filter(found, self.failing, same_detail)
            found = self._filter(found, self.passing, agree)
        return found

    def _filter(
        self, found: list[Edits], runs: Sequence[Run], test: Callable[[Run, Raw | None], bool]
    ) -> list[Edits]:
        for run in runs:
            if len(found) < 2:
                break
            raws = self._raws(found, run)
            kept = [e for e, raw in zip(found, raws, strict=True) if test(run, raw)]
            found = kept or found
        return found

    def _named(self, found: list[Edits], matched: int) -> Diagnosis:
        """Words for a class of mutants that go wrong alike; its first one gives the slug."""
        edits = found[0]
        by_output = all(run.raw.status == "ran" for run in self.failing)
        if matched == len(self.failing) > 1 and by_output and len(found) == len(edits) == 1:
            confidence = CERTAIN
        elif len(found) < 3 and (len(self.failing) > 1 or self._consistent(edits)):
            confidence = LIKELY
        else:
            confidence = POSSIBLE
        says = edits[0].says
        if len(edits) == 2:
            says = f"{says.rstrip('.')}; and also: {edits[1].says}"
        if len(found) == 2 and len(edits) == 1:
            says = f"{says.rstrip('.')}; or, which looks alike: {found[1][0].says}"
        return Diagnosis(
            mistake={
                "slug": "+".join(m.slug for m in edits),
                "says": says,
                "confidence": confidence,
                "expect": edits[0].expect,
            }
        )

    def _consistent(self, edits: Edits) -> bool:
        """Whether a mutant passes what the learner's text passed."""
        return all(agree(run, self._raws([edits], run)[0]) for run in self.passing)


def _spread(runs: Sequence[Run], most: int) -> list[Run]:
    """Up to ``most`` runs, of as many cases as possible, the first ones first."""
    seen: dict[str, int] = {}
    ranked = []
    for place, run in enumerate(runs):
        seen[run.case.name] = seen.get(run.case.name, 0) + 1
        ranked.append((seen[run.case.name], place, run))
    return [run for _, _, run in sorted(ranked, key=lambda r: r[:2])[:most]]
