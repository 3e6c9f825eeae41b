"""Finds the mutants that go wrong as the learner's text does: one, or two at once.

A mistake is named when its mutant fails as the learner's text does on the failing runs and no
other mutant does. Floor: course.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from flashlab.exercise import Mistake
from flashlab.grader.bank import Bank, Edits, Raw, Run, agree, same_detail
from flashlab.grader.wording import work

EVIDENCE = 5  # failing runs that a mutant must match
WITNESSES = 6  # passing runs that break ties
PARTIAL = 3  # mistakes that explain most, tried with those of groups that did not run
COSTLY = ("timeout", "oom")  # mutants that end so run only if the learner's text did
NUMERIC = {"nan", "wrong", "precision"}  # one fault may show as any of these
CERTAIN, LIKELY, POSSIBLE = "certain", "likely", "possible"


@dataclass
class Diagnosis:
    """What is known of a failure.

    ``mistake`` holds slug, says, confidence and ``expect``; ``formula`` is the wrong formula that
    gives the numbers, ``structure`` sentences on what they look like.
    """

    mistake: dict[str, str] | None = None
    formula: str = ""
    structure: list[str] = field(default_factory=list)
    attention_matrix: list[list[float]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class Search:
    """The search for the mutants that explain the failing runs."""

    def __init__(self, bank: Bank, runs: Sequence[Run], deadline: float, text: str = "") -> None:
        self.bank, self.deadline = bank, deadline
        self.text, self.words = _squeezed(text), text.split()
        failing = sorted((r for r in runs if r.failed), key=lambda r: work(r.result))
        self.failing = _spread(failing, EVIDENCE)
        self.passing = _spread([r for r in runs if r.result.status == "pass"], WITNESSES)
        self.statuses: dict[str, set[str]] = {}
        for run in runs:
            self.statuses.setdefault(run.case.name, set()).add(run.result.status)
        self.groups = {r.case.group for r in failing}
        self.costly = any(r.result.status in COSTLY for r in failing)
        self.mistakes = [m for m in bank.exercise.mistakes if m.tier == "cpu"]
        self.late = False  # time ran out before all that was wanted had run

    def one(self) -> Diagnosis | None:
        """The one mistake, or class of equal ones, that explains every failing run."""
        fitting: list[Edits] = [(m,) for m in self.mistakes if self._fits(m)]
        written = [e for e in fitting if not self._unlike(e)]
        table = self._screen(written)  # to the end before any other: time may run out
        table |= self._screen(sorted((e for e in fitting if e not in table), key=self._unlike))
        found = self._full(table)
        return self._named(found, len(self.failing)) if found else None

    def more(self) -> Diagnosis | None:
        """Two mistakes at once, or one that explains two failing runs or more."""
        table = self._complete([(m,) for m in self.mistakes if self._fits(m, alone=False)])
        full = self._full(table)
        partial = sorted((e for e in table if any(table[e])), key=lambda e: -sum(table[e]))
        if not full and len(self.failing) > 1:
            full = self._pair(table, partial)
        if not full and len(self.failing) > 1 and time.monotonic() < self.deadline:
            table |= self._complete(self._later(table))
            partial = sorted((e for e in table if any(table[e])), key=lambda e: -sum(table[e]))
            full = self._pair(table, partial[:PARTIAL])
        if full:
            return self._named(full, len(self.failing))
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

    def _later(self, table: dict[Edits, list[bool]]) -> list[Edits]:
        """Mistakes whose own case lies in a group that did not run: they may show with others."""
        known = {edits[0].slug for edits in table}
        unseen = [m for m in self.mistakes if m.breaks not in self.statuses]
        return [(m,) for m in unseen if m.slug not in known and m.expect not in COSTLY]

    def _full(self, table: dict[Edits, list[bool]]) -> list[Edits]:
        return self._best([edits for edits, row in table.items() if all(row)])

    def _fits(self, mistake: Mistake, alone: bool = True) -> bool:
        """Whether the case that a mistake breaks failed here too, and as it does.

        A case that did not run counts as failed if others of its group did: a mistake breaks a
        case of the first group that it fails. Not ``alone``: a second mistake may have changed
        how the case failed.
        """
        seen = self.statuses.get(mistake.breaks)
        if seen is None:
            group = self.bank.exercise.case(mistake.breaks).group
            return group in self.groups and (mistake.expect not in COSTLY or self.costly)
        if not alone:
            return seen != {"pass"} and (mistake.expect not in COSTLY or self.costly)
        return any(s == mistake.expect or {s, mistake.expect} <= NUMERIC for s in seen)

    def _screen(self, candidates: Sequence[Edits]) -> dict[Edits, list[bool]]:
        """Which candidate agrees on which failing run; whoever disagreed once runs no more."""
        table: dict[Edits, list[bool]] = {edits: [] for edits in candidates}
        for run in self.failing:
            alive = [e for e in candidates if all(table[e])]
            agreed = dict(zip(alive, self._agree(alive, run), strict=True))
            for edits in candidates:
                table[edits].append(agreed.get(edits, False))
        return table

    def _complete(self, candidates: Sequence[Edits]) -> dict[Edits, list[bool]]:
        """The whole table: every candidate on every failing run."""
        columns = [self._agree(candidates, run) for run in self.failing]
        return dict(zip(candidates, map(list, zip(*columns, strict=True)), strict=True))

    def _agree(self, many: Sequence[Edits], run: Run) -> list[bool]:
        return [agree(run, raw) for raw in self._raws(many, run)]

    def _raws(self, many: Sequence[Edits], run: Run) -> list[Raw | None]:
        found = self.bank.raws(many, run, self.deadline)
        self.late = self.late or (None in found and time.monotonic() > self.deadline)
        return found

    def _pair(self, table: dict[Edits, list[bool]], partial: list[Edits]) -> list[Edits]:
        """Two mistakes at once that explain every failing run: one of them partial first."""
        singles = list(table)
        tried: set[frozenset] = set()
        for first in dict.fromkeys([*partial, *singles]):
            pairs = [first + other for other in singles if other != first]
            pairs = [p for p in pairs if frozenset(p) not in tried]
            tried.update(map(frozenset, pairs))
            explained = zip(self.failing, table[first], strict=True)
            for run, _ in sorted(explained, key=lambda pair: pair[1]):
                pairs = [p for p, yes in zip(pairs, self._agree(pairs, run), strict=True) if yes]
                if not pairs:
                    break
            if pairs or time.monotonic() > self.deadline:
                return self._best(pairs)
        return []

    def _best(self, found: list[Edits]) -> list[Edits]:
        """Ties broken: by the text of the message, then by agreeing on what passed too.

        Nobody is named if time ran out with a tie. What still agrees is told apart by the text.
        """
        found = self._filter(found, self.failing, same_detail)
        found = self._filter(found, self.passing, agree)
        found = sorted(found, key=self._strange)
        return found if len(found) < 2 or not self.late else []

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
        every = matched == len(self.failing) > 1 and not self.late
        if every and by_output and len(found) == len(edits) == 1:
            confidence = CERTAIN
        elif matched < len(self.failing) or (
            not by_output and self.text and self._unlike(edits) == 2
        ):
            confidence = POSSIBLE  # not all of it, or the message alone of a text unlike it
        elif len(found) < 3 and (len(self.failing) > 1 or self._consistent(edits)):
            confidence = LIKELY
        else:
            confidence = POSSIBLE
        says = edits[0].says
        if len(edits) == 2:
            says = f"{says.rstrip('.')}; and also: {edits[1].says}"
        named = Diagnosis(
            mistake={
                "slug": "+".join(m.slug for m in edits),
                "says": says,
                "confidence": confidence,
                "expect": edits[0].expect,
            }
        )
        if len(found) == 2 and len(edits) == 1:
            named.notes.append(f"Another mistake gives the same results: {found[1][0].says}")
        return named

    def _strange(self, edits: Edits) -> tuple[int, float]:
        """How little the learner's text looks like a mutant: 0 where it holds what was written.

        Where two mutants write the same in two places, the lines around it decide.
        """
        if not self.text:
            return 0, 0.0
        mutant = (self.bank.text(edits) or "").split()
        alike = SequenceMatcher(None, mutant, self.words, False).ratio()
        return self._unlike(edits), -alike

    def _unlike(self, edits: Edits) -> int:
        """0 where the text holds what the edits write and not what they replace, up to 2."""
        written = all(_squeezed(m.new) in self.text for m in edits if m.new.strip())
        removed = all(_squeezed(m.old) not in self.text for m in edits)
        return 2 - written - removed

    def _consistent(self, edits: Edits) -> bool:
        """Whether a mutant passes what the learner's text passed."""
        return all(agree(run, self._raws([edits], run)[0]) for run in self.passing)


def _squeezed(text: str) -> str:
    """Text without blanks and comments, for a look at what was written."""
    return "".join("".join(line.split("#")[0].split()) for line in text.splitlines())


def _spread(runs: Sequence[Run], most: int) -> list[Run]:
    """Up to ``most`` runs, of as many cases as possible, the first ones first."""
    seen: dict[str, int] = {}
    ranked = []
    for place, run in enumerate(runs):
        seen[run.case.name] = seen.get(run.case.name, 0) + 1
        ranked.append((seen[run.case.name], place, run))
    return [run for _, _, run in sorted(ranked, key=lambda r: r[:2])[:most]]
