"""Hole markers in a solution, and the stub that they leave. Floor: core.

A hole runs from ``### BEGIN SOLUTION 2: <sentence>`` to ``### END SOLUTION``; the lines outside
are given to the learner. Works on text alone; files and hashes are the business of sources.py,
finding the holes in a learner's text that of transplant.py.
"""

import ast
import re
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_BEGIN = re.compile(r"( *)### BEGIN SOLUTION (\d+): ([^\s\"\\][^\"\\]*)")
_END = re.compile(r" *### END SOLUTION")
_MARKER = re.compile(r"\s*#+\s*(BEGIN|END)\s+SOLUTION\b")
_WIDTH = 99


@dataclass(frozen=True)
class Hole:
    """One hole of a solution.

    Args:
        number: 1, 2, ... in the order of the text.
        sentence: What belongs here; names every variable that later code reads.
        call: What its alarm calls: ``tl.static_assert`` in a kernel, ``raise`` in plain Python.
        indent: Blanks before its markers.
        first, last: Line numbers of its two markers, from 1.
        lines: The solution's lines between the markers.
    """

    number: int
    sentence: str
    call: str
    indent: str
    first: int
    last: int
    lines: tuple[str, ...]

    @property
    def in_kernel(self) -> bool:
        """Whether the hole lies in a compiled kernel rather than in plain Python."""
        return self.call != "raise"

    @property
    def alarm(self) -> str:
        """The statement that stands in the stub instead of the hole's lines."""
        text = f'"{alarm_sentence(self.number)}"'  # the sentence stands in the comment above
        call = (
            f"{self.call}(False, {text})"
            if self.in_kernel
            else f"raise NotImplementedError({text})"
        )
        return self.indent + call

    def stub_lines(self) -> list[str]:
        """What the stub holds here: the sentence as a comment, then the alarm."""
        width = _WIDTH - len(self.indent) - 2
        words = textwrap.wrap(f"Step {self.number}: {self.sentence}", width)
        return [f"{self.indent}# {line}" for line in words] + [self.alarm]


def alarm_sentence(number: int, sentence: str = "") -> str:
    """What an unwritten step says when it runs; with its sentence, what a report says of it."""
    return f"Step {number} is not written yet" + (f": {sentence}" if sentence else "")


def stub_sentence(stub: str, number: int) -> str:
    """The sentence of a step as its stub says it, where there is no solution to ask."""
    found = re.search(rf"^[ \t]*# Step {number}: (.*(?:\n[ \t]*#.*)*)", stub, re.MULTILINE)
    return re.sub(r"\s*\n[ \t]*#\s*", " ", found[1]) if found else ""


def without_markers(text: str) -> str:
    """``text`` without its marker lines."""
    return "".join(line for line in text.splitlines(keepends=True) if not _MARKER.match(line))


def holes(solution_text: str, filename: str = "solution") -> list[Hole]:
    """The holes of a solution, in order.

    Raises:
        ValueError: malformed markers (unclosed, nested, END alone, misspelt, numbers that do not
            rise from 1 by 1, an empty hole, a hole outside any function, no unique given line
            between two holes), naming ``filename`` and the line.
    """
    lines = solution_text.splitlines()
    calls = _Calls(solution_text, filename)
    found: list[Hole] = []
    begin: tuple[int, re.Match[str]] | None = None
    for number, line in enumerate(lines, 1):
        if not _MARKER.match(line):
            continue
        start, end = _BEGIN.fullmatch(line), _END.fullmatch(line)
        _require(start or end, filename, number, f"misspelt marker {line.strip()!r}")
        if start:
            _require(begin is None, filename, number, "BEGIN SOLUTION inside a hole")
            begin = (number, start)
            continue
        _require(begin is not None, filename, number, "END SOLUTION without BEGIN SOLUTION")
        found.append(_hole(begin, number, lines, calls, len(found) + 1))
        begin = None
    if begin:
        raise _error(filename, begin[0], "this hole is never closed: ### END SOLUTION is missing")
    _check_separators(lines, found, filename)
    return found


