"""Units that work for several warpgroups: one job after the other, or side by side."""

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass


class Clock:
    """Simulated time and what is to happen when; equal times keep the order of their making."""

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._made = 0

    def at(self, time: float, action: Callable[[], None]) -> None:
        """Do ``action`` at ``time``."""
        self._made += 1
        heapq.heappush(self._events, (time, self._made, action))

    def step(self) -> bool:
        """Do what comes next; False if nothing does."""
        if not self._events:
            return False
        self.now, _, action = heapq.heappop(self._events)
        action()
        return True


@dataclass
class Job:
    """Work for a unit: how many clocks alone, and what to do at its end with (start, end)."""

    work: float
    done: Callable[[float, float], None]
    start: float = -1.0


class InTurn:
    """Works on one job at a time: those of a lane in order, lanes that wait in turn."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.busy, self._last = clock, False, -1
        self.lanes: dict[int, deque[Job]] = {}

    def add(self, lane: int, job: Job) -> None:
        """Take a job behind those of its lane."""
        self.lanes.setdefault(lane, deque()).append(job)
        if not self.busy:
            self.busy = True
            self.clock.at(self.clock.now, self._next)  # after all that comes at the same time

    def _next(self) -> None:
        waiting = sorted(lane for lane, jobs in self.lanes.items() if jobs)
        if not waiting:
            self.busy = False
            return
        self._last = next((lane for lane in waiting if lane > self._last), waiting[0])
        job = self.lanes[self._last].popleft()
        job.start = self.clock.now
        self.clock.at(job.start + job.work, lambda: self._end(job))

    def _end(self, job: Job) -> None:
        self._next()
        job.done(job.start, self.clock.now)


class Shared:
    """Works on the first job of every lane at once; each gets at most ``cap`` of the unit."""

    def __init__(self, clock: Clock, cap: float = 1.0) -> None:
        self.clock, self.cap = clock, cap
        self.lanes: dict[int, deque[Job]] = {}
        self._last, self._version = 0.0, 0

    def add(self, lane: int, job: Job) -> None:
        """Take a job behind those of its lane."""
        self._advance()
        self.lanes.setdefault(lane, deque()).append(job)
        self._plan()

    def _rate(self) -> float:
        return min(self.cap, 1 / len(self.lanes))

    def _advance(self) -> None:
        now = self.clock.now
        if self.lanes:
            done = (now - self._last) * self._rate()
            for lane in self.lanes.values():
                lane[0].work -= done
        self._last = now

    def _plan(self) -> None:
        """Look again when the first of the running jobs ends, unless something changes before."""
        self._version += 1
        version = self._version
        for lane in self.lanes.values():
            if lane[0].start < 0:
                lane[0].start = self.clock.now
        if self.lanes:
            least = min(lane[0].work for lane in self.lanes.values())
            at = self.clock.now + max(least, 0.0) / self._rate()
            self.clock.at(at, lambda: self._look(version))

    def _look(self, version: int) -> None:
        if version != self._version:
            return
        self._advance()
        ended = [key for key, lane in self.lanes.items() if lane[0].work < 1e-6]
        finished = [self.lanes[key].popleft() for key in ended]
        self.lanes = {key: lane for key, lane in self.lanes.items() if lane}
        self._plan()
        for job in finished:
            job.done(job.start, self.clock.now)
