"""What the course asks of the operating system: Linux, and macOS with what it has. Floor: core.

On Linux a process is watched through /proc, ends with its parent and leaves its orphans to whoever
forked it. macOS has none of these: there ``ps`` tells of processes, alarms and groups end them.
The standard library alone, since processes that only fork import this.
"""

import contextlib
import ctypes
import os
import resource
import signal
import subprocess
import sys

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 1, 4, 36
_libc = ctypes.CDLL(None, use_errno=True)
LINUX = hasattr(os, "pidfd_open")
# Between two looks at a process: a look is three small files, or a program of its own
LOOK_SECONDS = 0.03 if LINUX else 0.25
LOOPBACK = "lo0" if sys.platform == "darwin" else "lo"
MANY = 256  # processes below one: nobody counts further


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if LINUX else os.cpu_count() or 1


def die_with_parent(seconds: float = 0.0) -> None:
    """End when the process that forked this one ends; where that cannot be, after ``seconds``.

    0 seconds: a process that looks after its parent by itself.
    """
    if LINUX:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    elif seconds:
        signal.setitimer(signal.ITIMER_REAL, seconds)


def hide_memory() -> None:
    """Processes that this one forks may not look into its memory (macOS never lets them)."""
    if LINUX:
        _libc.prctl(_PR_SET_DUMPABLE, 0)


def adopt_orphans() -> None:
    """Get as children what a child's death leaves (Linux alone; see ``end_group``)."""
    if LINUX:
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)


def limit_memory(more: int) -> None:
    """Let this process have so many bytes more; on macOS whoever watches must see to it."""
    if LINUX:
        data = _data_bytes() + more
        resource.setrlimit(resource.RLIMIT_DATA, (data, data))


def kill(pid: int) -> None:
    """Kill a process, and, where orphans are not adopted, all that are below it."""
    for one in [pid] if LINUX else [*below(pid), pid]:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(one, signal.SIGKILL)


def end_group(pid: int) -> None:
    """Kill what is left of the group that ``pid`` led, where orphans are not adopted."""
    if not LINUX:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


def end_handle(pid: int) -> int | None:
    """A descriptor that ``select`` finds ready when a child has ended; None: keep asking."""
    return os.pidfd_open(pid) if LINUX else None


def adopted(known: set[int]) -> set[int]:
    """Children of this process beside the known ones: orphans that it got."""
    return set(_children(os.getpid())) - known if LINUX else set()


def below(pid: int) -> list[int]:
    """All descendants of a process."""
    return _descendants(pid, _children if LINUX else _children_of(_table()))


def look(pid: int, base: int) -> tuple[int, int]:
    """How many processes ``pid`` and those below it are, and what they hold in bytes.

    What a process shares with ``base``, which forked it, does not count.
    """
    if LINUX:
        family = [pid, *_descendants(pid, _children)]
        held = [_resident(one) for one in [base, *family]]
    else:
        table = _table()
        family = [pid, *_descendants(pid, _children_of(table))]
        held = [table.get(one, (0, 0))[1] for one in [base, *family]]
    return len(family), sum(max(0, one - held[0]) for one in held[1:])


def _descendants(pid: int, children) -> list[int]:
    family = [pid]
    for member in family:
        if len(family) > MANY:
            break
        family += children(member)
    return family[1:]


# ---- /proc
def _children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as children:
                found += map(int, children.read().split())
    return found


def _resident(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm") as statm:
            fields = statm.read().split()
        return (int(fields[1]) - int(fields[2])) * resource.getpagesize()
    except (OSError, IndexError, ValueError):
        return 0


def _data_bytes() -> int:
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmData:"):
                return int(line.split()[1]) << 10
    return 0


# ---- ps
def _table() -> dict[int, tuple[int, int]]:
    """Parent and resident bytes of every process."""
    command = ["ps", "-A", "-o", "pid=", "-o", "ppid=", "-o", "rss="]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=10).stdout
    except (OSError, subprocess.TimeoutExpired):
        return {}
    rows = (line.split() for line in said.splitlines())
    return {int(pid): (int(parent), int(kb) << 10) for pid, parent, kb in rows}


def _children_of(table: dict[int, tuple[int, int]]):
    return lambda pid: [one for one, (parent, _) in table.items() if parent == pid]
