"""Processor time of everything below this process, in a sandbox or not. Floor: front."""

import os
import time
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds() -> float:
    """Used so far by this process, by those below it that live, and by what they waited for."""
    return time.process_time() + sum(map(_used, _below(os.getpid())))


def _below(pid: int) -> list[int]:
    found = [pid]
    for member in found:
        try:
            texts = [(t / "children").read_text() for t in Path(f"/proc/{member}/task").iterdir()]
        except OSError:
            continue
        found += [int(number) for text in texts for number in text.split()]
    return found[1:]


def _used(pid: int) -> float:
    """Own time and that of children it waited for; 0 if it has gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / _TICKS  # utime, stime, cutime, cstime
