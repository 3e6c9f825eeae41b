"""What the wrong numbers look like, where no known mistake explains them. Floor: course.

Each finding is one concrete sentence: which calls fail, which heads, rows and columns, and what
formula or factor gives the numbers that came.
"""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from flashlab.error_budget import as_fp64
from flashlab.errormap import PER_ROW, is_pack, rows_axis, unique_heads
from flashlab.grader import formulas
from flashlab.grader.bank import Run
from flashlab.grader.conditions import condition
from flashlab.grader.factors import factor
from flashlab.grader.wording import numbers

MOST = 4  # sentences of a report
CLOSE = 2e-3  # relative distance to a formula


def describe(runs: Sequence[Run]) -> list[str]:
    """Up to four sentences, the most telling first; empty if nothing stands out."""
    numeric = _numeric(runs)
    found: list[str] = []
    if numeric:
        said = formula(runs)
        opening = "The numbers are " if said.startswith("as if") else ""
        known = [f"{opening}{said}."] if said else _zeros(numeric) or _swapped(numeric)
        found += known or factor(numeric)
        found += _one_output(numeric)
    found += condition(runs)
    if numeric:
        found += _places(numeric[0])
    return list(dict.fromkeys(found))[:MOST]


def formula(runs: Sequence[Run]) -> str:
    """The wrong formula whose numbers every failing run returned; empty if there is none."""
    numeric = _numeric(runs)
    if not numeric or any(r.failed and r.raw.status != "ran" for r in runs):
        return ""
    if not all(formulas.applies(r.inputs) and "o" in r.reference for r in numeric):
        return ""
    alive: list[str] | None = None
    for run in numeric:
        if alive == []:
            break
        made = formulas.wrong_formulas(run.inputs, run.tiles)
        fits = [sentence for sentence, outputs in made if _fits(run, outputs)]
        alive = fits if alive is None else [s for s in alive if s in fits]
    return alive[0] if alive else ""


def _numeric(runs: Sequence[Run]) -> list[Run]:
    return [r for r in runs if r.failed and r.raw.status == "ran"]


def _fits(run: Run, made: Mapping[str, Tensor]) -> bool:
    """Whether the first wrong output equals that of a formula."""
    for name in ("o", "lse"):
        if name not in run.reference or name not in run.raw.outputs:
            continue
        got, ref = as_fp64(run.raw.outputs[name]), as_fp64(run.reference[name])
        if _apart(got, ref) > CLOSE:
            return _apart(got, made[name]) < min(CLOSE, _apart(got, ref) / 4)
    return False


def _apart(a: Tensor, b: Tensor) -> float:
    """Relative distance; infinite where NaN or infinities do not coincide."""
    finite = torch.isfinite(a) & torch.isfinite(b)
    if a.shape != b.shape or not torch.equal(a[~finite], b[~finite]):
        return torch.inf
    return float((a - b)[finite].norm() / b[finite].norm().clamp_min(1e-12))


def _zeros(runs: Sequence[Run]) -> list[str]:
    """Says which output of the first failing run is 0 where it should not be."""
    for name, ref in runs[0].reference.items():
        if _is_zero(runs[0], name) and bool(as_fp64(ref).any()):
            return [
                f"Every element of {name} is 0 in case {runs[0].case.name}: "
                "its sum is never stored, or it is multiplied by 0 (exp of -inf, "
                "such as a first rescaling factor, is 0)."
            ]
    return []


def _is_zero(run: Run, name: str) -> bool:
    return name in run.raw.outputs and not bool(as_fp64(run.raw.outputs[name]).any())


def _swapped(runs: Sequence[Run]) -> list[str]:
    """A product of square matrices one of which was read with rows and columns swapped."""
    if not all({"a", "b"} <= set(r.inputs) and "c" in r.raw.outputs for r in runs):
        return []
    ways: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
        "a @ b.T: b is read with rows and columns swapped": lambda a, b: a @ b.mT,
        "a.T @ b: a is read with rows and columns swapped": lambda a, b: a.mT @ b,
        "(a @ b).T: c is stored with rows and columns swapped": lambda a, b: (a @ b).mT,
    }
    square = [r for r in runs if len({*r.inputs["a"].shape, *r.inputs["b"].shape}) == 1]
    for said, made in ways.items():
        near = [
            _apart(
                as_fp64(r.raw.outputs["c"]),
                made(as_fp64(r.inputs["a"]), as_fp64(r.inputs["b"])),
            )
            < CLOSE
            for r in square
        ]
        if near and all(near):
            return [f"Where all sizes are equal, the numbers are {said}."]
    return []


