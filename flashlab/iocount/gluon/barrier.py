"""mbarriers: how many have arrived, which bytes have come, and what is known when a phase ends."""

from typing import Any

import triton.experimental.gluon.language as gl

from flashlab.iocount.gluon.order import Clock
from flashlab.iocount.gluon.tile import strange


class Barrier:
    """An mbarrier: a phase ends when all arrivals and all expected bytes are there."""

    def __init__(self, machine: Any) -> None:
        self.machine = machine
        self.count, self.phase, self.left, self.bytes = 0, 0, 0, 0
        self.coming, self.done = Clock(), Clock()  # known to this phase, to those that ended

    def init(self, count: int) -> None:
        self.count = self.left = count

    def settle(self) -> None:
        if self.left <= 0 and self.bytes == 0:
            self.phase += 1
            self.left += self.count
            self.done.join(self.coming)
            self.coming = Clock()

    def passed(self, parity: int) -> bool:
        """Whether the phase of this parity is complete."""
        return self.count > 0 and self.phase & 1 != parity & 1

    def lacks(self) -> str:
        """What the phase under way has and waits for, in words."""
        if not self.count:
            return "a barrier that nobody initialised"
        said = f"a barrier with {self.count - self.left} of {self.count} arrivals"
        if self.bytes > 0:
            return f"{said}, {self.bytes} bytes expected that nobody copies"
        return said + (f", {-self.bytes} bytes copied that nobody expects" if self.bytes else "")

    def __getattr__(self, name: str) -> Any:
        raise strange(gl.shared_memory_descriptor, name)


class Barriers:
    """An array of barriers [n, 1]."""

    def __init__(self, machine: Any, n: int) -> None:
        self.machine, self.all = machine, [Barrier(machine) for _ in range(n)]

    def index(self, i: int) -> Barrier:
        if not 0 <= i < len(self.all):
            raise self.machine.no_slot(i, len(self.all))
        return self.all[i]

    def __getattr__(self, name: str) -> Any:
        raise strange(gl.shared_memory_descriptor, name)
