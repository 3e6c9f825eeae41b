"""Communication against computation in a round of a ring: which of the two takes longer."""

from dataclasses import dataclass

from flashlab import hardware
from flashlab.viz import chart
from flashlab.viz.explorer import Control, Explorer
from flashlab.viz.picture import Picture, svg

H, D, BYTES, FP32 = 32, 128, 2, 4
PASSES = ("forward", "backward")
MASKS = ("none", "causal zigzag")


@dataclass(frozen=True)
class Link:
    """What connects two GPUs.

    Args:
        gpu: Of ``hardware.GPUS``.
        gbs: GB/s in one direction.
        source: Where the figure was read.
    """

    gpu: str
    gbs: float
    source: str


PAPER = "Liu et al. 2023 (arXiv:2310.01889), minimal sequence lengths"
LINKS = {
    "A100, NVLink": Link("A100-80", 300.0, PAPER),
    "A100, InfiniBand": Link("A100-80", 12.5, PAPER),
    "H200, NVLink": Link("H200", 450.0, "NVIDIA H200 data sheet: 900 GB/s, both directions"),
    "H200, 400 Gb/s": Link("H200", 50.0, "400 Gb/s / 8"),
}


@dataclass(frozen=True)
class Round:
    """Seconds of one round of one layer.

    Args:
        compute: Attention over one block, all heads.
        message: One block of keys and values; backward its fp32 gradient too.
        least: Tokens a rank from which on the message is hidden.
    """

    compute: float
    message: float
    least: float

    @property
    def exposed(self) -> float:
        """What is left of the message when both run at the same time."""
        return max(0.0, self.message - self.compute)


def a_round(
    link: Link,
    tokens: int,
    H_kv: int = H,
    mask: str = "none",
    direction: str = "forward",
    reached: float = 1.0,
) -> Round:
    """A block of ``tokens`` queries meets a block of as many keys.

    compute = 4 H D c^2 / (F reached), half of it under a causal zigzag, 2.5 times backward;
    message = 2 H_kv D c bytes / B, three times as much backward (fp32 gradients beside 2 bytes).

    Args:
        link: GPU and rate.
        tokens: c, on each rank.
        H_kv: Key heads, of H query heads.
        mask, direction: Of MASKS, of PASSES.
        reached: Of the GPU's peak, by the kernel.
    """
    peak = hardware.GPUS[link.gpu].peak() * reached
    flops = 4 * H * D * tokens**2 * (0.5 if mask != "none" else 1.0)
    nbytes = 2 * H_kv * D * tokens * BYTES
    if direction == "backward":
        flops, nbytes = 2.5 * flops, nbytes * (BYTES + FP32) / BYTES
    compute, message = flops / peak, nbytes / (link.gbs * 1e9)
    return Round(compute, message, tokens * message / compute)


WIDTH, LEFT, RIGHT, HIGH = 720, 90, 110, 26


def picture(
    link: str, tokens: int, H_kv: int, mask: str, direction: str, reached: float
) -> Picture:
    """Both times of a round, one under the other."""
    found = a_round(LINKS[link], tokens, H_kv, mask, direction, reached)
    longest = max(found.compute, found.message)
    scale = (WIDTH - LEFT - RIGHT) / longest
    parts = []
    for row, (name, seconds, fill) in enumerate(
        (("compute", found.compute, "blue"), ("message", found.message, "orange"))
    ):
        y = 10 + row * (HIGH + 10)
        parts.append(chart.text(LEFT - 8, y + 18, name, "end", 13))
        parts.append(chart.rect(LEFT, y, seconds * scale, HIGH, fill))
        parts.append(chart.text(LEFT + seconds * scale + 8, y + 18, _time(seconds), size=13))
    said = (
        "The message is hidden behind the computation."
        if not found.exposed
        else (
            f"{_time(found.exposed)} of the message are not hidden: "
            f"{100 * found.compute / longest:.0f} % of the round is computing."
        )
    )
    said += f" It is hidden from {found.least:,.0f} tokens a rank on."
    rows = [
        ("what", "how much"),
        ("computing a round", _time(found.compute)),
        ("its message", _time(found.message)),
        ("not hidden", _time(found.exposed)),
        ("tokens a rank to hide it", f"{found.least:,.0f}"),
        ("link, one direction", f"{LINKS[link].gbs:g} GB/s"),
    ]
    alt = f"Two bars, compute and message. {said}"
    title = f"{link}: a round of {tokens:,} tokens a rank, {direction}, mask: {mask}"
    return Picture(title, svg(WIDTH, 84, alt, "".join(parts)), said, rows)


def _time(seconds: float) -> str:
    return f"{1e3 * seconds:.2f} ms" if seconds >= 1e-3 else f"{1e6 * seconds:.1f} us"


def link_explorer() -> Explorer:
    """Card and link, tokens, key heads, mask, pass, and what the kernel reaches."""
    return Explorer(
        "Communication against computation",
        picture,
        (
            Control("link", "GPU and link", tuple(LINKS), "A100, NVLink"),
            Control(
                "tokens", "tokens a rank", [512, 1024, 4096, 16384, 65536], 1024, "{:,}".format
            ),
            Control("H_kv", f"key heads of {H}", [32, 8, 1], 32),
            Control("mask", "mask", MASKS, "none"),
            Control("direction", "pass", PASSES, "forward"),
            Control("reached", "part of the peak reached", [1.0, 0.5], 1.0, "{:.0%}".format),
        ),
    )
