"""Slots of shared memory: who filled them, who read them, and who can know of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flashlab.pipeline.errors import PipelineError
from flashlab.pipeline.phases import Known
from flashlab.pipeline.sm import SM, Barrier, Op


@dataclass(eq=False)
class Place:
    """A slot for tiles of K or of V."""

    matrix: str
    slot: int
    consumers: int
    tile: int = -1
    fills: int = 0  # loads that have begun
    full: bool = False
    readers: dict[int, int] = field(default_factory=dict)  # consumer -> last fill that it reads
    back: dict[int, int] = field(default_factory=dict)  # consumer -> last fill it gave back

    def __str__(self) -> str:
        return f"slot {self.slot} of {self.matrix}"

    def filled(self) -> Known:
        """Its load is there; what its barrier lets others know."""
        self.full = True
        return {("full", self.matrix, self.slot): self.fills}

    def read_by(self, w: int, fill: int) -> Known:
        """What consumer ``w`` knows when its product with this fill is done."""
        return {("read", self.matrix, self.slot, w): fill}


class Memory:
    """All slots, and the rules of reading and writing them."""

    def __init__(self, sm: SM, n_tiles: int, stages: int) -> None:
        self.sm, self.n_tiles = sm, n_tiles
        self.places = {m: [Place(m, i, sm.consumers) for i in range(stages)] for m in "KV"}

    def full_barrier(self, matrix: str, slot: int) -> Barrier:
        """The barrier at which a load into a slot arrives."""
        return (self.sm.k_full if matrix == "K" else self.sm.v_full)[slot]

    def _place(self, matrix: str, tile: Any, slot: Any, op: Op) -> Place:
        places = self.places[matrix]
        for name, value, most in (("slot", slot, len(places)), ("tile", tile, self.n_tiles)):
            if type(value) is not int:
                raise PipelineError(
                    "contract", f"{name} is a whole number, not {value!r}", op.where
                )
            if not 0 <= value < most:
                raise PipelineError(
                    "oob",
                    f"{op}: there is no {name} {value} of {matrix}; the last one is {most - 1}",
                    op.where,
                )
        return places[slot]

    def fill(self, matrix: str, tile: Any, slot: Any, known: Mapping[tuple, int], op: Op) -> Place:
        """Begin to load a tile into a slot; whoever does must know that nobody needs the old one.

        Raises:
            PipelineError: somebody may still read it, or it is still being filled.
        """
        place = self._place(matrix, tile, slot, op)
        if place.fills and not place.full:
            raise PipelineError(
                "race",
                f"{op} writes {place} while the load of tile {place.tile} into it still runs",
                op.where,
            )
        for w in range(self.sm.consumers):
            if known.get(("read", matrix, slot, w), 0) < place.fills:
                done = place.back.get(w, 0) == place.fills
                what = (
                    f"warpgroup {w} happens to be done with it, but nothing made sure: the wait "
                    f"for {matrix.lower()}_empty[{slot}] did not see to it"
                    if done
                    else f"warpgroup {w} may still need it"
                )
                raise PipelineError(
                    "race",
                    f"{op} overwrites tile {place.tile} in {place}: {what}",
                    op.where,
                )
        place.tile, place.full = tile, False
        place.fills += 1
        return place

    def read(self, matrix: str, tile: Any, slot: Any, program: Any, op: Op) -> Place:
        """Begin a product that reads a slot; whoever does must know that it is full.

        Raises:
            PipelineError: it is empty, it may be, it holds another tile, or was given back.
        """
        place = self._place(matrix, tile, slot, op)
        problem, kind = "", "uninitialised"
        if not place.full:
            state = "nothing was loaded" if not place.fills else f"tile {place.tile} is under way"
            problem = f"{op} reads {place} before it is full: {state}"
        elif program.known.get(("full", matrix, slot), 0) < place.fills:
            problem = (
                f"{op} reads {place}, which happens to be full, but nothing made sure: the wait "
                f"for {matrix.lower()}_full[{slot}] did not see to it"
            )
        elif place.tile != tile:
            kind, problem = "wrong", f"{op}: {place} holds tile {place.tile}, not {tile}"
        elif place.back.get(program.w) == place.fills:
            kind = "race"
            problem = f"{op} reads {place} after {program.name} gave it back"
        if problem:
            raise PipelineError(kind, problem, op.where)
        place.readers[program.w] = place.fills
        return place

    def give_back(self, w: int, state: Any, barrier: Barrier, op: Op) -> None:
        """A consumer arrives at a barrier: if it is an ``empty`` one, it must be done there.

        Raises:
            PipelineError: it is not, or it has given the slot back already.
        """
        for matrix, barriers in (("K", self.sm.k_empty), ("V", self.sm.v_empty)):
            for slot, one in enumerate(barriers):
                if one is barrier:
                    self._give_back(w, state, self.places[matrix][slot], op)

    def _give_back(self, w: int, state: Any, place: Place, op: Op) -> None:
        problem = ""
        if place.fills and place.back.get(w) == place.fills:
            problem = f"gives {place} back a second time"
        elif not place.fills or place.readers.get(w, 0) < place.fills:
            problem = f"gives {place} back before it has read the tile in it"
        elif state.reads(place):
            problem = (
                f"gives {place} back while its product may still read it: wait_products first"
            )
        if problem:
            raise PipelineError("race", f"with {op}, warpgroup {w} {problem}", op.where)
        place.back[w] = place.fills
