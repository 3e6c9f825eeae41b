"""What is known to be done: roles, copies and products are ordered by barriers and waits alone.

Each of them is an actor. A clock says how much of every actor's past is known: to arrive at a
barrier gives one's clock to it, to wait takes the clock of its last phase. An access that is not
known to be done is under way still, on some GPU, whatever the order was here.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

Where = tuple[str, int]  # file and line of kernel code


class Clock:
    """How far the past of every actor is known."""

    def __init__(self, *others: "Clock") -> None:
        self.times: dict[Any, int] = {}
        for other in others:
            self.join(other)

    def join(self, other: "Clock") -> None:
        """Know also what the other knows."""
        for actor, time in other.times.items():
            if time > self.times.get(actor, 0):
                self.times[actor] = time

    def tick(self, actor: Any) -> int:
        """The actor's next moment: what it does from now on is not known to others yet."""
        self.times[actor] = self.times.get(actor, 0) + 1
        return self.times[actor]


@dataclass(eq=False)
class Access:
    """Somebody reads or writes a part of a slot."""

    actor: Any
    time: int
    part: np.ndarray
    how: str  # "copy", "store" (of registers), "product", "load", "TMA store"
    where: Where

    def known(self, clock: Clock) -> bool:
        return clock.times.get(self.actor, 0) >= self.time

    def meets(self, part: np.ndarray) -> bool:
        """Whether the two have an element in common: parts of one slot need not."""
        return np.shares_memory(self.part, part)


class Slot:
    """Who wrote an allocation of shared memory, part by part, and who has read it since."""

    def __init__(self) -> None:
        self.writes: list[Access] = []
        self.reads: list[Access] = []

    def unknown_write(self, part: np.ndarray, clock: Clock) -> Access | None:
        """A write to this part that may be under way still."""
        return next((w for w in self.writes if not w.known(clock) and w.meets(part)), None)

    def unknown_read(self, part: np.ndarray, clock: Clock) -> Access | None:
        """A read of this part that may be under way still."""
        return next((r for r in self.reads if not r.known(clock) and r.meets(part)), None)

    def written(self, access: Access) -> None:
        """The newest write of its part; what came before it there is done."""
        self.reads = [r for r in self.reads if not _inside(r.part, access.part)]
        self.writes = [w for w in self.writes if not _inside(w.part, access.part)] + [access]


def _inside(part: np.ndarray, whole: np.ndarray) -> bool:
    """Whether all of a part lies in a whole that has no gaps."""
    low, high = byte_bounds(whole)
    first, last = byte_bounds(part)
    return high - low == whole.nbytes and low <= first and last <= high
