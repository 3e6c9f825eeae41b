"""What the simulator knows of a barrier: its phases, and who learns what from them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

Known = dict[tuple, int]  # how many fills of a slot are full, or read by a consumer, for certain


@dataclass
class Phases:
    """The phases of one barrier.

    A phase is complete after ``count`` arrivals; then the next one begins. ``done`` phases are
    complete. Whoever waits learns what those who arrived knew.
    """

    count: int
    done: int = 0
    arrived: int = 0
    ready: Known = field(default_factory=dict)
    coming: Known = field(default_factory=dict)

    def passes(self, phase: int) -> bool:
        """Whether a wait for the phase of that parity goes on: the current one has the other."""
        return self.done & 1 != phase

    def arrive(self, known: Mapping[tuple, int]) -> bool:
        """Count an arrival; True if it completes a phase."""
        merge(self.coming, known)
        self.arrived += 1
        if self.arrived < self.count:
            return False
        self.done, self.arrived = self.done + 1, 0
        merge(self.ready, self.coming)
        return True


def merge(into: Known, more: Mapping[tuple, int]) -> None:
    """Keep the larger of two counts."""
    for key, value in more.items():
        into[key] = max(into.get(key, 0), value)