def _hole(
    begin: tuple[int, re.Match[str]], last: int, lines: list[str], calls: "_Calls", number: int
) -> Hole:
    first, match = begin
    indent, written, sentence = match.groups()
    body = tuple(lines[first : last - 1])
    code = [n for n, line in enumerate(body, first + 1) if _is_code(line)]
    call = calls.at(first, code[-1]) if code else None
    for holds, what in (
        (int(written) == number, f"hole {written} should have number {number}"),
        (code, f"hole {number} holds no line of code"),
        (body and body[0].strip() and body[-1].strip(), f"hole {number} starts or ends blank"),
        (call or not code, f"hole {number} must lie inside one function"),
    ):
        _require(holds, calls.filename, first, what)
    return Hole(number, sentence.rstrip(), call, indent, first, last, body)


class _Calls:
    """Which alarm fits at a line: a kernel is known by its decorator, any ``...jit``."""

    def __init__(self, text: str, filename: str) -> None:
        self.filename = filename
        try:
            tree = ast.parse(text)
        except SyntaxError as error:
            raise _error(filename, error.lineno or 1, f"not Python: {error.msg}") from error
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
        self._functions = [node for node in ast.walk(tree) if isinstance(node, kinds)]

    def at(self, first: int, last: int) -> str | None:
        """The alarm's call for lines ``first`` to ``last``, or None outside any function."""
        around = [f for f in self._functions if f.lineno < first and (f.end_lineno or 0) >= last]
        if not around:
            return None
        inner = max(around, key=lambda f: f.lineno)
        jits = [name for d in inner.decorator_list if (name := _dotted(d)).split(".")[-1] == "jit"]
        if not jits:
            return "raise"
        return "gl.static_assert" if jits[0].startswith("gluon") else "tl.static_assert"


def _dotted(node: ast.expr) -> str:
    return ast.unparse(node.func if isinstance(node, ast.Call) else node)


def _check_separators(lines: list[str], found: list[Hole], filename: str) -> None:
    count = Counter(line.strip() for line in lines)
    for before, after in zip(found, found[1:], strict=False):
        between = (line.strip() for line in lines[before.last : after.first - 1])
        _require(
            any(line and count[line] == 1 for line in between),
            filename,
            after.first,
            f"no unique given line between holes {before.number} and {after.number}",
        )


def derive_stub(solution_text: str, filename: str = "solution") -> str:
    """The learner's start: each hole becomes its sentence and an alarm; no marker is left.

    Raises:
        ValueError: malformed markers, or a stub that is no Python (a hole that ends in mid-block).
    """
    parts = {hole.number: hole.stub_lines() for hole in holes(solution_text, filename)}
    stub = without_markers(_rebuilt(solution_text, parts))
    try:
        ast.parse(stub)
    except SyntaxError as error:
        raise _error(
            filename, error.lineno or 1, f"the stub is not Python: {error.msg}"
        ) from error
    return stub


def refill(solution_text: str, parts: Mapping[int, str]) -> str:
    """The solution, markers kept, with the text of the holes numbered in ``parts`` replaced."""
    return _rebuilt(solution_text, {number: text.splitlines() for number, text in parts.items()})


def _rebuilt(solution_text: str, parts: Mapping[int, Sequence[str]]) -> str:
    lines = solution_text.splitlines()
    for hole in reversed(holes(solution_text)):
        if hole.number in parts:
            lines[hole.first : hole.last - 1] = parts[hole.number]
    return "\n".join(lines) + "\n"


def _is_code(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _require(holds: object, filename: str, line: int, what: str) -> None:
    if not holds:
        raise _error(filename, line, what)


def _error(filename: str, line: int, what: str) -> ValueError:
    return ValueError(f"{filename}, line {line}: {what}")
