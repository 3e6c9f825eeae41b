"""A page of what was built and measured: exercises, kernels, the trained model. Floor: front.

It says what this machine did; it vouches for nobody.
"""

import html
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from flashlab import broken, device, hardware, learner
from flashlab.broken.desk import MOST
from flashlab.capstone.train import Run, apart
from flashlab.viz import palette
from flashlab.workspace import Workspace, files

SCOPE = ".flashlab-certificate"
_RULES = """
{r}{{font:15px/1.5 system-ui,sans-serif;color:var(--fl-ink);background:var(--fl-paper);
border:3px double var(--fl-green);border-radius:8px;padding:22px 28px;margin:6px 0;
max-width:800px}}
{r} h2{{font-size:22px;margin:0 0 4px;color:var(--fl-ink)}}
{r} h3{{font-size:15px;margin:16px 0 4px;color:var(--fl-soft)}}
{r} p{{margin:4px 0}}{r} .fl-soft{{color:var(--fl-soft)}}
{r} table{{border-collapse:collapse;font-size:13px;color:var(--fl-ink);margin:0}}
{r} table th,{r} table td{{text-align:right;padding:3px 14px 3px 0;border:0;background:none;
border-top:1px solid var(--fl-line);font-variant-numeric:tabular-nums}}
{r} table th:first-child,{r} table td:first-child{{text-align:left}}
{r} table tr{{background:none}}
{r} th{{color:var(--fl-soft);font-weight:600}}
{r} pre{{font:13px/1.45 ui-monospace,Menlo,Consolas,monospace;color:var(--fl-ink);
background:var(--fl-panel);padding:7px 10px;border-radius:5px;white-space:pre-wrap;margin:3px 0}}
"""
Table = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Certificate:
    """The page as data; shows itself in a notebook, ``save`` writes it as a file.

    Args:
        title: First line.
        where: Machine, versions, date.
        parts: (heading, lines of text, table), in order.
        written: What the model wrote.
    """

    title: str
    where: str
    parts: tuple[tuple[str, tuple[str, ...], Table], ...]
    written: str = ""

    def _repr_html_(self) -> str:
        body = "".join(_part(*part) for part in self.parts)
        if self.written:
            body += f"<h3>Written by the model</h3><pre>{html.escape(self.written)}</pre>"
        rules = palette.inline(SCOPE) + _RULES.format(r=SCOPE * 2)
        return (
            f'<div class="{SCOPE[1:]}" role="region" aria-label="{html.escape(self.title)}">'
            f"<style>{rules}</style><h2>{html.escape(self.title)}</h2>"
            f'<p class="fl-soft">{html.escape(self.where)}</p>{body}</div>'
        )

    def __repr__(self) -> str:
        lines = [self.title, self.where]
        for heading, told, table in self.parts:
            lines += ["", heading, *told, *("  ".join(row) for row in table)]
        return "\n".join(
            [*lines, *(["", "Written by the model", self.written] * bool(self.written))]
        )

    def save(self, path: Path | None = None) -> Path:
        """Write the page; without a path as ``certificate.html`` in the workspace."""
        path = path or Workspace.current().root / "certificate.html"
        page = (
            '<!doctype html><html lang="en"><meta charset="utf-8">'
            f"<title>{html.escape(self.title)}</title>{self._repr_html_()}</html>\n"
        )
        files.write_atomic(path, page.encode())
        return path


def certificate(runs: Sequence[Run], whose: Sequence[str] = (), written: str = "") -> Certificate:
    """What you built and what was measured here.

    Args:
        runs: Training runs of one plan, your own first; the others are beside it.
        whose: Sentences on whose kernels ran, as ``routes.plan(...).whose``.
        written: A text that the model wrote.
    """
    rows = learner.progress()
    done = [row for row in rows if row["status"] == "pass"]
    built = [("exercise", "points", "tier")]
    built += [(f"{r['chapter']} {r['slug']}", f"{r['points']:g}", r["tier"]) for r in done]
    parts = [
        (
            "Built",
            (f"{len(done)} of {len(rows)} exercises passed.", *whose),
            built if done else (),
        ),
        ("Measured", (_plan(runs[0]),), measured(runs)),
    ]
    parts.append(("Debug this kernel", (_debugged(),), ()))
    return Certificate("What you built and measured", _where(), tuple(parts), written)


def measured(runs: Sequence[Run]) -> Table:
    """One row a run, the heading first."""
    peak = hardware.find(device.detect().name)
    share = peak is not None and runs[0].plan.device == "cuda"
    memory = "peak memory" if runs[0].peak_bytes else "kept for backward"
    table = [
        ("attention", "first loss", "last loss", "apart from the first", "tokens a second", memory)
        + ("MFU",) * share
    ]
    for run in runs:
        row = (
            run.name,
            f"{run.losses[0]:.3f}",
            f"{run.losses[-1]:.3f}",
            f"{apart(runs[0], run):.1e}",
            f"{run.tokens_per_second:,.0f}",
            f"{(run.peak_bytes or run.kept_bytes) / 1e6:,.1f} MB",
        )
        table.append(row + ((f"{100 * run.mfu(peak.peak('bfloat16')):.1f} %",) if share else ()))
    return table


def _plan(run: Run) -> str:
    plan, size = run.plan, run.plan.size
    kind = str(plan.dtype).removeprefix("torch.")
    return (
        f"A GPT of {size.layers} layers, {size.heads} heads and width {size.width}, "
        f"{plan.steps} steps on {plan.B} sequences of {plan.N} characters, {kind}."
    )


def _debugged() -> str:
    folder = Workspace.current().root / "broken"
    if not any(folder.glob("seed-*/state.json")):
        return "Not begun: `flashlab broken` deals the eight kernels."
    found = broken.newest()
    return f"Seed {found.state['seed']}: {found.marks} of {MOST} points."


def _where() -> str:
    import torch
    import triton

    return (
        f"{device.detect().name}, Python {platform.python_version()}, torch {torch.__version__}, "
        f"Triton {triton.__version__}, {time.strftime('%Y-%m-%d')}"
    )


def _part(heading: str, told: Sequence[str], table: Table) -> str:
    lines = "".join(f"<p>{html.escape(line)}</p>" for line in told)
    rows = "".join(_row(row, "td" if n else "th") for n, row in enumerate(table))
    return f"<h3>{html.escape(heading)}</h3>{lines}" + (f"<table>{rows}</table>" if rows else "")


def _row(row: Sequence[str], kind: str) -> str:
    return "<tr>" + "".join(f"<{kind}>{html.escape(cell)}</{kind}>" for cell in row) + "</tr>"
