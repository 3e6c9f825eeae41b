"""What a forward pass keeps for the backward one: autograd's tensors beside o and lse."""

from dataclasses import dataclass

from flashlab import hardware
from flashlab.viz import chart
from flashlab.viz.explorer import Control, Explorer
from flashlab.viz.memory_ladder import amount
from flashlab.viz.picture import Picture, svg
from flashlab.worked.plain import FORMS

FP16, FP32, BOOL = 2, 4, 1


@dataclass(frozen=True)
class Kept:
    """Bytes between the passes beside q, k and v, by tensor."""

    autograd: dict[str, int]
    recompute: dict[str, int]

    @property
    def totals(self) -> tuple[int, int]:
        """Of autograd, and of recomputation."""
        return sum(self.autograd.values()), sum(self.recompute.values())


def kept(N: int, D: int, heads: int, form: str = "plain", layers: int = 1) -> Kept:
    """What ``worked.plain.plain_attention`` leaves with autograd, and what FlashAttention does.

    Args:
        N, D: Sequence length and head dimension.
        heads: Heads of a layer times sequences of a batch.
        form: One of ``worked.plain.FORMS``.
        layers: Each keeps its own until its turn in the backward pass.
    """
    matrix = layers * heads * N * N
    mask = {"mask": layers * N * N * BOOL}  # one for all heads
    autograd = {**(mask if form != "plain" else {}), "p": matrix * FP16}
    if form == "causal, dropout":
        autograd |= {"dropout's mask": matrix * BOOL, "p after dropout": matrix * FP16}
    rows = layers * heads * N
    return Kept(autograd, {"o": rows * D * FP16, "lse": rows * FP32})


def longest(memory: float, which: int, **sizes) -> int:
    """The longest N whose bytes fit into ``memory``; ``which`` 0: autograd, 1: recomputation."""
    low, high = 0, 1 << 40
    while high - low > 1:
        middle = (low + high) // 2
        fits = kept(middle, **sizes).totals[which] <= memory
        low, high = (middle, high) if fits else (low, middle)
    return low


UNITS = ("byte", "KB", "MB", "GB", "TB", "PB")
WIDTH, HEIGHT = 720, 400
CURVES = (("autograd", "orange", "circle"), ("recomputation", "blue", "diamond"))


def picture(N: int, D: int, heads: int, layers: int, form: str, gpu: str) -> Picture:
    """Both curves over N, the chosen N on them, and the GPU's memory as a line."""
    card, sizes = hardware.GPUS[gpu], {"D": D, "heads": heads, "form": form, "layers": layers}
    now, memory = kept(N, **sizes), card.memory_gb * 1e9
    x, y = chart.LogAxis(2, 6, 70, WIDTH - 130), chart.LogAxis(4, 16, HEIGHT - 56, 34)
    parts = [
        _grid(x, y),
        chart.line(x.start, y.at(memory), x.end, y.at(memory), "ink", 'stroke-dasharray="6 4"'),
        chart.text(x.start + 8, y.at(memory) - 7, f"{card.name}: {amount(memory)}", size=12),
    ]
    for which, (name, colour, shape) in enumerate(CURVES):
        parts.append(_curve(x, y, which, colour, sizes))
        at = x.at(N), y.at(now.totals[which])
        parts.append(chart.mark(*at, shape, colour))
        end = y.at(kept(10**x.high, **sizes).totals[which])
        parts.append(chart.text(x.end + 8, max(end, y.end) + 4, name))
    plain, flash = now.totals
    fits = [longest(memory, which, **sizes) for which in (0, 1)]
    caption = (
        f"At N = {N:,} autograd keeps {amount(plain)}, recomputation {amount(flash)}: "
        f"{plain / flash:,.1f} times less. If nothing else lay in its memory, the GPU would hold "
        f"what autograd keeps up to N = {fits[0]:,}, and o and lse up to N = {fits[1]:,}."
    )
    rows = [("kept by", "tensor", "bytes", "size")]
    for (name, _, _), tensors in zip(CURVES, (now.autograd, now.recompute), strict=True):
        rows += [(name, tensor, f"{size:,}", amount(size)) for tensor, size in tensors.items()]
    title = "Kept from the forward pass for the backward pass, fp16"
    alt = f"Two curves over the sequence length, log scales. {caption}"
    return Picture(title, svg(WIDTH, HEIGHT, alt, "".join(parts)), caption, rows)


def _grid(x: chart.LogAxis, y: chart.LogAxis) -> str:
    """Lines at powers of ten, sizes named at every third."""
    parts = [chart.text((x.start + x.end) / 2, y.start + 38, "sequence length N", "middle")]
    for value in x.ticks:
        at = x.at(value)
        parts.append(chart.line(at, y.start, at, y.end, extra='stroke-opacity="0.6"'))
        parts.append(chart.text(at, y.start + 18, chart.short(value), "middle", 12, "soft"))
    for power, value in enumerate(y.ticks, y.low):
        at = y.at(value)
        parts.append(chart.line(x.start, at, x.end, at, extra='stroke-opacity="0.6"'))
        if power % 3 == 0:
            unit = UNITS[power // 3]
            parts.append(chart.text(x.start - 6, at + 4, f"1 {unit}", "end", 12, "soft"))
    parts.append(chart.text(x.start - 60, y.end - 12, "kept, beside q, k and v"))
    return "".join(parts)


def _curve(x: chart.LogAxis, y: chart.LogAxis, which: int, colour: str, sizes: dict) -> str:
    """A line through what is kept at each power of two that lies inside both axes."""
    lengths = [2**n for n in range(7, 20)] + [10**x.low, 10**x.high]
    points = sorted((N, kept(N, **sizes).totals[which]) for N in lengths)
    inside = [(N, size) for N, size in points if 10**y.low <= size <= 10**y.high]
    places = " ".join(f"{x.at(N):.1f},{y.at(size):.1f}" for N, size in inside)
    look = f"fill:none;stroke:var(--fl-{colour});stroke-width:3"
    return f'<polyline points="{places}" style="{look}"/>'


def kept_memory() -> Explorer:
    """What autograd keeps beside what recomputation keeps, over N, D, heads, layers and form."""
    lengths = [512, 1024, 2048, 4096, 8192, 16384, 65536, 262144]
    return Explorer(
        "What the forward pass keeps",
        picture,
        (
            Control("N", "sequence length N", lengths, 8192, "{:,}".format),
            Control("D", "head dimension D", [32, 64, 128, 256], 128),
            Control("heads", "heads x sequences", [1, 16, 64, 256], 64),
            Control("layers", "layers", [1, 6, 12, 24], 24),
            Control("form", "form", list(FORMS), "plain", lambda form: form.split(", ")[-1]),
            Control("gpu", "GPU", ["T4", "RTX-4090", "A100-80", "H200"], "A100-80"),
        ),
    )
