"""Watches over ranks: collects what they say, and says why they do not go on."""

import contextlib
import json
import linecache
import os
import re
import select
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flashlab import system
from flashlab.ring.errors import Frames, RankError

LOOK_SECONDS = 0.1
ASLEEP_SECONDS = 3.0  # all ranks idle for so long: each waits for another
GRACE_SECONDS = 0.4  # after the first failure, to hear of its cause
TRACE = re.compile(r'File "(.*)", line (\d+) in ')
LOST = ("Connection closed", "Connection reset", "Broken pipe", "Timed out", "not connected")
PLACES = re.compile(  # of gloo and Python: files, sockets, addresses
    r"\[[^\[\]]*\.cc:\d+\]|\s*\(\[[^)]*\)|\[\d[\d.]*\]:\d+|<\S+ object at 0x[0-9a-f]+>"
)
MEMORY = ("not enough memory", "allocate memory", "out of memory")


@dataclass
class Rank:
    """A forked rank as its parent sees it."""

    number: int
    pid: int
    pipe: int
    trace: int
    said: bytes = b""
    heard: float = field(default_factory=time.monotonic)
    returned: bool = False
    result: Any = None
    error: dict[str, Any] | None = None
    died: str = ""

    @property
    def over(self) -> bool:
        """Whether nothing more will come of it."""
        return self.returned or self.error is not None or bool(self.died)


def wait(ranks: list[Rank], seconds: float, filename: str, asleep: bool) -> list[Any]:
    """What every rank returned.

    Args:
        ranks: All of a ring.
        seconds: How long one may be silent.
        filename: Whose lines errors name.
        asleep: Give up early when all ranks sleep, which on a CPU means that none will go on.

    Raises:
        RankError: one failed, died or went silent.
    """
    idle = _Idle()
    while not all(rank.returned for rank in ranks):
        _listen(ranks, LOOK_SECONDS)
        if any(rank.error or rank.died for rank in ranks):
            end = time.monotonic() + GRACE_SECONDS
            while time.monotonic() < end and not all(rank.over for rank in ranks):
                _listen(ranks, LOOK_SECONDS)
            raise _failure(ranks, filename)
        working = [rank for rank in ranks if not rank.over]
        silent = [r for r in working if time.monotonic() - r.heard > seconds]
        if silent or (asleep and idle.for_seconds(working) > ASLEEP_SECONDS):
            raise _stuck(working, silent, seconds, filename)
    return [rank.result for rank in ranks]


def end(ranks: list[Rank]) -> None:
    """Kill, reap and close what is left of them."""
    for rank in ranks:
        with contextlib.suppress(ProcessLookupError):
            os.kill(rank.pid, signal.SIGKILL)
        if not rank.died:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(rank.pid, 0)
        os.close(rank.pipe)
        os.close(rank.trace)


def _listen(ranks: list[Rank], seconds: float) -> None:
    """Read what has come; note which ranks have died."""
    pipes = {rank.pipe: rank for rank in ranks if not rank.died}
    for pipe in select.select(list(pipes), [], [], seconds)[0]:
        rank, data = pipes[pipe], os.read(pipe, 1 << 16)
        if not data:
            rank.died = _end_of(os.waitpid(rank.pid, 0)[1])
            continue
        *lines, rank.said = (rank.said + data).split(b"\n")
        for line in lines:
            said = json.loads(line)
            rank.heard = time.monotonic()
            rank.error = said.get("error", rank.error)
            if "result" in said:
                rank.returned, rank.result = True, said["result"]


def _end_of(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"ended itself with code {code}"
    return f"was ended by {signal.Signals(-code).name}"


def _failure(ranks: list[Rank], filename: str) -> RankError:
    """The cause: a rank that died, else one that raised and did not just lose a neighbour."""
    dead = [rank for rank in ranks if rank.died]
    if dead:
        rank = dead[0]
        return RankError(
            "timeout" if "SIGXCPU" in rank.died else "crash",  # the processor time of a case
            f"rank {rank.number} of {len(ranks)} {rank.died}; the other ranks, which would have "
            "waited for its messages, were ended too",
            rank.number,
        )
    failed = sorted((rank for rank in ranks if rank.error), key=_lost)  # stable: the first rank
    rank, error = failed[0], failed[0].error
    kind = "oom" if any(word in error["message"] for word in MEMORY) else "crash"
    said = PLACES.sub("", error["message"]).strip()
    said = said if error["kind"] else f"{error['type']}: {said}"
    said, kind = f"rank {rank.number}: {said}", error["kind"] or kind
    return RankError(kind, said, rank.number, _place(error["frames"], filename), error["extra"])


def _lost(rank: Rank) -> bool:
    return any(word in rank.error["message"] for word in LOST)


def _stuck(working: list[Rank], silent: list[Rank], seconds: float, filename: str) -> RankError:
    """Who waits where."""
    named = silent or working
    for rank in named:
        os.kill(rank.pid, signal.SIGUSR1)
    time.sleep(0.2)
    places = {rank.number: _place(_trace(rank), filename) for rank in named}
    words = [f"rank {n}" + (f" at line {p[0]}" if p else "") for n, p in places.items()]
    where = f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0]
    waits = "wait" if len(words) > 1 else "waits"
    if silent:
        said = f"{where} did not answer within {seconds:g} s"
    else:
        said = f"{where} {waits} for a message that nobody sends: nothing moves any more"
    first = next(iter(places))
    return RankError("timeout", f"{said}; all ranks were ended", first, places[first])


def _trace(rank: Rank) -> Frames:
    os.set_blocking(rank.trace, False)
    try:
        text = os.read(rank.trace, 1 << 16).decode("utf-8", "replace")
    except BlockingIOError:
        text = ""
    found = ((file, int(line)) for file, line in TRACE.findall(text))
    return [(file, line, linecache.getline(file, line)) for file, line in found]


def _place(frames: Frames, filename: str) -> tuple[int, str] | None:
    """The innermost line of ``filename``."""
    return next(((n, (text or "").strip()) for f, n, text in frames if f == filename), None)


class _Idle:
    """For how long processes have neither run nor been able to."""

    def __init__(self) -> None:
        self.ticks, self.since = -1, time.monotonic()

    def for_seconds(self, ranks: list[Rank]) -> float:
        """Seconds since one of them was last seen at work."""
        looks = [self._look(rank.pid) for rank in ranks]
        ticks = sum(count for _, count in looks)
        if not looks or any(at_work for at_work, _ in looks) or ticks != self.ticks:
            self.ticks, self.since = ticks, time.monotonic()
        return time.monotonic() - self.since

    @staticmethod
    def _look(pid: int) -> tuple[bool, int]:
        """Whether the main thread runs, or waits for a processor or a disk; ticks it has used.

        Not the threads of gloo, which look for messages for ever. Where nothing tells, it is at
        work until it has been silent for too long.
        """
        if not system.LINUX:
            return True, 0
        try:
            fields = Path(f"/proc/{pid}/task/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return False, 0
        return fields[0] in "RD", int(fields[11]) + int(fields[12])
