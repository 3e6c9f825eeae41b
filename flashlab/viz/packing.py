"""A batch of sequences, padded to the longest and packed one behind the other."""

import itertools
from dataclasses import dataclass

from flashlab.viz import chart
from flashlab.viz.explorer import Control, Explorer
from flashlab.viz.picture import Picture, svg

BATCHES = {
    "short": (5, 1, 6),
    "all alike": (1024, 1024, 1024, 1024, 1024, 1024),
    "mixed": (4096, 512, 1500, 3000, 900, 2200),
    "one long": (4096, 256, 128, 300, 64, 200),
    "one empty": (700, 0, 350, 1400),
}


@dataclass(frozen=True)
class Pack:
    """Tokens and scores of a batch.

    Args:
        ends: cu_seqlens, [S + 1] from 0.
        padded_tokens: S times the longest.
        scores, padded_scores: Entries of all N x N matrices; a causal mask halves both alike.
    """

    ends: tuple[int, ...]
    padded_tokens: int
    scores: int
    padded_scores: int

    @property
    def tokens(self) -> int:
        """Of the pack."""
        return self.ends[-1]


def pack(lengths: tuple[int, ...]) -> Pack:
    """What padding adds to sequences of these lengths (one key for each query)."""
    longest, many = max(lengths), len(lengths)
    return Pack(
        (0, *itertools.accumulate(lengths)),
        many * longest,
        sum(n * n for n in lengths),
        many * longest**2,
    )


WIDTH, LEFT, BAR = 720, 10, 18
FILLS = ("blue", "sky", "green", "sand", "orange", "grey")


def picture(name: str) -> Picture:
    """The padded batch as rows, the pack as one line with its ends."""
    lengths = BATCHES[name]
    p = pack(lengths)
    scale, parts = (WIDTH - 2 * LEFT) / p.padded_tokens, []
    wide = (WIDTH - 2 * LEFT) / max(lengths)
    parts.append(
        chart.text(LEFT, 18, f"padded: [{len(lengths)}, {max(lengths):,}], outlined: padding")
    )
    for row, length in enumerate(lengths):
        y = 28 + row * (BAR + 3)
        edge = 'fill-opacity="0" stroke-dasharray="4 3"'
        outline = chart.rect(LEFT, y, max(lengths) * wide, BAR, "paper", edge)
        parts.append(outline.replace("fill:", "stroke:var(--fl-soft);fill:"))
        parts.append(chart.rect(LEFT, y, length * wide, BAR, FILLS[row]))
    top = 28 + len(lengths) * (BAR + 3) + 26
    parts.append(
        chart.text(LEFT, top, f"packed: [{p.tokens:,}], on the scale of all places above")
    )
    for row, (first, last) in enumerate(itertools.pairwise(p.ends)):
        x, width = LEFT + first * scale, (last - first) * scale
        parts.append(chart.rect(x, top + 10, width, BAR + 8, FILLS[row]))
    for number, end in enumerate(p.ends):
        x = LEFT + end * scale
        parts.append(chart.line(x, top + 8, x, top + 42, "ink"))
        place = "start" if number == 0 else "end" if number == len(lengths) else "middle"
        crowded = number and (end - p.ends[number - 1]) * scale < 40
        drop = 14 if crowded and number % 2 else 0
        if not number or end > p.ends[number - 1]:  # an empty sequence ends where it begins
            parts.append(chart.text(x, top + 54 + drop, f"{end:,}", place, 11))
    caption = _caption(p)
    rows = [("", "padded", "packed", "padding")]
    for what, padded, packed in (
        ("tokens", p.padded_tokens, p.tokens),
        ("scores", p.padded_scores, p.scores),
    ):
        rows.append((what, f"{padded:,}", f"{packed:,}", f"{100 * (1 - packed / padded):.0f} %"))
    alt = f"Rows of tokens with padding, and the same tokens in one line. {caption}"
    title = f"{name}: {', '.join(f'{n:,}' for n in lengths)} tokens"
    return Picture(title, svg(WIDTH, top + 76, alt, "".join(parts)), caption, rows)


def _caption(p: Pack) -> str:
    if p.tokens == p.padded_tokens:
        waste = "Nothing is padded, so packing saves nothing."
    else:
        waste = (
            f"The padded batch computes {p.padded_scores / p.scores:.1f} times the scores that "
            "anybody needs."
        )
    return f"cu_seqlens = {list(p.ends)}. {waste}"


def packing_explorer() -> Explorer:
    """Batches of different lengths."""
    return Explorer(
        "Padded and packed",
        picture,
        (Control("name", "batch", list(BATCHES), "mixed"),),
    )
