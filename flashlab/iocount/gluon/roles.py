"""The roles of one program: threads of which one runs at a time, until it waits."""

import threading
from collections.abc import Callable
from typing import Any

from flashlab.iocount.errors import KernelError
from flashlab.iocount.recorder import Recorder

MOST = 64  # roles of a program


class Deadlock(KernelError):
    """Every role that is left waits for what no other will do."""

    kind = "timeout"


class Stopped(BaseException):
    """Another role failed: this one ends too."""


class Role:
    """One partition of ``warp_specialize`` (or the whole program, when there is none)."""

    def __init__(self, name: str, call: Callable[[], Any]) -> None:
        self.name, self.call = name, call
        self.go = threading.Semaphore(0)
        self.ready: Callable[[], bool] | None = None  # what it waits for
        self.waits = ""
        self.ended = False
        self.products: list[Any] = []  # started and not waited for, oldest first
        self.stores: list[Any] = []  # TMA stores under way, oldest first


class Roles:
    """Runs roles in turn; ``late`` finishes one copy that is under way, if there is one."""

    def __init__(self, rec: Recorder, late: Callable[[], bool]) -> None:
        self.rec, self.late = rec, late
        self.back = threading.Semaphore(0)
        self.failure: BaseException | None = None
        self.now: Role | None = None

    def run(self, roles: list[Role]) -> None:
        """Run all to their ends; raises what the first to fail raised."""
        outer = self.now
        threads = [threading.Thread(target=self._body, args=(r,), daemon=True) for r in roles]
        for thread in threads:
            thread.start()
        while (left := [r for r in roles if not r.ended]) and self.failure is None:
            able = [r for r in left if r.ready is None or r.ready()]
            if able:
                # the one after the last that ran: an arrival lets all others go first
                at = roles.index(self.now) if self.now in roles else -1
                self._let(min(able, key=lambda r: (roles.index(r) - at - 1) % len(roles)))
            elif not self.late():
                self.failure = self._deadlock(left)
        for role in roles:
            while not role.ended:  # it sees the failure when it goes on
                self._let(role)
        for thread in threads:
            thread.join()
        self.now = outer
        if self.failure is not None:
            raise self.failure

    def pause(self, ready: Callable[[], bool] | None = None, waits: str = "") -> None:
        """Let others run; come back when ``ready()`` (None: in turn)."""
        role = self.now
        if role is None:  # outside any role: nobody else could make it true
            while ready is not None and not ready():
                if not self.late():
                    raise self.rec.error(Deadlock, f"{waits}: nobody will ever end this wait")
            return
        role.ready, role.waits = ready, waits
        role.where = self.rec.where()
        self.back.release()
        role.go.acquire()
        role.ready = None
        if self.failure is not None:
            raise Stopped

    def _let(self, role: Role) -> None:
        self.now = role
        role.go.release()
        self.back.acquire()

    def _body(self, role: Role) -> None:
        role.go.acquire()
        try:
            if self.failure is None:
                role.call()
        except Stopped:
            pass
        except BaseException as error:
            self.failure = self.failure or error
        role.ended = True
        self.back.release()

    def _deadlock(self, left: list[Role]) -> KernelError:
        said = "; ".join(f"{r.name} {r.waits} (line {r.where[1]})" for r in left)
        hint = "Each waits for what no other will do: on a GPU the kernel hangs"
        return self.rec.error(Deadlock, f"all roles wait for ever: {said}", hint, left[0].where)
