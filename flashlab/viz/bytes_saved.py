"""What fused kernels, smaller caches, pages and drafts save, in bytes, for one model."""

from dataclasses import dataclass
from math import ceil

from flashlab import hardware
from flashlab.iocount import bounds
from flashlab.viz import chart
from flashlab.viz.explorer import Control, Explorer
from flashlab.viz.l2_reuse import reuse
from flashlab.viz.memory_ladder import amount
from flashlab.viz.picture import Picture, svg

FP16, FP32 = 2, 4
LAYERS, H, D, WEIGHTS = 32, 32, 128, 8.03e9 * FP16  # Llama 3 8B: arXiv:2407.21783, table 3
PAGE, DRAFT = 16, 0.1  # keys of a page; weights of a draft model as a share
LENGTHS = (0.04, 0.49, 0.15, 0.09, 0.31, 0.11)  # of six answers, as shares of the room for each


@dataclass(frozen=True)
class Saving:
    """A trick, what it makes smaller, and the bytes before and after."""

    trick: str
    of: str
    before: float
    after: float

    @property
    def factor(self) -> float:
        """Times fewer bytes."""
        return self.before / self.after


def cache(key_heads: int, tokens: int, row: int = D * FP16) -> int:
    """Bytes of keys and values of all layers; ``row`` is one key of one head."""
    return 2 * LAYERS * key_heads * tokens * row


def savings(N: int, H_kv: int, drafts: int, right: float) -> list[Saving]:
    """Five tricks; the first one as its programs ask, and as DRAM sees it.

    Args:
        N: Tokens of the context, and the longest answer that is allowed.
        H_kv: Key heads of the model with grouped heads.
        drafts: Tokens that a draft model proposes in a round.
        right: Probability that a proposal is right, independent of the others.
    """
    h200, size = hardware.GPUS["H200"], (1, H, N, N, D)
    standard = bounds.total_bytes(bounds.standard_forward_bytes(*size, FP16))
    asked = bounds.total_bytes(bounds.flash_forward_bytes(*size, 128, 128, FP16))
    read = reuse(N, D, H, h200.sms, h200.l2_mb * 2**20).dram
    paged = sum(PAGE * ceil(share * N / PAGE) for share in LENGTHS)
    step = WEIGHTS + cache(H_kv, N)  # one token reads all of it
    tokens = sum(right**k for k in range(drafts + 1))  # (1 - right^(drafts+1)) / (1 - right)
    return [
        Saving("fused kernel", "a layer's prefill, asked for", standard, asked),
        Saving("fused kernel", "a layer's prefill, DRAM", standard, read + H * N * D * FP16),
        Saving("grouped heads", "cache", cache(H, N), cache(H_kv, N)),
        Saving("quantised cache", "cache", cache(H_kv, N), cache(H_kv, N, D + FP32)),
        Saving("pages", "room for six", cache(H_kv, N * len(LENGTHS)), cache(H_kv, paged)),
        Saving("speculative", "a token", step, (step + drafts * DRAFT * WEIGHTS) / tokens),
    ]


WIDTH, LEFT, BAR, ROW = 720, 130, 12, 40


def picture(N: int, H_kv: int, drafts: int, right: float) -> Picture:
    """A pair of bars for each line, on a logarithmic scale."""
    found = savings(N, H_kv, drafts, right)
    low, high = 7, 14
    axis, parts = chart.LogAxis(low, high, LEFT, WIDTH - 150), []
    for number, s in enumerate(found):
        y = 8 + number * ROW
        parts.append(chart.text(LEFT - 8, y + 17, s.trick, "end"))
        for drop, size, fill in ((0, s.before, "orange"), (BAR + 1, s.after, "blue")):
            parts.append(chart.rect(LEFT, y + drop, axis.at(size) - LEFT, BAR, fill))
        x = axis.at(max(s.before, s.after)) + 8
        parts.append(chart.text(x, y + 17, f"{s.of}: {s.factor:.1f} x", size=12))
    y = 8 + len(found) * ROW
    words = "orange before, blue after; logarithmic scale"
    parts.append(chart.text(LEFT, y + 10, words, size=12, ink="soft"))
    share = cache(H_kv, N) / (cache(H_kv, N) + WEIGHTS)
    caption = (
        f"With {N:,} tokens of context the cache is {100 * share:.1f} % of the bytes of a step, "
        "the rest is weights."
    )
    rows = [("trick", "what", "before", "after", "saves")]
    rows += [
        (s.trick, s.of, amount(s.before), amount(s.after), f"{s.factor:.1f} times fewer bytes")
        for s in found
    ]
    alt = f"Pairs of bars: bytes before and after each trick. {caption}"
    title = f"Llama 3 8B's shapes, {N:,} tokens, {H_kv} key heads, {drafts} proposals"
    return Picture(title, svg(WIDTH, y + 20, alt, "".join(parts)), caption, rows)


def savings_explorer() -> Explorer:
    """A context, key heads, and a draft model."""
    return Explorer(
        "Bytes saved",
        picture,
        (
            Control("N", "context N", [1024, 8192, 32768, 131072], 8192, "{:,}".format),
            Control("H_kv", "key heads H_kv", [1, 4, 8, 32], 8),
            Control("drafts", "proposals of a draft", [1, 2, 4, 8], 4),
            Control("right", "each right with", [0.2, 0.5, 0.8, 0.95], 0.8, "{:g}".format),
        ),
    )