def _one_output(runs: Sequence[Run]) -> list[str]:
    """Says if one output is wrong and all others are right, in every run."""
    wrong = [_wrong_outputs(r) for r in runs]
    names = list(runs[0].reference)
    for name in names:
        others = [n for n in names if n != name]
        if others and all(w == [name] for w in wrong):
            return [f"Only {name} is wrong: {' and '.join(others)} {_is(others)} right."]
    return []


def _wrong_outputs(run: Run) -> list[str]:
    return [
        name
        for name, ref in run.reference.items()
        if name in run.raw.outputs and _apart(as_fp64(run.raw.outputs[name]), as_fp64(ref)) > CLOSE
    ]


def _places(run: Run) -> list[str]:
    """Heads, rows and columns of the run's wrong output."""
    where = run.result.where
    if where is None or where.output not in run.raw.outputs:
        return []
    got = as_fp64(run.raw.outputs[where.output])
    ref = as_fp64(run.reference[where.output])
    bad = torch.isnan(got) | ((got - ref).abs() > _noise(run, ref))
    axis = rows_axis(where.output, bad)
    if is_pack(bad.dim(), axis):
        return _tokens(bad) + _columns(bad)
    columns = [] if where.output in PER_ROW else _columns(bad)
    return _heads(bad, axis) + _rows(run, where.output, bad, got) + columns


def _noise(run: Run, ref: Tensor) -> float:
    limit = run.result.limit
    return limit if limit else 1e-6 * float(ref.nan_to_num(0, 0, 0).abs().max())


def _tokens(bad: Tensor) -> list[str]:
    tokens = torch.nonzero(bad.flatten(1).any(1)).flatten().tolist()
    if len(tokens) in (0, len(bad)):
        return []
    return [f"Only {len(tokens)} of {len(bad)} tokens of the pack are wrong: {numbers(tokens)}."]


def _heads(bad: Tensor, axis: int) -> list[str]:
    total = int(torch.tensor(bad.shape[:axis]).prod()) if axis else 1
    heads = unique_heads(torch.nonzero(bad), axis)
    if not heads or total < 2 or len(heads) >= total:
        return []
    if len(heads) == total - 1 and [0] * axis not in heads:
        return ["The first head is right, every other one wrong: look at the offsets of b and h."]
    names = ", ".join("(" + ", ".join(map(str, h)) + ")" for h in heads[:4])
    name = "(b, h)" if axis == 2 else "h"
    return [f"Only {len(heads)} of {total} heads are wrong: {name} = {names}."]


def _rows(run: Run, output: str, bad: Tensor, got: Tensor) -> list[str]:
    """Rows that are wrong: those without keys, the tail, the first, or a range."""
    per_row = bad if output in PER_ROW or bad.dim() == 1 else bad.any(-1)
    per_row = per_row.reshape(-1, per_row.shape[-1]).any(0) if per_row.dim() else per_row[None]
    rows, length = torch.nonzero(per_row).flatten().tolist(), per_row.numel()
    if not rows or len(rows) == length:
        return []
    lse = run.reference.get("lse")
    if lse is not None and lse.dim() > 1:
        empty = torch.nonzero(torch.isneginf(lse).reshape(-1, length).any(0)).flatten().tolist()
        if empty and set(rows) <= set(empty):
            held = "NaN" if bool(torch.isnan(got).any()) else "something else"
            return [
                f"Only rows that see no key are wrong (rows {numbers(rows)}): "
                f"o must be 0 and lse -inf there, yours hold {held}."
            ]
    tile = next((run.tiles[n] for n in ("BLOCK_M", "BLOCK") if n in run.tiles), 0)
    tile = 0 if output == "scale" else tile  # it has a number for every block of rows
    if tile and length % tile and rows[0] >= length // tile * tile:
        return [f"Only {output} rows {numbers(rows)} are wrong: the last, partly filled tile."]
    if tile and rows == list(range(tile, length)):
        return [f"The first tile of {output} is right, every later row wrong."]
    if len(rows) == 1:
        return [f"Of {length} rows of {output}, only row {rows[0]} is wrong."]
    return [f"Of {length} rows of {output}, {numbers(rows)} are wrong; the others are right."]


def _columns(bad: Tensor) -> list[str]:
    if bad.dim() < 2:
        return []
    columns = torch.nonzero(bad.reshape(-1, bad.shape[-1]).any(0)).flatten().tolist()
    if not columns or len(columns) == bad.shape[-1]:
        return []
    if len(columns) == 1:
        return [f"Only column {columns[0]} of {bad.shape[-1]} is wrong."]
    return [f"Only columns {numbers(columns)} of {bad.shape[-1]} are wrong."]


def _is(names: Sequence[str]) -> str:
    return "are" if len(names) > 1 else "is"
