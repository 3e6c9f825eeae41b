"""The contract cell of a lab, woven from a reference's docstring and IO budget. Floor: front."""

import inspect
import re
import textwrap
from collections.abc import Callable
from importlib import import_module

import torch

from flashlab.exercise import Case, Exercise

_TITLES = {"Args": "Arguments", "Returns": "Returns", "Raises": "Errors", "Source": "Source"}
_SECTION = re.compile(rf"^({'|'.join(_TITLES)}):[ \t]*(.*)", re.MULTILINE)
_ENTRY = re.compile(r"([\w.]+(?:, [\w.]+)*): ")
_LINE = 88


def contract_cell(exercise: Exercise) -> str:
    """Markdown: signatures, docstrings and, where there is a budget, its bytes for one core case.

    Raises:
        ValueError: a reference has no docstring.
    """
    module = import_module(exercise.reference.split(":")[0])
    parts = []
    for name in exercise.functions:
        parts += described(name, getattr(module, name))
    if exercise.budget is not None:
        parts.append(_budget(exercise))
    return "\n\n".join(parts)


def described(name: str, function: Callable) -> list[str]:
    """Signature and docstring of a function as paragraphs of Markdown.

    Raises:
        ValueError: it has no docstring.
    """
    docstring = inspect.getdoc(function)
    if not docstring:
        raise ValueError(f"{name} needs a docstring")
    return [f"```python\n{signature(name, function)}\n```", *_docstring(docstring)]


def signature(name: str, function: Callable) -> str:
    """``name(q: Tensor, *, causal: bool = False) -> Tensor``; one argument a line where long."""
    shown = inspect.signature(function)
    arguments, after = [], _plain(shown.replace(parameters=())).removeprefix("()")
    for parameter in shown.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in arguments:
            arguments.append("*")
        arguments.append(_plain(parameter))
    line = f"{name}({', '.join(arguments)}){after}"
    if len(line) <= _LINE:
        return line
    return "\n".join([f"{name}(", *(f"    {a}," for a in arguments), f"){after}"])


def _plain(shown: inspect.Signature | inspect.Parameter) -> str:
    """Without module names, and without quotes round an annotation."""
    text = re.sub(r"\b(?:torch|typing|collections\.abc)\.", "", str(shown))
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)


def _docstring(text: str) -> list[str]:
    """Summary and formulas, then each section of a docstring as a list or a line."""
    head, *rest = _SECTION.split(text)
    parts = [_paragraph(paragraph) for paragraph in head.strip().split("\n\n")]
    for title, inline, body in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
        entries = _entries(textwrap.dedent(f"{body}\n"))
        first = [_inline(inline)] if inline else []
        listed = "\n".join(entries) if not inline else " ".join([*first, *body.split()])
        parts.append(f"**{_TITLES[title]}**" + (f": {listed}" if inline else f"\n\n{listed}"))
    return parts


def _paragraph(text: str) -> str:
    """Prose as prose; a paragraph with an equation as it is written."""
    return f"```text\n{text}\n```" if " = " in text else _inline(text)


def _entries(body: str) -> list[str]:
    """``name: meaning`` entries, whose further lines are indented, as list items."""
    items: list[str] = []
    for line in body.strip("\n").splitlines():
        if items and line.startswith(" "):
            items[-1] += " " + line.strip()
        elif line.strip():
            items.append(line.strip())
    return [f"- {_inline(_ENTRY.sub(_named, item, count=1))}" for item in items]


def _named(match: re.Match[str]) -> str:
    return ", ".join(f"``{name}``" for name in match[1].split(", ")) + ": "


def _inline(text: str) -> str:
    """Docstring text as Markdown: ``code`` spans keep their text, stars elsewhere stay stars."""
    pieces = re.split(r"``(.+?)``", text)
    pieces[::2] = [re.sub(r"([*<])", r"\\\1", prose) for prose in pieces[::2]]
    return "`".join(pieces)


def _budget(exercise: Exercise) -> str:
    """Bytes of every tensor for the core case that moves most, at the first tile sizes."""
    tiles = exercise.tiles(0)
    core = [case for case in exercise.cases if case.group == "core"]
    case = max(core, key=lambda case: _total(exercise, case))
    rows = exercise.budget(case.sizes(tiles), tiles, _itemsize(case))
    sizes = ", ".join(f"{k} = {v}" for k, v in {**case.sizes(tiles), **tiles}.items())
    table = [f"| `{name}` | {read:,} | {written:,} |" for name, (read, written) in rows.items()]
    head = f"**Bytes that it may move** in the case `{case.name}` ({case.dtype}, {sizes})"
    return "\n".join([head, "", "| tensor | loaded | stored |", "|---|---:|---:|", *table])


def _total(exercise: Exercise, case: Case) -> int:
    tiles = exercise.tiles(0)
    rows = exercise.budget(case.sizes(tiles), tiles, _itemsize(case))
    return sum(read + written for read, written in rows.values())


def _itemsize(case: Case) -> int:
    return getattr(torch, case.dtype).itemsize
