"""The roles of one program: generators of which one runs at a time, until it waits."""

from collections.abc import Callable, Generator
from types import GeneratorType
from typing import Any

from flashlab.iocount.errors import KernelError
from flashlab.iocount.gluon.order import Clock
from flashlab.iocount.recorder import Recorder

Wait = tuple[Callable[[], bool] | None, Callable[[], str]]  # until when (None: in turn); in words
Steps = Generator[Wait, None, Any]


class Deadlock(KernelError):
    """Every role that is left waits for what no other will do."""

    kind = "timeout"


class Role:
    """One partition of ``warp_specialize``, or the whole program."""

    def __init__(self, name: str, function: Callable, args: tuple, named: dict) -> None:
        self.name, self.function, self.args, self.named = name, function, args, named
        self.steps: Steps | None = None
        self.ready: Callable[[], bool] | None = None  # what it waits for
        self.waits: Callable[[], str] = str
        self.where = ("?", 0)
        self.clock = Clock()  # what it knows to be done
        self.clock.tick(self)
        self.ended, self.result = False, None
        self.products: list[Any] = []  # started and not waited for, oldest first
        self.stores: list[Any] = []  # TMA stores under way, oldest first

    def go(self, rec: Recorder) -> None:
        """Run until it waits or ends."""
        if self.steps is None:
            found = self.function(*self.args, **self.named)
            self.steps = found if isinstance(found, GeneratorType) else iter(())
        try:
            self.ready, self.waits = next(self.steps)
            self.where = innermost(rec, self.steps)
        except StopIteration as end:
            self.ended, self.result = True, end.value


def innermost(rec: Recorder, steps: Any) -> tuple[str, int]:
    """(file, line) of kernel code where a waiting role stands."""
    where = ("?", 0)
    while isinstance(steps, GeneratorType) and steps.gi_frame is not None:
        file = steps.gi_code.co_filename
        if file in rec.files:
            where = file, steps.gi_frame.f_lineno
        steps = steps.gi_yieldfrom
    return where


class Roles:
    """Runs roles in turn; ``late`` finishes one copy that is under way, if there is one.

    The habit says which of several roles goes on, since a GPU promises no order. 0: the next one,
    so that who arrives at a barrier lets all others go first. 1 and 2: the one before, and the
    second or the first role falls behind as far as the others and TMA can go without it.
    """

    def __init__(self, rec: Recorder, late: Callable[[], bool], habit: int) -> None:
        self.rec, self.late, self.habit = rec, late, habit % 3
        self.now: Role | None = None

    def run(self, roles: list[Role]) -> None:
        """Run all to their ends; raises what the first to fail raises."""
        outer, at = self.now, -1
        while left := [r for r in roles if not r.ended]:
            able = [r for r in left if r.ready is None or r.ready()]
            slow = roles[2 - self.habit] if self.habit and len(roles) > 1 else None
            if not [r for r in able if r is not slow] and self.late():
                continue
            if not able:
                raise self._deadlock(left)
            role = self._choose(roles, [r for r in able if r is not slow] or able, at)
            at, self.now = roles.index(role), role
            role.go(self.rec)
        self.now = outer

    def _choose(self, roles: list[Role], able: list[Role], at: int) -> Role:
        step = 1 if self.habit == 0 else -1
        return min(able, key=lambda r: step * (roles.index(r) - at) % len(roles) or len(roles))

    def _deadlock(self, left: list[Role]) -> KernelError:
        said = "; ".join(f"{r.name} {r.waits()} on line {r.where[1]}" for r in left)
        hint = "What they wait for never comes: on a GPU the kernel hangs"
        return self.rec.error(Deadlock, f"everybody waits: {said}", hint, left[0].where)


def calling(function: Callable, *args: Any, **named: Any) -> Steps:
    """A call inside a kernel: what waits in it, waits here too."""
    found = function(*args, **named)
    if isinstance(found, GeneratorType):
        found = yield from found
    return found
