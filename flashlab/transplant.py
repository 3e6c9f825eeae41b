"""A learner's text cut at the holes of its solution: one step alone, or the step not written yet.

Finds the holes by the given lines around them, since a learner's file carries no markers.
Floor: core.
"""

import ast
import re
import textwrap

from flashlab.holes import holes, refill, without_markers

_ALARM = re.compile(
    r"(?:static_assert\(\s*False,|NotImplementedError\()\s*[\"']Step (\d+) is not written yet"
)
_CONSTANT = re.compile(r"([A-Z][A-Z0-9_]* = )\d+\b.*")


class TransplantError(ValueError):
    """The learner's text outside the holes is not the solution's, so no hole can be cut out."""


def normalise(text: str) -> str:
    """``text`` as it is compared: LF line ends, no blanks at line ends, one newline at the end."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "\n".join(line.rstrip() for line in lines).rstrip("\n") + "\n"


def alarm_step(text: str) -> int | None:
    """The first step whose alarm still stands in ``text``, not commented out; else None."""
    code = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    return min((int(number) for number in _ALARM.findall(code)), default=None)


def transplant(solution_text: str, learner_text: str, step: int) -> str:
    """The solution, markers removed, with the learner's lines in hole ``step``.

    Raises:
        TransplantError: the learner's text outside the holes differs, naming the given line.
        ValueError: the solution has no such hole.
    """
    found = holes(solution_text)
    if not 1 <= step <= len(found):
        raise ValueError(f"step must be 1 to {len(found)}, not {step}")
    mine = fillings(solution_text, learner_text)[step - 1]
    return without_markers(refill(solution_text, {step: mine}))


def fillings(solution_text: str, learner_text: str) -> list[str]:
    """What the learner wrote into each hole, in order, without blank lines around it.

    Blank lines and the values of upper-case integer constants (tile sizes) may differ from the
    solution outside the holes, nothing else.

    Raises:
        TransplantError: another given line was changed or removed, naming it.
    """
    lines = solution_text.splitlines()
    found = holes(solution_text)
    ends = [0, *(hole.last for hole in found)]
    starts = [*(hole.first - 1 for hole in found), len(lines)]
    return _cut([lines[a:b] for a, b in zip(ends, starts, strict=True)], learner_text)


def first_blank(stub: str, learner_text: str) -> int | None:
    """The first hole that the learner left without a statement, or None.

    None too where the given lines differ from the stub's, since the holes cannot be told then.
    """
    givens: list[list[str]] = [[]]
    for line in stub.splitlines():
        givens[-1].append(line)
        if match := _ALARM.search(line):
            head = f"# Step {match[1]}:"
            while not givens[-1].pop().lstrip().startswith(head):
                pass
            givens.append([])
    try:
        parts = _cut(givens, learner_text)
    except TransplantError:
        return None
    return next((number for number, part in enumerate(parts, 1) if _is_blank(part)), None)


def _is_blank(part: str) -> bool:
    try:
        body = ast.parse(textwrap.dedent(part)).body
    except SyntaxError:
        return False
    return all(
        isinstance(node, ast.Pass)
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        for node in body
    )


def _cut(givens: list[list[str]], learner_text: str) -> list[str]:
    text = normalise(without_markers(learner_text)).splitlines()
    rows = [(number, line) for number, line in enumerate(text, 1) if line]
    parts, at, after = [], 0, 0
    for index, given in enumerate(givens):
        want = [line for line in given if line.strip()]
        start = _place(rows, at, want) if index else 0
        if index == len(givens) - 1 and _agree(rows, len(rows) - len(want), want):
            start = max(at, len(rows) - len(want))
        _match(rows, start, want)
        if index:
            before = rows[start][0] - 1 if start < len(rows) else len(text)
            parts.append("\n".join(text[after:before]).strip("\n"))
        at = start + len(want)
        after = rows[at - 1][0] if at else 0
    if at < len(rows):
        number, line = rows[at]
        raise TransplantError(f"line {number}, {line.strip()!r}, was added after the given lines")
    return parts


def _agree(rows: list[tuple[int, str]], start: int, want: list[str]) -> int:
    """How many of the given lines stand at ``start``, in place; 0 unless all could fit."""
    there = rows[start:] if start >= 0 else []
    return sum(_key(a) == _key(b[1]) for a, b in zip(want, there, strict=False))


def _place(rows: list[tuple[int, str]], at: int, want: list[str]) -> int:
    """Where the given lines stand in ``rows`` from ``at`` on; the best place if none is exact."""
    scores = [_agree(rows, start, want) for start in range(at, len(rows) + 1)]
    if want and scores.count(len(want)) > 1:
        raise TransplantError(f"the given line {want[0].strip()!r} stands twice; keep it once")
    if want and not any(scores):
        raise TransplantError(f"the given line {want[0].strip()!r} is gone; put it back")
    return at + scores.index(max(scores))


def _match(rows: list[tuple[int, str]], start: int, want: list[str]) -> None:
    for place, line in enumerate(want, start):
        now = rows[place] if place < len(rows) else (None, "")
        if _key(now[1]) != _key(line):
            there = f"line {now[0]} is {now[1].strip()!r}" if now[0] else "the file ends"
            raise TransplantError(
                f"the given line {line.strip()!r} should stand where {there}; "
                "put it back to check one step alone"
            )


def _key(line: str) -> str:
    """What must agree of a given line: all of it, but for the value of a tile constant."""
    match = _CONSTANT.fullmatch(line.rstrip())
    return match[1] if match else line.rstrip()
