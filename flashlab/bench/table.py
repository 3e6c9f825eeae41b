"""One table of a bench: cells in one run, printed as they come, saved as JSON when asked."""

import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path

import torch

from flashlab import kernels, sources
from flashlab.bench import timing


def answer(slug: str, mine: bool = False) -> Callable:
    """The course's solution, or with ``mine`` your file: the plain function, no recorder round."""
    if mine:
        return getattr(getattr(kernels, slug), slug)
    text = sources.solution_text(slug)
    return vars(kernels.load_module(text, str(sources.solution_path(slug))))[slug]


def line(row: dict) -> str:
    """One row as text: the rate of each version, and how many times our time it takes."""
    ours = row["ms"]["ours"]
    cells = [
        f"{name} {row['work'] / ms / 1e9:.{row['digits']}f}"
        + ("" if name == "ours" else f" ({ms / ours:.2f}x)")
        for name, ms in row["ms"].items()
        if not math.isnan(ms)
    ]
    return f"{row['cell']}: " + "  ".join(cells)


def row(cell: str, work: float, unit: str, ms: dict[str, float], **sizes) -> dict:
    """A cell of the table. ``work`` is FLOPs or bytes, ``unit`` of the rate TFLOP/s or TB/s."""
    digits = 1 if unit == "TFLOP/s" else 3
    return {"cell": cell, "work": work, "unit": unit, "digits": digits, "ms": ms, **sizes}


def main(
    slug: str, rows: Iterable[dict], mine: bool, out: str | None, how: str | None = None
) -> int:
    """Print facts and rows (each is measured when asked for). Exit code 1 without a GPU.

    ``how`` says it where rows are not medians of interleaved rounds.
    """
    if not torch.cuda.is_available():
        print(f"flashlab bench {slug} measures speed and needs an NVIDIA GPU; none is here.")
        return 1
    facts, done = timing.card() | ({"how": how} if how else {}), []
    print(", ".join(f"{k} {v}" for k, v in facts.items()))
    whose = "your file" if mine else "the course's solution"
    for found in rows:
        if not done:
            print(f"{found['unit']}, ours = {whose}; in brackets how many times the time of ours")
        print(line(found), flush=True)
        done.append(found)
        if out:  # after every row: a run that is cut off keeps what it measured
            record = {"slug": slug, "facts": facts, "rows": done}
            Path(out).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        torch.cuda.empty_cache()
    return 0
