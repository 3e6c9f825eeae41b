"""Whether an executed chapter shows its claims, and whether the numbers that it shows agree."""

import html
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from flashlab.claims.claim import Claim, Value

TAG = "claim:"
_NUMBER = r"(?<![\w.])(-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?)"


def faults(
    chapter: str, cells: Iterable[Mapping[str, Any]], claims: Iterable[Claim]
) -> Iterator[str]:
    """One sentence for each claim that the cells of an executed notebook do not show.

    Args:
        chapter: Such as ``"04"``.
        cells: Cells of nbformat 4, with outputs.
        claims: Those of the chapter.
    """
    wanted = {claim.id: claim for claim in claims}
    tagged: dict[str, list[Mapping[str, Any]]] = {}
    for cell in cells:
        for tag in cell["metadata"].get("tags", []):
            if tag.startswith(TAG):
                tagged.setdefault(tag.removeprefix(TAG), []).append(cell)
    for stray in sorted(set(tagged) - set(wanted)):
        yield f"chapter {chapter} has a cell with {TAG}{stray}, which is no claim of it"
    for claim in wanted.values():
        kinds = ("code",) if claim.live else ("code", "markdown")
        texts = [said(c) for c in tagged.get(claim.id, []) if c["cell_type"] in kinds]
        if not any(text.strip() for text in texts):
            yield f"chapter {chapter} has no {kinds[0]} cell {TAG}{claim.id} that shows something"
            continue
        for value in claim.values:
            if value.chapter in ("", chapter):
                yield from _disagrees(f"{chapter}, {claim.id}", value, "\n".join(texts))


def _disagrees(where: str, value: Value, text: str) -> Iterator[str]:
    found = numbers(text, value.unit)
    if not any(map(value.agrees, found)):
        shown = ", ".join(f"{number:g}" for number in found) or "none"
        yield f"{where}: {value.number:g} {value.unit} is claimed, and shown is {shown}"


def numbers(text: str, unit: str) -> list[float]:
    """Every number in ``text`` that stands right before ``unit``."""
    found = re.findall(rf"{_NUMBER}\s?{re.escape(unit)}(?!\w)", " ".join(text.split()))
    return [float(number.replace(",", "")) for number in found]


def said(cell: Mapping[str, Any]) -> str:
    """What a cell tells its reader: a code cell's outputs as text, a Markdown cell's own text."""
    if cell["cell_type"] == "markdown":
        return "".join(cell["source"])
    parts = []
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        parts += ["".join(output.get("text", "")), "".join(data.get("text/plain", ""))]
        page = re.sub(
            r"<(style|script)\b.*?</\1>", " ", "".join(data.get("text/html", "")), flags=re.S
        )
        parts.append(html.unescape(re.sub(r"<[^>]+>", " ", page)))
    return "\n".join(parts)
