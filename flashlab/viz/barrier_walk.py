"""A ring of slots between a producer and a consumer: barriers, their phases, and who waits."""

from collections.abc import Iterator
from dataclasses import dataclass

from flashlab.pipeline.phases import Phases
from flashlab.reference.schedules import ring
from flashlab.viz import chart
from flashlab.viz.player import Frame, Player

FLIGHT, WORK = 2, 5  # rounds of one load, and of one tile's products and softmax
Op = tuple[str, str, int, int]  # what, "full" or "empty" or "", slot, phase or tile


@dataclass(frozen=True)
class Step:
    """What just happened, and what stands where after it.

    Args:
        who: ``"producer"``, ``"TMA"``, ``"consumer"``; empty at the start.
        slot: Which slot it was about; -1 at the start.
        said: One or two sentences.
        tiles: What each slot holds, None for nothing.
        states: ``"empty"``, ``"on its way"``, ``"full"`` or ``"in use"``, by slot.
        full, empty: Completed phases of both barriers of each slot.
        waiting: Who waits now, and for what.
    """

    who: str
    slot: int
    said: str
    tiles: tuple[int | None, ...]
    states: tuple[str, ...]
    full: tuple[int, ...]
    empty: tuple[int, ...]
    waiting: tuple[str, ...]


def _producer(n_tiles: int, stages: int) -> Iterator[Op]:
    for tile in range(n_tiles):
        slot, phase = ring(tile, stages)
        yield "wait", "empty", slot, phase ^ 1
        yield "load", "", slot, tile


def _consumer(n_tiles: int, stages: int) -> Iterator[Op]:
    for tile in range(n_tiles):
        slot, phase = ring(tile, stages)
        yield "wait", "full", slot, phase
        yield "use", "", slot, tile
        yield "arrive", "empty", slot, tile


class _Walk:
    """Both programs taken op by op, the barriers judged by the simulator's own rule."""

    def __init__(self, n_tiles: int, stages: int) -> None:
        self.barriers = {kind: [Phases(1) for _ in range(stages)] for kind in ("full", "empty")}
        self.tiles: list[int | None] = [None] * stages
        self.states = ["empty"] * stages
        self.programs = {
            "producer": _producer(n_tiles, stages), "consumer": _consumer(n_tiles, stages)
        }  # fmt: skip
        self.next: dict[str, Op | None] = {w: next(p) for w, p in self.programs.items()}
        self.waits: dict[str, str] = {}
        self.busy = 0  # rounds for which the consumer still computes
        self.flying: list[list[int]] = []  # [slot, rounds left], in order
        said = "Nothing has happened. On every barrier phase 0 is running."
        self.steps = [self._step("", -1, said)]

    def _step(self, who: str, slot: int, said: str) -> Step:
        done = {k: tuple(b.done for b in row) for k, row in self.barriers.items()}
        waiting = tuple(f"{w} waits at {at}" for w, at in self.waits.items())
        held = tuple(self.tiles), tuple(self.states)
        return Step(who, slot, said, *held, **done, waiting=waiting)

    def run(self) -> list[Step]:
        while any(self.next.values()) or self.flying:
            self._land()
            self._take("producer")
            if self.busy:
                self.busy -= 1
            else:
                self._take("consumer")
        return self.steps

    def _land(self) -> None:
        for flight in self.flying:
            flight[1] -= 1
        if self.flying and self.flying[0][1] <= 0:
            slot = self.flying.pop(0)[0]
            self.barriers["full"][slot].arrive({})
            self.states[slot] = "full"
            phase = self.barriers["full"][slot].done - 1
            said = f"Tile {self.tiles[slot]} is there. TMA itself arrives at full[{slot}]: its "
            self.steps.append(self._step("TMA", slot, f"{said}phase {phase} is complete."))

    def _take(self, who: str) -> None:
        """Take the next op of a program, unless it waits and has said so."""
        op = self.next[who]
        if op is None:
            return
        what, kind, slot, number = op
        if what == "wait" and not self.barriers[kind][slot].passes(number):
            if who not in self.waits:
                self.waits[who] = f"{kind}[{slot}]"
                self.steps.append(self._step(who, slot, self._blocked(who, kind, slot, number)))
            return
        self.waits.pop(who, None)
        said = getattr(self, f"_{what}")(who, kind, slot, number)
        self.next[who] = next(self.programs[who], None)
        self.steps.append(self._step(who, slot, said))

    def _blocked(self, who: str, kind: str, slot: int, parity: int) -> str:
        running = self.barriers[kind][slot].done
        return (
            f"The {who} waits at {kind}[{slot}] for parity {parity}. Phase {running} is running, "
            f"which has parity {parity} too: it is not complete, so the {who} stays."
        )

    def _wait(self, who: str, kind: str, slot: int, parity: int) -> str:
        running = self.barriers[kind][slot].done
        before = f"phase {running - 1} is complete" if running else "nobody has used the slot yet"
        return (
            f"The {who} asks {kind}[{slot}] for parity {parity}. Phase {running} is running, with "
            f"the other parity: {before}, and the {who} goes on."
        )

    def _load(self, who: str, kind: str, slot: int, tile: int) -> str:
        self.tiles[slot], self.states[slot] = tile, "on its way"
        self.flying.append([slot, FLIGHT])
        return f"One instruction starts the load of tile {tile} into slot {slot}. Nobody waits."

    def _use(self, who: str, kind: str, slot: int, tile: int) -> str:
        self.states[slot], self.busy = "in use", WORK
        return f"The consumer computes with tile {tile} in slot {slot}."

    def _arrive(self, who: str, kind: str, slot: int, tile: int) -> str:
        self.barriers[kind][slot].arrive({})
        self.states[slot] = "empty"
        phase = self.barriers[kind][slot].done - 1
        return (
            f"The consumer is done with tile {tile} and arrives at empty[{slot}]: its phase "
            f"{phase} is complete."
        )


