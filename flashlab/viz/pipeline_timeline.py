"""Who keeps which unit of an SM busy when: a schedule's first tiles, and what it comes to."""

from collections.abc import Callable
from dataclasses import dataclass

from flashlab.pipeline import Timeline, hopper, simulate
from flashlab.reference import schedules
from flashlab.viz import chart
from flashlab.viz.explorer import Control, Explorer
from flashlab.viz.picture import Picture, svg

LANES = {
    "tma": "loads (TMA)",
    "tensor": "tensor cores",
    "exp": "exponentials",
    "alu": "other arithmetic",
}
INKS = ("blue", "orange", "green")
SHORT = {"load K": "K", "load V": "V", "Q K": "QK", "P V": "PV", "softmax": "", "rescale": ""}
WIDTH, LEFT, TOP, ROW, GAP = 760, 120, 30, 18, 10
BLOCK_N = {64: 128, 128: 128, 256: 64}
TILES, SHOWN = 16, 4  # simulated, drawn


@dataclass(frozen=True)
class Pace:
    """What a schedule comes to in steady state.

    Args:
        timeline: The whole run.
        clocks: A tile, of every warpgroup.
        use: Part of these clocks in which the tensor cores work.
        tflops: At the clock that products reach.
    """

    timeline: Timeline
    clocks: float
    use: float
    tflops: float


def pace(
    producer: Callable | None,
    consumer: Callable,
    *,
    D: int = 128,
    stages: int = 2,
    arbitration: str = "one at a time",
) -> Pace:
    """Simulate 16 tiles on an H100's SM with three warpgroups at D 64, else two."""
    machine = hopper.machine(D, BLOCK_N[D], consumers=3 if D == 64 else 2, arbitration=arbitration)
    timeline = simulate(producer, consumer, machine, n_tiles=TILES, stages=stages)
    clocks = timeline.period()
    use = machine.consumers * (machine.qk + machine.pv) / clocks
    peak = hopper.GPU.peak() / 1e12 * hopper.REACHED
    return Pace(timeline, clocks, use, use * peak)


def _row(who: str) -> int:
    return 0 if who == "producer" else int(who)


def _draw(timeline: Timeline, end: float) -> tuple[str, int]:
    """Bars of the first ``end`` clocks, a row a warpgroup in each lane; and the height."""
    rows = len(timeline.tiles)
    scale = (WIDTH - LEFT - 12) / end
    parts, y = [], TOP
    for unit, name in LANES.items():
        count = 1 if unit == "tma" else rows
        parts.append(chart.rect(LEFT, y, WIDTH - LEFT - 12, count * ROW, "panel"))
        parts.append(chart.text(LEFT - 8, y + count * ROW / 2 + 4, name, "end"))
        for span in timeline.spans:
            if span.unit == unit and span.start < end:
                parts.append(_bar(span, y, scale, end))
        y += count * ROW + GAP
    x = LEFT
    for w in range(rows):
        parts.append(chart.rect(x, y, 14, 14, INKS[w % len(INKS)]))
        parts.append(chart.text(x + 20, y + 12, f"warpgroup {w}", size=12))
        x += 120
    parts.append(chart.text(x, y + 12, "tensor cores: Q K full, P V pale", size=12, ink="soft"))
    for part in range(5):
        at, clock = LEFT + part * (WIDTH - LEFT - 12) / 4, part * end / 4
        anchor = "end" if part == 4 else "middle" if part else "start"
        words = f"{clock:,.0f} clocks" if part == 4 else f"{clock:,.0f}"
        parts.append(chart.text(at, TOP - 10, words, anchor, 12, "soft"))
    return "".join(parts), y + 24


def _bar(span, y: float, scale: float, end: float) -> str:
    row = 0 if span.unit == "tma" else _row(span.who)
    ink = "soft" if span.unit == "tma" else INKS[row % len(INKS)]
    x, width = LEFT + span.start * scale, (min(span.end, end) - span.start) * scale
    edge = 'stroke="var(--fl-paper)" stroke-width="1"'
    if span.what == "P V":
        edge += ' fill-opacity="0.3"'
    parts = chart.rect(x, y + row * ROW + 1, width, ROW - 2, ink, edge)
    text_ink = "ink" if span.what == "P V" else "paper"
    label = SHORT[span.what] and (f"{SHORT[span.what]}{span.tile}" if width > 24 else span.tile)
    if label != "" and width > 12:
        at = y + row * ROW + ROW / 2 + 4
        parts += chart.text(x + width / 2, at, str(label), "middle", 11, text_ink)
    return parts


def picture(found: Pace, title: str) -> Picture:
    """A schedule's first tiles, with its pace in words and a table of what is how busy."""
    timeline = found.timeline
    end = min(timeline.cycles, (SHOWN + 1) * found.clocks)
    body, height = _draw(timeline, end)
    caption = (
        f"A tile takes {found.clocks:,.0f} clocks in steady state. The tensor cores work for "
        f"{100 * found.use:.0f} % of them: {found.tflops:,.0f} TFLOP/s on an H100 in this model."
    )
    rows = [("unit", "busy, whole run")]
    rows += [(name, f"{100 * timeline.busy(unit):.0f} %") for unit, name in LANES.items()]
    alt = f"Time runs to the right; a lane for each unit, a row for each warpgroup. {caption}"
    return Picture(title, svg(WIDTH, height, alt, body), caption, rows)


def schedule(
    producer: Callable | None,
    consumer: Callable,
    *,
    D: int = 128,
    stages: int = 2,
    arbitration: str = "one at a time",
    title: str = "A schedule on one SM",
) -> Picture:
    """The picture of programs written for ``flashlab.pipeline``.

    Raises:
        PipelineError: they are not safe or do not end.
    """
    return picture(pace(producer, consumer, D=D, stages=stages, arbitration=arbitration), title)


def _choice(stages: int, turns: bool, overlap: bool, D: int, arbitration: str) -> Picture:
    consumer = {
        (False, False): schedules.one_after_the_other,
        (True, False): schedules.in_turns,
        (False, True): schedules.overlapped,
        (True, True): schedules.overlapped_in_turns,
    }[turns, overlap]
    return schedule(
        schedules.producer,
        consumer,
        D=D,
        stages=stages,
        arbitration=arbitration,
        title=f"One SM at D {D}: {stages} slots, {'turns' if turns else 'no turns'}, P V "
        f"{'under' if overlap else 'before'} softmax, products {arbitration}",
    )


def pipeline() -> Explorer:
    """Slots, ping-pong and overlap within a warpgroup: what each does to the timeline."""
    yes = {True: "yes", False: "no"}
    return Explorer(
        "Producer and consumers on one SM",
        _choice,
        (
            Control("stages", "slots for K and for V", [1, 2, 3, 4], 2),
            Control("turns", "warpgroups take turns", [False, True], False, yes.get),
            Control("overlap", "P V under softmax", [False, True], False, yes.get),
            Control("D", "head dimension D", [64, 128, 256], 128),
            Control(
                "arbitration",
                "tensor cores work",
                ["one at a time", "interleaved"],
                "one at a time",
            ),
        ),
    )
