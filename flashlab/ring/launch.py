"""Fork ranks, join them in a process group, and hand back what each one returned.

The caller must not have used CUDA: a forked process cannot use it again. Without a network and
without files: gloo talks over loopback, and the ranks find one another through memory.
"""

import contextlib
import faulthandler
import functools
import json
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from flashlab import system
from flashlab.ring import crew

ORPHAN_SECONDS = 300.0  # after which a rank whose parent is gone ends, where nothing tells it


@dataclass(frozen=True)
class Member:
    """What ``work`` gets.

    Args:
        rank, world: Within ``group``.
        group: The process group of the ring.
        device: ``cpu`` for gloo, a GPU of its own for NCCL.
        beat: Call it in long work: it says that this rank goes on.
    """

    rank: int
    world: int
    group: Any
    device: torch.device
    beat: Callable[[], None]


def run(
    world: int,
    work: Callable[[Member], Any],
    *,
    backend: str = "gloo",
    seconds: float = 25.0,
    spare: int = 0,
    filename: str = "",
) -> list[Any]:
    """Call ``work`` on every rank of a ring of forked processes.

    Args:
        world: Ranks of the ring.
        work: Called in every rank; returns plain data (JSON). Tensors go through ``shared``.
        backend: ``"gloo"`` on the CPU, ``"nccl"`` with a GPU each.
        seconds: How long a rank may be silent; it speaks by ``beat`` and by returning.
        spare: Processes before the ring's that take no part: ranks of the group are then not
            those of the world.
        filename: The file whose lines an error names.

    Returns:
        What every rank returned, in order.

    Raises:
        RankError: a rank raised or died, or nothing moves any more. All are ended by then.
        ValueError: NCCL and fewer GPUs than ranks.
    """
    if backend == "nccl" and torch.cuda.device_count() < world + spare:
        raise ValueError(
            f"{world + spare} ranks on NCCL need as many GPUs: this machine has "
            f"{torch.cuda.device_count()}; backend='gloo' needs none"
        )
    meeting = _Meeting(spare + world)
    sys.stdout.flush()
    ranks: list[crew.Rank] = []
    try:
        for number in range(spare + world):
            ranks.append(_fork(number, spare, world, work, backend, seconds, meeting))
        return crew.wait(ranks[spare:], seconds, filename, asleep=backend == "gloo")
    finally:
        crew.end(ranks)
        meeting.close()


class _Meeting:
    """Where ranks find one another: memory on Linux, elsewhere a port of the parent."""

    def __init__(self, count: int) -> None:
        self.count, self.file, self.server = count, -1, None
        if system.LINUX:
            self.file = os.memfd_create("ranks")
        else:
            self.server = self._port(0, is_master=True)

    @staticmethod
    def _port(number: int, **how: bool) -> Any:
        return dist.TCPStore("127.0.0.1", number, wait_for_workers=False, **how)

    def store(self) -> Any:
        """For a rank's process group."""
        if self.server is not None:
            return self._port(self.server.port)
        return dist.FileStore(f"/proc/self/fd/{self.file}", self.count)

    def close(self) -> None:
        """Once every rank has ended."""
        self.server = None
        if self.file >= 0:
            os.close(self.file)


def _fork(
    number: int,
    spare: int,
    world: int,
    work: Callable[[Member], Any],
    backend: str,
    seconds: float,
    meeting: _Meeting,
) -> crew.Rank:
    """One process: global rank ``number``, which is ``number - spare`` in the ring."""
    ours, theirs = os.pipe()
    trace, written = os.pipe()
    parent = os.getpid()
    with warnings.catch_warnings():  # Python 3.12 warns where the caller has other threads
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid:
        os.close(theirs)
        os.close(written)
        return crew.Rank(number - spare, pid, ours, trace)
    try:
        system.die_with_parent(ORPHAN_SECONDS)
        if os.getppid() == parent:
            faulthandler.register(signal.SIGUSR1, file=written, all_threads=False)
            say = _Channel(theirs)

            def joined() -> Any:
                group, device = _join(number, spare, world, backend, seconds, meeting)
                beat = functools.partial(say, {"beat": True})
                beat()  # CUDA and NCCL take seconds to start: work has its own
                member = Member(number - spare, world, group, device, beat)
                return work(member) if member.rank >= 0 else None

            _answer(joined, say)
    finally:
        os._exit(0)


def _join(
    number: int, spare: int, world: int, backend: str, seconds: float, meeting: _Meeting
) -> tuple[Any, torch.device]:
    """The ring's group as this process sees it, and its device."""
    torch.set_num_threads(1)  # a pool of threads would not have survived the fork
    os.environ.setdefault("GLOO_SOCKET_IFNAME", system.LOOPBACK)
    device, options = torch.device("cpu"), {}
    if backend == "nccl":
        device = torch.device("cuda", number)
        torch.cuda.set_device(device)
        options["device_id"] = device
        # Messages go first: else they would wait until a whole kernel's blocks have started
        os.environ.setdefault("TORCH_NCCL_HIGH_PRIORITY", "1")
    dist.init_process_group(
        backend,
        store=meeting.store(),
        rank=number,
        world_size=spare + world,
        timeout=timedelta(seconds=seconds + 30),  # later than ours, which knows who waits
        **options,
    )
    group = dist.new_group(list(range(spare, spare + world))) if spare else dist.group.WORLD
    return group, device


def _answer(work: Callable[[], Any], say: "_Channel") -> None:
    """Send what ``work`` returned or raised, and stay until the process is ended.

    A rank that left at once would close its connections, perhaps before others have read.
    """
    try:
        say({"result": work()})
    except BaseException as error:  # SystemExit too: the others would wait for this rank
        say({"error": _described(error)})
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    while True:
        signal.pause()


class _Channel:
    """Sends one line of JSON a call to the process that forked this one."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __call__(self, said: dict[str, Any]) -> None:
        data = memoryview(json.dumps(said).encode() + b"\n")
        while data:
            data = data[os.write(self.fd, data) :]


def _described(error: BaseException) -> dict[str, Any]:
    frames = [(f.filename, f.lineno, f.line) for f in traceback.extract_tb(error.__traceback__)]
    return {
        "type": type(error).__name__,
        "kind": getattr(error, "kind", ""),
        "message": str(error)[:2000],
        "frames": frames[::-1][:50],
        "extra": getattr(error, "extra", None),
    }
