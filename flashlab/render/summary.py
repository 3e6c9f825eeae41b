"""What both forms of a report say: its parts in words and rows, made harmless. Floor: front."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flashlab.errormap import MAX_HEADS, MAX_ROWS, is_pack
from flashlab.exercise import GROUPS
from flashlab.grader.report import CaseResult, Report, Stage, Where
from flashlab.grader.wording import EVIDENCE, MEANINGS, apart, numbers
from flashlab.render.safe import one_line, plain

LEVELS = (1.0, 10.0, 100.0)  # borders of the tile map's shades, in units of the limit
MOST_TILES = 8  # rows of tiles that a screen shows
IO_MEANS = "The budget is what the solution moves at these tile sizes."
PARTS = {"core": "core", "edges": "ragged, causal, hostile", "io": "IO", "resources": "resources"}


@dataclass(frozen=True)
class Moved:
    """Bytes of one tensor: moved against budget, loads and stores; None where no budget is."""

    tensor: str
    loaded: int
    loads_allowed: int | None
    stored: int
    stores_allowed: int | None

    @property
    def over(self) -> bool:
        """Whether more was moved than the budget allows."""
        return self.loaded > (self.loads_allowed or 0) or self.stored > (self.stores_allowed or 0)


def tested(report: Report) -> str:
    """How many runs of which group passed."""
    if not report.cases:
        return "No case counts yet." if report.status == "unfilled" else "No case was run."
    parts = []
    for group in dict.fromkeys((*GROUPS, *(c.group for c in report.cases))):
        runs = [c for c in report.cases if c.group == group]
        if runs:
            passed = sum(c.status == "pass" for c in runs)
            parts.append(f"{group} {passed}/{len(runs)}")
    passed = sum(c.status == "pass" for c in report.cases)
    return f"{passed} of {len(report.cases)} runs passed: {', '.join(parts)}"


def status(report: Report) -> str:
    """What the status of a check that failed means, in one line; empty for a pass."""
    meaning = MEANINGS.get(report.status, "")
    return f"{report.status.replace('_', ' ')}: {meaning}" if meaning else ""


def failed_stages(report: Report) -> list[Stage]:
    """Failed stages that say more than the first line, where no case says what went wrong."""
    if report.first_failure is not None:
        return []
    return [
        s
        for s in report.stages
        if s.status == "fail" and s.detail and s.detail.rstrip(".") not in report.headline
    ]


def cause(report: Report) -> str:
    """The mistake found: what it is, unless the first line says so, and how that is known."""
    says, how, slug = (one_line(report.mistake.get(n, "")) for n in ("says", "confidence", "slug"))
    evidence = EVIDENCE.get(how, "mistake {slug}").format(slug=slug)
    return evidence if says in one_line(report.headline, 600) else f"{says} ({evidence})"


def run_name(case: CaseResult) -> str:
    """Case, tile sizes and whose tile sizes they are."""
    tiles = ", ".join(f"{one_line(n)} {size}" for n, size in case.tiles.items())
    own = " (your own tiles)" if case.own else ""
    return f"{one_line(case.name)}{f' at {tiles}' if tiles else ''}{own}"


def sizes(case: CaseResult) -> str:
    """The call's sizes in one line."""
    shown = []
    for name, value in case.sizes.items():
        if isinstance(value, bool):
            shown += [name] if value else []
        else:
            shown.append(f"{name}={value}")
    return one_line(" ".join(shown))


def broke(case: CaseResult) -> str:
    """What broke first, with its line."""
    detail = one_line(case.detail) or f"status {one_line(case.status)}"
    place = one_line(case.line)
    return detail if not place or place in detail else f"{detail}; {place}"


