"""Who wrote alike: shapes of programs, compared; signatures of wrong answers. Floor: front.

A shape is a set of hashes of short runs of syntax, without names, numbers and comments. It is a
hint for a person, never part of a mark: many good answers to the same five steps look alike.
"""

import ast
import hashlib
import json
import zlib
from collections.abc import Collection, Iterator, Mapping

from flashlab import sources
from flashlab.grader.report import Report

RUN = 6  # syntax nodes in a row
MOST = 4000  # hashes kept of one text
ENOUGH = 40  # hashes of a text's own below which nothing is said
DIGITS = 3


def shape(text: str) -> list[int]:
    """Hashes of the runs of syntax nodes of a text, sorted; nothing if it does not parse."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    names = [type(node).__name__ for node in _depth_first(tree)]
    runs = {" ".join(names[i : i + RUN]) for i in range(len(names) - RUN + 1)}
    return sorted(zlib.crc32(run.encode()) for run in runs)[:MOST]


def _depth_first(tree: ast.AST) -> Iterator[ast.AST]:
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, ast.expr_context):
            yield node
        waiting += reversed(list(ast.iter_child_nodes(node)))


def own(hashes: Collection[int], slug: str) -> frozenset[int]:
    """What of a shape is not the stub's."""
    return frozenset(hashes) - frozenset(shape(sources.stub_text(slug)))


def share(a: frozenset[int], b: frozenset[int]) -> float:
    """Common part of two shapes, 0 to 1; 0 where there is too little to say anything."""
    if min(len(a), len(b)) < ENOUGH:
        return 0.0
    return len(a & b) / len(a | b)


def pairs(shapes: Mapping[str, frozenset[int]], least: float) -> list[tuple[float, str, str]]:
    """Pairs of students whose shapes share at least ``least``, the most alike first."""
    names = sorted(shapes)
    found = [
        (part, a, b)
        for i, a in enumerate(names)
        for b in names[i + 1 :]
        if (part := share(shapes[a], shapes[b])) >= least
    ]
    return sorted(found, reverse=True)


def signature(report: Report) -> str:
    """The same for two answers that go wrong alike on the public cases; empty if one is known."""
    if report.passed or report.mistake or report.status in ("unfilled", "contract", "forbidden"):
        return ""
    seen = []
    for case in report.cases:
        where = case.where
        if case.status == "pass":
            continue
        spot = [where.output, where.index, _round(where.got), where.rows] if where else []
        seen.append([case.name, case.tiles, case.status, case.argument, case.output, spot])
    text = json.dumps(seen, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16] if seen else ""


def _round(value: float) -> str:
    return f"{value:.{DIGITS}g}"
