"""Starts servers, hands them runs, collects raw replies, replaces what was killed. Trusted side.

A ``Pool`` keeps one warm server with a lane per core until the interpreter ends. Replies come
straight from the worker on a pipe of their own; how the worker ended comes from its lane.
"""

import atexit
import contextlib
import os
import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from flashlab import system
from flashlab.grader.exchange import (
    GRACE_SECONDS,
    START_SECONDS,
    Job,
    Limits,
    Reply,
    exchange,
    hand_over,
)

__all__ = ["Job", "Limits", "Pool", "Reply", "Stopped", "default", "environment", "through"]

PACKAGE = Path(__file__).resolve().parents[1]


class Stopped(Exception):
    """The pool was closed while a run was under way."""


class Pool:
    """Workers on the cores at hand.

    Args:
        lanes: Runs at a time; None is one a core, at most four.
        command: Puts the server's command into another, such as that of a sandbox.
        meeting: Folder of the socket that a server calls which can inherit none (container).
    """

    def __init__(
        self,
        lanes: int | None = None,
        command: Callable[[list[str]], list[str]] | None = None,
        meeting: Path | None = None,
    ) -> None:
        self.lanes = lanes or max(1, min(4, system.cores()))
        self.command = command or (lambda words: words)
        self._meeting = meeting
        self._lock = threading.Lock()
        self._server: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._open: set[socket.socket] = set()
        self._idle: list[socket.socket] = []
        self._closed = False
        self.cpu_seconds = 0.0  # used by workers so far
        self.pid = os.getpid()

    def start(self) -> None:
        """Start the server unless it runs; returns before it is ready."""
        with self._lock:
            self._start()

    def _start(self) -> socket.socket:
        if self._closed:
            raise Stopped
        if self._server is not None and self._server.poll() is None and self._control:
            return self._control
        self._hang_up()
        if self._meeting is not None:
            self._control = self._meet(self._meeting / "control")
            return self._control
        ours, theirs = socket.socketpair()
        with theirs:
            self._server = self._spawn(theirs.fileno(), [theirs.fileno()])
        self._control = ours
        return ours

    def _spawn(self, control: int | Path, pass_fds: Sequence[int] = ()) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.command(server_command("fork", control)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=pass_fds,
            start_new_session=True,
            env=environment() | {"CUDA_VISIBLE_DEVICES": ""},
        )

    def _meet(self, place: Path) -> socket.socket:
        """Start a server and let it in, once: nobody else finds the socket afterwards."""
        place.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(place))
            place.chmod(0o666)
            listener.listen(1)
            listener.settimeout(START_SECONDS)
            self._server = self._spawn(place)
            control, _ = listener.accept()
        place.unlink()
        control.settimeout(None)
        return control

    def _lane(self) -> socket.socket:
        """An idle lane, or a new one from a server that runs."""
        with self._lock:
            control = self._start()
            if self._idle:
                return self._idle.pop()
            ours, theirs = socket.socketpair()
            self._open.add(ours)
            with theirs:
                try:
                    hand_over(control, b"L", theirs.fileno())
                except OSError:  # the server died a moment ago: the next call starts another
                    self._server = None
            return ours

    def run(self, jobs: Sequence[Job]) -> Iterator[tuple[Job, Reply]]:
        """Run jobs side by side; yields each as it ends. Leaving early kills what still runs."""
        waiting: queue.SimpleQueue[Job] = queue.SimpleQueue()
        for job in jobs:
            waiting.put(job)
        done: queue.SimpleQueue[tuple[Job, Reply | BaseException]] = queue.SimpleQueue()
        stop = threading.Event()
        busy: dict[int, socket.socket] = {}
        threads = [
            threading.Thread(target=self._serve, args=(waiting, done, stop, busy), daemon=True)
            for _ in range(min(self.lanes, len(jobs)))
        ]
        for thread in threads:
            thread.start()
        try:
            for _ in jobs:
                job, reply = done.get()
                if isinstance(reply, BaseException):
                    raise reply
                yield job, reply
        finally:
            stop.set()
            for lane in list(busy.values()):
                self._drop(lane)
            for thread in threads:
                thread.join(GRACE_SECONDS)

    def _serve(
        self, waiting: Any, done: Any, stop: threading.Event, busy: dict[int, socket.socket]
    ) -> None:
        while not stop.is_set():
            try:
                job = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                done.put((job, self.one(job, stop, busy)))
            except BaseException as error:
                if not stop.is_set():
                    done.put((job, error))
                return

    def one(
        self,
        job: Job,
        stop: threading.Event | None = None,
        busy: dict[int, socket.socket] | None = None,
    ) -> Reply:
        """Run one job; a server lost before the run began is replaced once."""
        busy = {} if busy is None else busy
        for last in (False, True):
            lane = busy[threading.get_ident()] = self._lane()
            if stop is not None and stop.is_set():
                self._drop(lane)
                raise Stopped
            reply = exchange(lane, job)
            self.cpu_seconds += reply.cpu_seconds
            busy.pop(threading.get_ident(), None)
            if reply.how != "lost":
                with self._lock:
                    self._idle.append(lane)
                break
            self._drop(lane)
            if last or reply.header or reply.printed or (stop is not None and stop.is_set()):
                break
        return reply

    def _drop(self, lane: socket.socket) -> None:
        with self._lock, contextlib.suppress(OSError):
            self._open.discard(lane)
            lane.shutdown(socket.SHUT_RDWR)
            lane.close()

    def _hang_up(self) -> None:
        """Close every socket; the server and its lanes end when they notice."""
        for lane in (*self._open, *([self._control] if self._control else [])):
            with contextlib.suppress(OSError):
                lane.shutdown(socket.SHUT_RDWR)
            lane.close()
        self._open.clear()
        self._idle, self._server, self._control = [], None, None

    def close(self) -> None:
        """End the server and everything below it; in a forked child do nothing."""
        if self.pid != os.getpid():
            return
        with self._lock:
            self._closed = True
            server = self._server
            self._hang_up()
        if server is not None:
            try:
                server.wait(GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def server_command(mode: str, control: int | Path) -> list[str]:
    """Words that start ``server.py``: no site of the user, no bytecode, this process's path."""
    path = [p for p in sys.path if p and Path(p).exists()]
    server = str(PACKAGE / "grader" / "server.py")
    return [sys.executable, "-I", "-B", server, mode, str(control), *path, str(PACKAGE.parent)]


def environment() -> dict[str, str]:
    """What a server inherits: nothing that could hold a secret or a setting of the learner's."""
    keep = ("PATH", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH")
    # macOS ends forks of a process that has used its frameworks, unless told otherwise, and its
    # BLAS must not have started threads before a fork
    forks = {"OBJC_DISABLE_INITIALIZE_FORK_SAFETY": "YES", "VECLIB_MAXIMUM_THREADS": "1"}
    kept = {name: os.environ[name] for name in keep if name in os.environ}
    fixed = {
        "HOME": "/nonexistent",
        "OMP_NUM_THREADS": "1",
        "TRITON_DEFAULT_FP_FUSION": "1",
    }
    return kept | fixed | ({} if system.LINUX else forks)


_default: Pool | None = None
_held: Pool | None = None


@contextlib.contextmanager
def through(held: Pool) -> Iterator[Pool]:
    """Within this, every check of this process runs in ``held`` or not at all."""
    global _held
    before, _held = _held, held
    try:
        yield held
    finally:
        _held = before


def default() -> Pool:
    """The warm pool of this process; made on first use, closed when the interpreter ends."""
    global _default
    if _held is not None:
        _held.start()
        return _held
    if _default is None or _default.pid != os.getpid() or _default._closed:
        _default = Pool()
        atexit.register(_default.close)
    _default.start()
    return _default