def walk(n_tiles: int, stages: int) -> list[Step]:
    """Every step of a producer and one consumer, loads being faster than the work."""
    return _Walk(n_tiles, stages).run()


WIDTH, HEIGHT, TOP = 460, 270, 74
FILLS = {"empty": "panel", "on its way": "sand", "full": "sky", "in use": "orange"}


def draw(step: Step) -> str:
    """The producer left, the consumer right, a slot with its two barriers a row."""
    stages = len(step.tiles)
    row = (HEIGHT - TOP) / stages
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{stages} slots between '
        f'producer and consumer, each with two barriers; {", ".join(step.states)}">'
    ]
    for name, x in (("producer", 4), ("TMA", WIDTH / 2 - 60), ("consumer", WIDTH - 124)):
        active = name == step.who
        waits = any(w.startswith(name) for w in step.waiting)
        parts.append(chart.rect(x, 6, 120, 44, "blue" if active else "panel", 'rx="5"'))
        ink = "paper" if active else "ink"
        parts.append(chart.text(x + 60, 24, name, "middle", 14, ink))
        parts.append(chart.text(x + 60, 42, "waits" if waits else "", "middle", 12, ink))
    for slot, (tile, state) in enumerate(zip(step.tiles, step.states, strict=True)):
        y = TOP + slot * row
        fill, ink = FILLS[state], "paper" if state == "in use" else "ink"
        held = state if tile is None or state == "empty" else f"tile {tile}, {state}"
        edge = 'stroke="var(--fl-blue)" stroke-width="3"' if slot == step.slot else ""
        parts.append(chart.rect(WIDTH / 2 - 75, y + 6, 150, row - 16, fill, f'rx="4" {edge}'))
        parts.append(chart.text(WIDTH / 2, y + row / 2 - 4, f"slot {slot}", "middle", 13, ink))
        parts.append(chart.text(WIDTH / 2, y + row / 2 + 14, held, "middle", 13, ink))
        for kind, x, anchor in (("empty", 8, "start"), ("full", WIDTH - 8, "end")):
            phase = getattr(step, kind)[slot]
            parts.append(chart.text(x, y + row / 2 - 12, f"{kind}[{slot}]", anchor, 13))
            parts.append(chart.text(x, y + row / 2 + 6, f"phase {phase} runs", anchor, 12, "soft"))
            parts.append(
                chart.text(x, y + row / 2 + 23, f"parity {phase & 1}", anchor, 12, "soft")
            )
    return "".join(parts) + "</svg>"


def barrier_walk(n_tiles: int = 4, stages: int = 2) -> Player:
    """A player of a producer that fills a ring of slots and a consumer that empties it.

    Args:
        n_tiles: Tiles to load, 1 to 8.
        stages: Slots, 1 to 3.
    """
    if not (1 <= n_tiles <= 8 and 1 <= stages <= 3):
        raise ValueError(f"n_tiles is 1 to 8 and stages 1 to 3, not {n_tiles} and {stages}")
    frames = []
    for step in walk(n_tiles, stages):
        facts = [("who", step.who or "-")]
        for slot in range(stages):
            facts.append((f"empty[{slot}]: phases done", str(step.empty[slot])))
            facts.append((f"full[{slot}]: phases done", str(step.full[slot])))
        facts.append(("waiting", "; ".join(step.waiting) or "nobody"))
        frames.append(Frame(draw(step), step.said, tuple(facts)))
    return Player("Full and empty: two barriers a slot", frames, height=480)
