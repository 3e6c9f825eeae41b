"""A tally in words: one screen of text, or one HTML table."""

import html as _html
import math
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor

if TYPE_CHECKING:
    from flashlab.iocount.tally import Tally

Bound = Mapping[str, tuple[int, int]]
_MAX_ROWS, _MAX_LOOPS = 14, 3


def rows(
    tally: "Tally", bound: Bound | None, tensors: Mapping[str, Tensor] | None
) -> list[dict[str, Any]]:
    """One dictionary per tensor: loaded, unique, reread, stored, bound (or None)."""
    out = []
    if tensors is not None:
        touches = tally.touches_by_tensor(tensors)
        for name, (loaded, stored) in tally.by_tensor(tensors).items():
            unique = [n for t in touches[name] if (n := t.unique_bytes("load"))]
            out.append({"name": name, "loaded": loaded, "stored": stored})
            out[-1]["unique"] = sum(unique) if name == "scratch" or len(unique) < 2 else None
    else:
        unique = tally.unique_bytes
        traffic = tally.traffic
        for name in dict.fromkeys(touch.name for touch in tally.touches):
            if name not in traffic:
                continue
            row = traffic[name]
            stored = row["store"] + row["atomic"]
            out.append({"name": name, "loaded": row["load"], "stored": stored})
            out[-1]["unique"] = unique[name]["load"]
    for row in out:
        row["reread"] = row["loaded"] / row["unique"] if row["unique"] else None
        row["bound"] = _bound(row["name"], bound)
    return out


def _bound(name: str, bound: Bound | None) -> tuple[int, int] | None:
    for key in (name, name.removesuffix("_ptr"), name.removesuffix("_desc")):
        if bound and key in bound:
            return tuple(bound[key])
    return None


def facts(tally: "Tally") -> list[str]:
    """The lines below the table."""
    flops = tally.flops
    out = [
        "FLOPs: " + ", ".join(f"{kind} {n:,d}" for kind, n in flops.items()),
        f"arithmetic intensity: {tally.intensity:.1f} FLOPs per byte of {tally.bytes:,d} moved",
    ]
    programs = sum(math.prod(launch.grid) for launch in tally.launches)
    out.append(f"programs: {programs:,d}")
    for line, row in list(tally.per_loop.items())[:_MAX_LOOPS]:
        done = ", ".join(f"{kind} {row.get(kind, 0):,d}" for kind in ("exp", "divide"))
        out.append(f"loop at line {line}: {row['passes']:,d} passes in all; in them {done}")
    if tally.peak_tile_bytes:
        peak = f"peak tiles of one program: {tally.peak_tile_bytes:,d} bytes"
        peak += f" (line {tally.peak_tile_line[1]})" if tally.peak_tile_line else ""
        if tally.sram_bytes:
            part = tally.peak_tile_bytes / tally.sram_bytes
            peak += f", {part:.0%} of {tally.sram_bytes:,d} of SRAM"
            peak += ": does not fit" if part > 1 else ""
        out.append(peak)
    for name, n in tally.unwritten.items():
        out.append(f"output '{name}': {n:,d} elements were never stored")
    for error in tally.findings[:3]:
        out += textwrap.wrap(f"{error.kind}: {error}", 99)
    if len(tally.findings) > 3:
        out.append(f"and {len(tally.findings) - 3} findings more")
    return out


def title(tally: "Tally") -> str:
    """What ran."""
    names = list(dict.fromkeys(x.kernel for x in tally.launches))
    shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    n = len(tally.launches)
    return f"{n} launch{'es' if n != 1 else ''}: {shown}" if n else "no launch was recorded"


class Report(str):
    """The text of a report; a notebook shows its table in place of it."""

    def __new__(
        cls, tally: "Tally", bound: Bound | None, tensors: Mapping[str, Tensor] | None
    ) -> "Report":
        table = rows(tally, bound, tensors)
        self = super().__new__(cls, _text(tally, table))
        self._html = _html_table(tally, table)
        return self

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return self._html


def _text(tally: "Tally", table: list[dict[str, Any]]) -> str:
    """One screen, at most 99 columns wide."""
    beside = any(row["bound"] for row in table)
    head = f"{'tensor':12s} {'loaded':>14s} {'unique':>14s} {'reads':>8s} {'stored':>14s}"
    lines = [title(tally), head + (f"   {'closed form':>24s}" if beside else "")]
    shown = table[:_MAX_ROWS]
    for row in shown:
        unique = f"{row['unique']:,d}" if row["unique"] is not None else ""
        reread = f"{row['reread']:.2f}x" if row["reread"] else ""
        line = (
            f"{row['name'][:12]:12s} {row['loaded']:14,d} {unique:>14s} {reread:>8s} "
            f"{row['stored']:14,d}"
        )
        if row["bound"]:
            loaded, stored = row["bound"]
            equal = (loaded, stored) == (row["loaded"], row["stored"])
            line += f"   {f'{loaded:,d} / {stored:,d}':>24s} {'=' if equal else '!'}"
        lines.append(line)
    if len(table) > len(shown):
        lines.append(f"... and {len(table) - len(shown)} tensors more")
    total = [sum(row[k] for row in table) for k in ("loaded", "stored")]
    lines.append(f"{'total':12s} {total[0]:14,d} {'':14s} {'':8s} {total[1]:14,d}")
    return "\n".join(lines + facts(tally))


_CELL = (
    "padding:.15em .8em;text-align:right;border:0;border-bottom:1px solid rgba(128,128,128,.35)"
)


def _html_table(tally: "Tally", table: list[dict[str, Any]]) -> str:
    """One table in the notebook's own colours; no style sheet, no script, no request."""
    beside = any(row["bound"] for row in table)
    head = ["tensor", "loaded", "unique", "reads", "stored"]
    head += ["closed form: loaded", "stored"] if beside else []
    out = ["".join(_cell(name, "th") for name in head)]
    for row in table:
        cells = [
            row["name"],
            f"{row['loaded']:,d}",
            f"{row['unique']:,d}" if row["unique"] is not None else "",
            f"{row['reread']:.2f}×" if row["reread"] else "",
            f"{row['stored']:,d}",
        ]
        if beside:
            for want, got in zip(row["bound"] or (), (row["loaded"], row["stored"]), strict=False):
                cells.append(f"{want:,d} {'✓' if want == got else '≠'}")
            cells += [""] * (len(head) - len(cells))
        out.append("".join(_cell(text, "td") for text in cells))
    body = "".join(f"<tr style='background:transparent'>{cells}</tr>" for cells in out)
    notes = "<br>".join(_html.escape(line) for line in facts(tally))
    return (
        "<div style='color:inherit'>"
        f"<div><b>{_html.escape(title(tally))}</b></div>"
        f"<table style='border-collapse:collapse;color:inherit;margin:.4em 0'>{body}</table>"
        f"<div>{notes}</div></div>"
    )


def _cell(text: str, tag: str) -> str:
    style = _CELL if tag == "td" else _CELL + ";font-weight:600"
    return f"<{tag} style='{style}'>{_html.escape(text)}</{tag}>"
