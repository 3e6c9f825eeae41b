"""The process that compiles: a request a line on stdin, a result a line on stdout. Floor: core.

It imports torch and Triton once and never runs a learner's code itself: each job is a forked
child, so that a crash, an endless loop or a greedy compile ends that job alone.
"""

import contextlib
import json
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flashlab.aot import refusals
from flashlab.aot.build import build
from flashlab.aot.launch import Launch

MEMORY_BYTES = 6 << 30  # private memory of one job; a compile takes about 0.5 GB
FILE_BYTES = 256 << 20  # of one file that a job writes
FOLDERS = "flashlab-aot-"
ANSWER_BYTES = 1 << 20  # of one job; a longer answer is none
WARM_UP = """
import triton


@triton.jit
def warm_up_kernel(x):
    pass
"""


class Job:
    """One launch and target, in a child process."""

    def __init__(self, request: dict[str, Any], number: int, folder: str) -> None:
        spec = request["jobs"][number]
        self.number, self.arch, self.filename = number, spec["arch"], request["filename"]
        self.folder = Path(tempfile.mkdtemp(dir=folder))
        self.started = time.monotonic()
        self.deadline = self.started + request["timeout"]
        self.ended, child_end = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            self._child(request["text"], spec["launch"], child_end)
        os.close(child_end)

    def _child(self, text: str, launch: dict[str, Any], pipe: int) -> None:
        """Compile, leave result.json in the folder, end (which closes the pipe)."""
        status = 1
        try:
            os.setsid()
            _die_with_parent()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.closerange(3, pipe)  # a job cannot speak for another one
            os.closerange(pipe + 1, 256)
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
            resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
            for fd, name in ((1, "stdout"), (2, "stderr")):
                os.dup2(os.open(self.folder / name, os.O_WRONLY | os.O_CREAT), fd)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.environ["TRITON_CACHE_DIR"] = str(self.folder)
            tempfile.tempdir = str(self.folder)
            result = build(text, self.filename, Launch.from_json(launch), self.arch)
            sys.stderr.flush()
            result = refusals.locate(result, self._said(), self.filename)
            (self.folder / "result.json").write_text(json.dumps(result))
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)

    def _said(self) -> str:
        """The end of what the compiler printed."""
        try:
            with (self.folder / "stderr").open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - ANSWER_BYTES))
                return file.read().decode(errors="replace")
        except OSError:
            return ""

    def result(self, timed_out: bool) -> dict[str, Any]:
        """Reap the child and say what it found; the folder goes."""
        for kill in (
            os.killpg,
            os.kill,
        ):  # the second for a child that has no group of its own yet
            with contextlib.suppress(ProcessLookupError):
                kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        os.close(self.ended)
        try:
            if timed_out:
                return refusals.timeout(self.arch)
            try:
                with (self.folder / "result.json").open() as file:
                    return dict(json.loads(file.read(ANSWER_BYTES)))
            except (OSError, ValueError, TypeError):
                code = os.waitstatus_to_exitcode(status)
                return refusals.crash(self._said(), code, self.arch, self.filename)
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)


def run(request: dict[str, Any], folder: str, send: Any, parent: int) -> None:
    """Do all jobs of a request, a few at a time, and send each result when it is there."""
    waiting = deque(range(len(request["jobs"])))
    running: list[Job] = []
    try:
        while (waiting or running) and os.getppid() == parent:
            while waiting and len(running) < request["parallel"]:
                running.append(Job(request, waiting.popleft(), folder))
            pause = min(job.deadline for job in running) - time.monotonic()
            ready, _, _ = select.select([j.ended for j in running], [], [], max(0, min(pause, 1)))
            now = time.monotonic()
            for job in [j for j in running if j.ended in ready or j.deadline <= now]:
                running.remove(job)
                result = job.result(timed_out=job.ended not in ready)
                send({"job": job.number, **result, "seconds": now - job.started})
    finally:
        for job in running:
            job.result(timed_out=True)


def _warm_up(folder: str) -> None:
    """Compile a trivial kernel: its one-off costs (a hash of Triton's files, 0.3 s) are inherited.

    Leaves this process with one thread, so that forking stays safe (tested).
    """
    os.environ["TRITON_CACHE_DIR"] = folder
    launch = Launch("warm_up_kernel", (1,), {"x": "*fp32"}, (), (), {}, {})
    for arch in (80, 100):  # two assemblers
        build(WARM_UP, "warm_up.py", launch, arch)


def _sweep() -> None:
    """Remove what workers left that were killed more than an hour ago."""
    for folder in Path(tempfile.gettempdir()).glob(FOLDERS + "*-*"):
        with contextlib.suppress(OSError, ValueError):
            pid = int(folder.name.removeprefix(FOLDERS).split("-")[0])
            if time.time() - folder.stat().st_mtime > 3600 and not Path(f"/proc/{pid}").exists():
                shutil.rmtree(folder)


def _die_with_parent() -> None:
    import ctypes

    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _requests(parent: int) -> Iterator[dict[str, Any]]:
    """Requests from stdin until it ends or the parent is gone (a fork of it may hold the pipe)."""
    buffer = b""
    while os.getppid() == parent:
        if not select.select([0], [], [], 5)[0]:
            continue
        chunk = os.read(0, 1 << 16)
        if not chunk:
            return
        *lines, buffer = (buffer + chunk).split(b"\n")
        yield from map(json.loads, lines)


def main() -> None:
    """Serve requests until stdin ends."""
    import torch

    torch.set_num_threads(1)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    parent = os.getppid()
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def send(message: dict[str, Any]) -> None:
        out.write(json.dumps(message) + "\n")
        out.flush()

    _sweep()
    with tempfile.TemporaryDirectory(prefix=f"{FOLDERS}{os.getpid()}-") as folder:
        _warm_up(folder)
        for request in _requests(parent):
            run(request, folder, send, parent)
            send({"done": True})


if __name__ == "__main__":
    main()
