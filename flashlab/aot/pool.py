"""The caller's side of offline compilation: a warm worker, requests, results. Floor: core."""

import atexit
import contextlib
import dataclasses
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from flashlab import compiler, system
from flashlab.aot.compiled import Compiled
from flashlab.aot.launch import Launch

STARTUP_SECONDS = 60.0


class WorkerLost(Exception):
    """The worker process ended or stopped answering."""


class Compiler:
    """Compiles launches in a worker process, which starts on first use and stays warm.

    Args:
        command: Puts the worker's command into another, such as that of a sandbox.
    """

    def __init__(self, command: Callable[[list[str]], list[str]] | None = None) -> None:
        self._command = command or (lambda words: words)
        self._process: subprocess.Popen[bytes] | None = None
        self._buffer = b""
        self._lock = threading.Lock()

    def compile(
        self,
        module_text: str,
        filename: str,
        launches: Sequence[Launch],
        archs: Sequence[int],
        timeout: float = 60.0,
    ) -> list[Compiled]:
        """Compile each distinct launch for each target; see ``compile_launches``."""
        unique = list({_code_key(launch): launch for launch in launches}.values())
        pairs = [(launch, arch) for launch in unique for arch in archs]
        if not compiler.here():
            said = {"error": "not run", "sentence": compiler.NONE_HERE}
            return [Compiled.of(launch, arch, said) for launch, arch in pairs]
        parallel = max(1, min(system.cores(), 8))
        request = {
            "text": module_text,
            "filename": filename,
            "timeout": timeout,
            "parallel": parallel,
            "jobs": [{"launch": launch.to_json(), "arch": arch} for launch, arch in pairs],
        }
        rounds = -(-len(pairs) // parallel)
        with self._lock:
            found = self._ask(request, rounds * timeout + 10)
        lost = {
            "error": "crash",
            "sentence": "the compiling process was lost; run the check again",
        }
        return [
            Compiled.of(launch, arch, found.get(i, lost)) for i, (launch, arch) in enumerate(pairs)
        ]

    def warm(self) -> None:
        """Start the worker now, without waiting for it."""
        with self._lock:
            self._start()

    def close(self) -> None:
        """End the worker; the next request starts another."""
        process, self._process, self._buffer = self._process, None, b""
        if process is None:
            return
        with contextlib.suppress(OSError):
            process.stdin.close()
        process.terminate()
        try:
            process.wait(3)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        process.stdout.close()

    def _start(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.close()
        self._process = subprocess.Popen(
            self._command([sys.executable, "-P", "-m", "flashlab.aot.worker"]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=_environment(),
            start_new_session=True,  # Jupyter's Stop interrupts the whole group of its kernel
        )
        return self._process

    def _ask(self, request: Mapping[str, Any], seconds: float) -> dict[int, dict[str, Any]]:
        found: dict[int, dict[str, Any]] = {}
        if not request["jobs"]:
            return found
        deadline = time.monotonic() + seconds + STARTUP_SECONDS
        try:
            process = self._start()
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            while True:
                message = json.loads(self._line(process, deadline))
                if "done" in message:
                    return found
                if "job" in message:
                    found[message.pop("job")] = message
        except (OSError, WorkerLost):
            self.close()
            return found
        except BaseException:
            self.close()  # an interrupt: half an answer must not meet the next request
            raise

    def _line(self, process: subprocess.Popen[bytes], deadline: float) -> bytes:
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([process.stdout], [], [], left)[0]:
                raise WorkerLost
            chunk = os.read(process.stdout.fileno(), 1 << 16)
            if not chunk:
                raise WorkerLost
            self._buffer += chunk
        line, self._buffer = self._buffer.split(b"\n", 1)
        return line


def _code_key(launch: Launch) -> str:
    return json.dumps(dataclasses.replace(launch, grid=()).to_json(), sort_keys=True)


def _environment() -> dict[str, str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith("TRITON_")}
    paths = [os.path.abspath(p) for p in sys.path if p]
    env.update(
        TRITON_DEFAULT_FP_FUSION="1",
        PYTHONPATH=os.pathsep.join([*paths, *([] if "" not in sys.path else [os.getcwd()])]),
        OPENBLAS_NUM_THREADS="1",  # forked jobs must find no other thread
        OMP_NUM_THREADS="1",
        CUDA_VISIBLE_DEVICES="",
    )
    return env


_shared = Compiler()
_own = _shared
atexit.register(_own.close)


@contextlib.contextmanager
def through(held: Compiler) -> Iterator[Compiler]:
    """Within this, every compilation of this process goes through ``held``, such as a sandbox."""
    global _shared
    before, _shared = _shared, held
    try:
        yield held
    finally:
        _shared = before


def warm() -> None:
    """Start the shared worker ahead of the first ``compile_launches``."""
    if compiler.here():
        _shared.warm()


def compile_launches(
    module_text: str,
    filename: str,
    launches: Sequence[Launch],
    archs: Sequence[int],
    timeout: float = 60.0,
) -> list[Compiled]:
    """Compile launches for GPUs that need not be there.

    The module's text is executed afresh in a subprocess, never here. Launches that give the same
    code are compiled once. What a target refuses, a crash or a timeout is a sentence in its row;
    the other rows are not affected. Without a compiler here every row says so ("not run").

    Args:
        module_text: Python text that defines the kernels at module level.
        filename: What error messages call that text.
        launches: From ``describe_launch`` or ``capture``.
        archs: Compute capabilities as ints, such as 80 for sm_80.
        timeout: Seconds for one launch and target.

    Returns:
        One row per distinct launch and target, launches in order, targets within a launch.
    """
    return _shared.compile(module_text, filename, launches, archs, timeout)