def where(spot: Where) -> str:
    """Output, heads, rows and worst element."""
    heads = ", ".join("(" + ", ".join(map(str, h)) + ")" for h in spot.heads[:3])
    more = f" and {len(spot.heads) - 3} more" if len(spot.heads) > 3 else ""
    if len(spot.heads) == MAX_HEADS:  # there may be others that were not kept
        more = " and more"
    first, rest = "head", "rows"
    if heads and is_pack(len(spot.index), len(spot.heads[0])):
        first, rest = "token", "heads"
    place = f", {first} {heads}{more}" if heads else ""
    shown = numbers(spot.rows)
    more = " and on" if len(spot.rows) == MAX_ROWS and not shown.endswith("more") else ""
    rows = f", {rest} {shown}{more}" if spot.rows else ""
    expected, got = apart(spot.expected, spot.got)
    worst = f"worst at {spot.index}: expected {expected}, got {got}"
    return f"{one_line(spot.output)}{place}{rows}; {worst}"


def tile_rows(spot: Where) -> list[list[int]]:
    """Shade 0 to 4 of every tile: right, up to 10, up to 100, more limits off; 4 is NaN or inf.

    A map of one column lies on its side, so that it takes one line.
    """
    shades = [[shade(u) for u in row] for row in spot.tile_map]
    if shades and all(len(row) == 1 for row in shades):
        return [[row[0] for row in shades]]
    return shades


def shade(units: float) -> int:
    """Shade of one tile from its worst error in units of the limit."""
    if units != units or units == float("inf"):
        return len(LEVELS) + 1
    return sum(units > level for level in LEVELS)


def io_case(report: Report) -> CaseResult | None:
    """The run whose bytes are shown: the first over its budget, else the largest of the core."""
    counted = [c for c in report.cases if c.io and c.budget]
    over = [c for c in counted if any(row.over for row in io_rows(c))]
    if over:
        return over[0]
    core = [c for c in counted if c.group == "core"] or counted
    return max(core, key=lambda c: sum(map(sum, c.io.values())), default=None)


def io_rows(case: CaseResult) -> list[Moved]:
    """Moved bytes beside their budget, one row a tensor."""
    rows = []
    for name in dict.fromkeys((*case.budget, *case.io)):
        loaded, stored = case.io.get(name, (0, 0))
        loads, stores = case.budget.get(name, (None, None))
        rows.append(Moved(one_line(name, 24), loaded, loads, stored, stores))
    return rows


def points(report: Report) -> str:
    """Points in all and by part."""
    parts = [
        f"{PARTS.get(part, part)} {got:g}/{of:g}"
        for part, (got, of) in report.points_by_part.items()
    ]
    return f"{report.points:g} of 100" + (f": {'; '.join(parts)}" if parts else "")


def file_graded(report: Report) -> str:
    """Path and save time of the text that was graded."""
    if not report.path and report.status == "unfilled":
        return "the stub: there is no file of yours yet"
    if not report.path:
        return "text given to check(), not a file"
    saved = f", saved {one_line(report.saved_at)}" if report.saved_at else ""
    return one_line(report.path) + saved


def resources(report: Report) -> list[str]:
    """A phrase for every fact, with the architectures that it holds for: fits, or what failed."""
    found: dict[str, list[str]] = {}
    for row in report.resources:
        arch = one_line(row.get("arch", "?"), 24)
        name = arch if arch.startswith("sm_") else f"sm_{arch}"
        found.setdefault(_resource(row), []).append(name)
    return [f"{', '.join(names)}: {fact}" for fact, names in found.items()]


def _resource(row: dict[str, Any]) -> str:
    if row.get("error"):
        return one_line(row["error"], 160)
    shared = row.get("shared", row.get("shared_bytes"))
    fact = "compiles" if shared is None else f"{shared / 1024:.0f} KiB shared"
    spills = row.get("spills", row.get("spill_bytes"))
    return fact + (f", spills {spills} B" if spills else "")


def last_lines(text: str, most: int, longest: int = 120) -> Sequence[str]:
    """The last lines of what was printed or of a traceback, each cut to a length."""
    lines = plain(text).rstrip().splitlines()[-most:]
    return [line if len(line) <= longest else f"{line[: longest - 4]} ..." for line in lines]
