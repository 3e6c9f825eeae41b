"""What a training step keeps of attention, and from which length on a card has no room for it."""

from dataclasses import dataclass

from flashlab import hardware
from flashlab.capstone.gpt import GPT2_MEDIUM, Size
from flashlab.viz import chart
from flashlab.viz.explorer import Control, Explorer
from flashlab.viz.picture import Picture, svg

WIDTH, LEFT, BAR = 720, 200, 26
LENGTHS = tuple(1 << n for n in range(9, 18))
CARDS = ("T4", "RTX-4090", "A100-40", "A100-80", "H200")


@dataclass(frozen=True)
class Kept:
    """Bytes that attention's layers keep for the backward pass, and what the model needs anyway.

    Args:
        states: Weights, gradients and both of AdamW's means, fp32.
        standard: Weights of attention, [B, H, N, N], and a mask [N, N] of a byte an element.
        flash: lse, one fp32 number a row.
    """

    states: int
    standard: int
    flash: int


def kept(size: Size, B: int, N: int, itemsize: int = 2) -> Kept:
    """What B sequences of N tokens keep; q, k, v and o, which both keep, are left out."""
    params = size.layers * (12 * size.width**2 + 13 * size.width)
    params += (size.vocabulary + size.longest + 2) * size.width
    pairs, rows = B * size.heads * N * N, B * size.heads * N
    return Kept(
        states=16 * params,
        standard=size.layers * (itemsize * pairs + N * N),
        flash=4 * size.layers * rows,
    )


def longest(size: Size, card_bytes: float, kind: str) -> int:
    """The largest N of ``LENGTHS`` at which one sequence fits beside the states; 0: none does."""
    fitting = [
        N
        for N in LENGTHS
        if (found := kept(size, 1, N)).states + getattr(found, kind) <= card_bytes
    ]
    return max(fitting, default=0)


def picture(N: int, card: str) -> Picture:
    """Both kinds at one length, against the memory of one card."""
    gpu, found = hardware.GPUS[card], kept(GPT2_MEDIUM, 1, N)
    room = gpu.memory_gb * 1e9
    scale = (WIDTH - LEFT - 130) / (1.5 * room)
    parts, y, rows = [], 30, [("one sequence", "states, GB", "attention, GB", "fits")]
    for words, amount, ink in (
        ("standard attention", found.standard, "orange"),
        ("flash attention", found.flash, "blue"),
    ):
        total, states = found.states + amount, found.states * scale
        width = min(amount * scale, (WIDTH - LEFT - 20) - states)
        parts += [
            chart.text(LEFT - 8, y + 17, words, "end"),
            chart.rect(LEFT, y, states, BAR, "sky"),
            chart.rect(LEFT + states, y, max(width, 1.5), BAR, ink),
        ]
        if total > 1.5 * room:
            parts.append(chart.text(WIDTH - 22, y + 17, "and more", "end", 12, "paper"))
        fits = "yes" if total <= room else "no"
        rows.append((words, f"{found.states / 1e9:.1f}", f"{amount / 1e9:,.3f}", fits))
        y += BAR + 10
    x = LEFT + room * scale
    parts.append(chart.line(x, 22, x, y, "ink", 'stroke-width="2"'))
    parts.append(chart.text(x, 16, f"{gpu.name}: {gpu.memory_gb:g} GB", "middle"))
    ends = [longest(GPT2_MEDIUM, room, kind) for kind in ("standard", "flash")]
    told = [f"up to N = {end:,}" if end else "at no length here" for end in ends]
    caption = (
        f"GPT-2 medium's shape, one sequence of {N:,} tokens, on {gpu.name}. Of these lengths "
        f"standard attention fits {told[0]}, flash attention {told[1]}. All other activations "
        "come on top of both."
    )
    drawing = svg(WIDTH, y + 4, f"Bars of memory. {caption}", "".join(parts))
    return Picture("What attention keeps for the backward pass", drawing, caption, rows)


def fits() -> Explorer:
    """Length and card; who fits."""
    return Explorer(
        "Does it fit?",
        picture,
        (
            Control("N", "tokens", LENGTHS, 8192, lambda n: f"{n:,}"),
            Control("card", "card", CARDS, "A100-80", lambda c: hardware.GPUS[c].name),
        ),
    )
