"""Reads an answer's text without running it: is it Python, are the functions there, which tiles.

Floor: course. Results of a call are checked by ``verdict``.
"""

import ast
import difflib
import importlib
import inspect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flashlab.exercise import Exercise

MAX_TEXT = 200_000  # characters; the longest solution has under 10,000
MAX_DEPTH = 100  # nested nodes; readers of a tree call themselves for each
MAX_BITS = 4096  # of a whole number; Python writes none out that is much longer
MAX_TILE, MAX_ELEMENTS = 1 << 16, 1 << 20  # Triton takes no tile of more elements than that


@dataclass(frozen=True)
class Problem:
    """Why an answer is not run: a status, one sentence, and the line if there is one."""

    status: str
    detail: str
    line: int = 0
    source: str = ""


def parse(text: str) -> tuple[ast.Module | None, Problem | None]:
    """The tree of an answer, or what stands in its way: its size, or a syntax error."""
    if len(text) > MAX_TEXT:
        size = f"it is {len(text) / 1e6:.1f} million characters long"
        return None, Problem("contract", f"{size}, expected a file of at most {MAX_TEXT:,}")
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        source = (error.text or "").strip()
        return None, Problem(
            "contract", f"it is no valid Python: {error.msg}", error.lineno or 0, source
        )
    except (ValueError, RecursionError, MemoryError) as error:
        return None, Problem("contract", f"it is no valid Python: {error}")
    problem = _outsized(tree)
    return (None, problem) if problem else (tree, None)


def _outsized(tree: ast.Module) -> Problem | None:
    """What is nested too deeply, or too long a number, to be read any further."""
    level: list[tuple[ast.AST, int]] = [(tree, 0)]
    for _ in range(MAX_DEPTH):
        level = [
            (child, getattr(child, "lineno", line))
            for node, line in level
            for child in ast.iter_child_nodes(node)
        ]
        for node, line in level:
            value = getattr(node, "value", None)
            if type(value) is int and value.bit_length() > MAX_BITS:
                return Problem("contract", "a number here is too long to be read", line)
    if level:
        return Problem("contract", f"it is nested more than {MAX_DEPTH} deep", level[0][1])
    return None


def contract(exercise: Exercise, tree: ast.Module) -> Problem | None:
    """The first function that is missing or has another signature than the contract's."""
    functions = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}
    bound = set(functions) | _bound(tree)
    if not tree.body:
        what = f"there is nothing in it: `flashlab reset {exercise.slug}` puts the stub there"
        return Problem("contract", f"{what}; texts that you checked before are in history/")
    for name in exercise.functions:
        if name not in bound:
            near = difflib.get_close_matches(name, functions, n=1, cutoff=0.5)
            found = f"found {near[0]!r}: rename it" if near else "there is none: write it"
            return Problem("contract", f"expected a function {name!r}; {found}",
                           functions[near[0]].lineno if near else 0)  # fmt: skip
        if name in functions:
            wrong = _signature(exercise, functions[name])
            if wrong:
                return Problem("contract", wrong, functions[name].lineno)
    return None


def constants(tree: ast.Module, names: Sequence[str]) -> dict[str, int]:
    """Values of upper-case module constants that are plain integers, by name.

    Tile sizes that no GPU takes are left out, so no case is made for them.
    """
    found: dict[str, int] = {}
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        value = getattr(node, "value", None)
        if isinstance(value, ast.Constant) and type(value.value) is int:
            for target in targets:
                if isinstance(target, ast.Name) and target.id in names:
                    found[target.id] = value.value
    good = all(0 < size <= MAX_TILE for size in found.values())
    return found if good and math.prod(found.values()) <= MAX_ELEMENTS else {}


def _bound(tree: ast.Module) -> set[str]:
    """Names that the top level binds by assignment or import."""
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Assign):
            names |= {t.id for t in node.targets if isinstance(t, ast.Name)}
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(a.asname or a.name).split(".")[0] for a in node.names}
    return names


def signature(exercise: Exercise, name: str) -> inspect.Signature | None:
    """The contract's signature of function ``name``; None where no reference bears its name."""
    owner, first = exercise.reference.split(":")
    module = importlib.import_module(owner)
    reference = getattr(module, name, None)
    if reference is None and name == exercise.slug:
        reference = getattr(module, first)
    return inspect.signature(reference) if callable(reference) else None


def _signature(exercise: Exercise, node: ast.FunctionDef) -> str:
    expected = signature(exercise, node.name)
    if expected is None:
        return ""
    want = [_parameter(p) for p in expected.parameters.values()]
    got = _parameters(node.args)
    if [w[:2] for w in want] == [g[:2] for g in got] and all(
        w[2] == g[2] or g[2] == "?" for w, g in zip(want, got, strict=True)
    ):
        return ""
    return (
        f"expected the signature {node.name}({_spell(want)}), got {node.name}({_spell(got)}); "
        "keep the names and defaults of the contract"
    )


Parameter = tuple[str, str, str]  # name, kind, default as text ("" for none, "?" if not plain)


def _parameter(p: inspect.Parameter) -> Parameter:
    kinds = {p.KEYWORD_ONLY: "keyword", p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}
    return p.name, kinds.get(p.kind, ""), "" if p.default is p.empty else repr(p.default)


def _parameters(args: ast.arguments) -> list[Parameter]:
    plain = [*args.posonlyargs, *args.args]
    missing: list[Any] = [None] * (len(plain) - len(args.defaults))
    found = [(a.arg, "", _default(d)) for a, d in zip(plain, missing + args.defaults, strict=True)]
    if args.vararg:
        found.append((args.vararg.arg, "*", ""))
    found += [
        (a.arg, "keyword", _default(d))
        for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True)
    ]
    if args.kwarg:
        found.append((args.kwarg.arg, "**", ""))
    return found


def _default(node: ast.expr | None) -> str:
    if node is None:
        return ""
    try:
        return repr(ast.literal_eval(node))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return "?"


def _spell(parameters: Sequence[Parameter]) -> str:
    words, star = [], False
    for name, kind, default in parameters:
        if kind == "keyword" and not star:
            words.append("*")
        star = star or kind in ("keyword", "*")
        prefix = kind if kind in ("*", "**") else ""
        words.append(f"{prefix}{name}" + (f"={default}" if default else ""))
    return ", ".join(words)
