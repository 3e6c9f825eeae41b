"""A still picture with the same facts in words: SVG, a sentence, a table. Shows itself."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

from flashlab.viz import palette

SCOPE = ".flashlab-picture"
SENTENCE, _LONG = 32, ' class="fl-long"'  # columns with a longer cell may break lines
_RULES = """
{r}{{margin:4px 0;max-width:760px;font:14px/1.5 system-ui,sans-serif;color:var(--fl-ink)}}
{r} svg{{display:block;width:100%;height:auto}}
{r} svg text{{font-family:system-ui,sans-serif}}
{r} .fl-title{{font-weight:600;margin:2px 0}}
{r} figcaption{{margin:4px 0 8px;color:var(--fl-ink);white-space:normal}}
{r} table{{border-collapse:collapse;font-size:13px;color:var(--fl-ink);margin:0}}
{r} table th,{r} table td{{text-align:right;padding:3px 12px 3px 0;border:0;background:none;
border-top:1px solid var(--fl-line);font-variant-numeric:tabular-nums;white-space:nowrap}}
{r} table th:first-child,{r} table td:first-child{{text-align:left}}
{r} table .fl-long{{white-space:normal;text-align:left}}
{r} table tr{{background:none}}
{r} th{{color:var(--fl-soft);font-weight:600}}
"""


@dataclass(frozen=True)
class Picture:
    """A drawing and the same facts without it.

    Args:
        title: One line.
        svg: An ``<svg viewBox=... role="img" aria-label=...>`` in colours ``var(--fl-...)``.
        caption: What there is to see, in one or two sentences.
        rows: The numbers as a table, its heading first.
    """

    title: str
    svg: str
    caption: str
    rows: Sequence[Sequence[str]] = field(default=())

    def __post_init__(self) -> None:
        if not re.match(r'<svg [^>]*role="img"[^>]*aria-label="[^"]+"', self.svg):
            raise ValueError(f"the drawing of {self.title!r} needs role and aria-label: use svg()")

    def figure(self) -> str:
        """The picture as HTML; needs ``style()`` once on its page."""
        body = ""
        wide = {at for row in self.rows for at, cell in enumerate(row) if len(cell) > SENTENCE}
        for number, row in enumerate(self.rows):
            kind = "td" if number else "th"
            cells = "".join(
                f"<{kind}{_LONG if at in wide else ''}>{escape(cell)}</{kind}>"
                for at, cell in enumerate(row)
            )
            body += f"<tr>{cells}</tr>"
        table = f"<table>{body}</table>" if body else ""
        return (
            f'<figure class="flashlab-picture"><div class="fl-title">{escape(self.title)}</div>'
            f"{self.svg}<figcaption>{escape(self.caption)}</figcaption>{table}</figure>"
        )

    def _repr_html_(self) -> str:
        return style() + self.figure()

    def __repr__(self) -> str:
        widths = [max(map(len, column)) for column in zip(*self.rows, strict=True)]
        lines = [
            "  ".join(
                cell.ljust(width) if at == 0 else cell.rjust(width)
                for at, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in self.rows
        ]
        return "\n".join([self.title, *lines, self.caption])


def style() -> str:
    """The pictures' ``<style>``; safe to repeat."""
    return f"<style>{palette.inline(SCOPE)}{_RULES.format(r=SCOPE * 2)}</style>"


def svg(width: float, height: float, alt: str, body: str) -> str:
    """A drawing of that size in its own units, with what it shows in a sentence."""
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(alt)}" '
        f'xmlns="http://www.w3.org/2000/svg">{body}</svg>'
    )
