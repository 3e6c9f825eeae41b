"""Marks jobs on this machine, a process a core; replaces those that are lost. Floor: front."""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from flashlab.classroom import grade_job

JOB_SECONDS = 900.0  # after which a worker counts as lost; with a GPU the others' turns as well
MOST_LOSSES = 2  # on one job; then it is put aside
COMMAND = [sys.executable, "-P", "-m", "flashlab.classroom.grade_worker"]
Job = Mapping[str, Any]


class Worker:
    """One process of ``grade_worker`` and the job that it is at."""

    def __init__(self, log: Path) -> None:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("TRITON_")}
        environment["PYTHONPATH"] = os.pathsep.join(os.path.abspath(p) for p in sys.path if p)
        with open(log, "ab") as said:
            self.process = subprocess.Popen(
                COMMAND,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                start_new_session=True,
                env=environment,
            )
        self.job: Job | None = None
        self.since = time.monotonic()
        self._buffer = bytearray()

    def send(self, job: Job) -> None:
        """Hand it a job; a process that has gone is seen when its output ends."""
        self.job, self.since = job, time.monotonic()
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(job).encode() + b"\n")
            self.process.stdin.flush()

    def read(self) -> dict[str, Any] | None:
        """A result, if a whole one came.

        Raises:
            EOFError: the process has gone.
        """
        chunk = os.read(self.process.stdout.fileno(), 1 << 20)
        if not chunk:
            raise EOFError
        self._buffer += chunk
        line, end, rest = self._buffer.partition(b"\n")
        if not end:
            return None
        self._buffer = rest
        return json.loads(line)

    def end(self) -> str:
        """Kill it and everything below it; how it had ended by itself."""
        code = self.process.poll()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        return "it did not end in time" if code is None else f"it ended with code {code}"


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


def mark(
    jobs: Sequence[Job],
    workers: int,
    losses: Callable[[str], int],
    note_loss: Callable[[str], int],
    log: Path,
) -> Iterator[dict[str, Any]]:
    """Results as they come.

    Args:
        jobs: Payloads of ``grade_job``.
        workers: Processes side by side.
        losses, note_loss: How many workers were lost on a job so far, and one more was.
        log: File for what workers say when they fail.
    """
    waiting = deque(jobs)
    chosen = selectors.DefaultSelector()
    busy: set[Worker] = set()
    idle: list[Worker] = []
    try:
        while waiting or busy:
            while waiting and len(busy) < workers:
                job = waiting.popleft()
                if losses(job["key"]) >= MOST_LOSSES:
                    yield grade_job.lost(job, f"{MOST_LOSSES} workers were lost on it")
                    continue
                worker = idle.pop() if idle else Worker(log)
                worker.send(job)
                chosen.register(worker.process.stdout, selectors.EVENT_READ, worker)
                busy.add(worker)
            for worker, result in _ready(chosen, busy, workers):
                busy.discard(worker)
                chosen.unregister(worker.process.stdout)
                if result is not None:
                    idle.append(worker)
                    yield result
                    continue
                worker.end()
                note_loss(worker.job["key"])
                waiting.appendleft(worker.job)
    finally:
        for worker in (*busy, *idle):
            worker.end()
        chosen.close()


def _ready(
    chosen: selectors.BaseSelector, busy: set[Worker], workers: int
) -> Iterator[tuple[Worker, dict[str, Any] | None]]:
    """Workers with their result, or with None where they are lost."""
    for key, _ in chosen.select(1.0):
        try:
            result = key.data.read()
        except (EOFError, ValueError):
            yield key.data, None
            continue
        if result is not None:
            yield key.data, result
    now = time.monotonic()
    for worker in list(busy):
        turns = 1 if worker.job["tier"] == "cpu" else workers
        if now - worker.since > JOB_SECONDS * turns:
            yield worker, None
