"""What a program sees of the SM: barriers, and operations to yield."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flashlab.pipeline.errors import PipelineError


class Sealed(type):
    """A class of the simulator: whoever gets an object of it cannot change what all of them do."""

    def __setattr__(cls, name: str, value: Any) -> None:
        if not name.startswith("__"):  # dataclass sets those
            raise AttributeError(_SET.format(cls.__name__, name))
        super().__setattr__(name, value)

    def __delattr__(cls, name: str) -> None:
        raise AttributeError(_SET.format(cls.__name__, name))


_SET = "{}.{} cannot be set: programs act by yielding operations"


@dataclass(frozen=True, eq=False)
class Barrier(metaclass=Sealed):
    """A name for an mbarrier in shared memory; its phases are the simulator's."""

    name: str
    count: int

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"sm.{self.name}"


class Barriers(tuple, metaclass=Sealed):
    """Barriers of a kind by slot, or by warpgroup; a number that is not there is said so."""

    def __getitem__(self, number: Any) -> Any:
        if type(number) is int and 0 <= number < len(self):
            return super().__getitem__(number)
        name, caller = self[0].name.split("[")[0], sys._getframe(1)
        raise PipelineError(
            "oob",
            f"there is no sm.{name}[{number!r}]: the last one is sm.{name}[{len(self) - 1}]",
            (caller.f_code.co_filename, caller.f_lineno),
        )


def _barriers(name: str, number: int, count: int) -> Barriers:
    return Barriers(Barrier(f"{name}[{i}]", count) for i in range(number))


@dataclass(frozen=True, eq=False)
class Op(metaclass=Sealed):
    """An operation that a program yields, and the line that made it."""

    name: str
    args: tuple[Any, ...]
    where: tuple[str, int]

    def __repr__(self) -> str:
        return f"sm.{self.name}({', '.join(map(repr, self.args))})"


class SM(metaclass=Sealed):
    """One streaming multiprocessor as a program sees it. Every operation must be yielded.

    Args:
        stages: Slots of shared memory for tiles of K, and as many for tiles of V.
        consumers: Warpgroups that compute.
        note: Called with every operation that is made.

    ``k_full[slot]`` completes a phase whenever a load of K into that slot is there, ``v_full``
    for V. ``k_empty[slot]`` and ``v_empty[slot]`` do after an arrival of every consumer,
    ``turn[w]`` after one arrival, ``together`` after an arrival of every consumer.
    """

    consumers: int
    k_full: Barriers
    v_full: Barriers
    k_empty: Barriers
    v_empty: Barriers
    turn: Barriers
    together: Barrier

    def __init__(self, stages: int, consumers: int, note: Callable[[Op], None]) -> None:
        self.__dict__.update(
            consumers=consumers,
            k_full=_barriers("k_full", stages, 1),
            v_full=_barriers("v_full", stages, 1),
            k_empty=_barriers("k_empty", stages, consumers),
            v_empty=_barriers("v_empty", stages, consumers),
            turn=_barriers("turn", consumers, 1),
            together=Barrier("together", consumers),
            _note=note,
        )

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(_SET.format("sm", name))

    def wait(self, barrier: Barrier, phase: int) -> Op:
        """Go on when the phase of parity ``phase`` (0 or 1) is complete."""
        return self._op("wait", barrier, phase)

    def arrive(self, barrier: Barrier) -> Op:
        """Arrive at a barrier; goes on at once."""
        return self._op("arrive", barrier)

    def load_k(self, tile: int, slot: int) -> Op:
        """Start the TMA load of a tile of K into a slot; arrives at ``k_full[slot]`` by itself."""
        return self._op("load_k", tile, slot)

    def load_v(self, tile: int, slot: int) -> Op:
        """Start the TMA load of a tile of V into a slot; arrives at ``v_full[slot]`` by itself."""
        return self._op("load_v", tile, slot)

    def qk(self, tile: int, slot: int) -> Op:
        """Start the product of Q with the tile of K in a slot: the scores; goes on at once."""
        return self._op("qk", tile, slot)

    def pv(self, tile: int, slot: int) -> Op:
        """Start the product of P with the tile of V in a slot; adds to the accumulator."""
        return self._op("pv", tile, slot)

    def wait_products(self, pending: int) -> Op:
        """Go on when at most ``pending`` of this warpgroup's products are still running."""
        return self._op("wait_products", pending)

    def softmax(self, tile: int) -> Op:
        """Turn the scores of a tile into P; goes on when that is done."""
        return self._op("softmax", tile)

    def rescale(self, tile: int) -> Op:
        """Multiply the accumulator by what the row maximum of a tile asks for."""
        return self._op("rescale", tile)

    def _op(self, name: str, *args: Any) -> Op:
        caller = sys._getframe(2)
        op = Op(name, args, (caller.f_code.co_filename, caller.f_lineno))
        self._note(op)
        return op
