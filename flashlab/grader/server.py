"""The process from which workers are forked. It imports, forks and waits; it never computes.

Started as a script by ``pool``: root (imports once) -> lanes (one run at a time each) -> a worker
per run. It runs no torch operation: a fork after a threaded one hangs. When the socket to the
grader closes, everything below dies.
"""

import contextlib
import ctypes
import gc
import importlib
import os
import resource
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

PRELOAD = ("torch", "numpy", "triton", "triton.language", "flashlab.iocount")
OPTIONAL = (
    "flashlab.aot",
    "flashlab.pipeline",
    "flashlab.grader.ring",
    "triton.tools.tensor_descriptor",
    "triton.experimental.gluon.language",
)
POLL_SECONDS = 0.03
PROCESSES = 64
FILE_BYTES = 16 << 20
LOST = 70  # exit code of a worker whose own code failed
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 1, 4, 36
_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """``server.py fork|direct CONTROL PATH...``: import, then serve until the socket closes.

    "fork" forks lanes. "direct" runs every request in this process, which may use a GPU.
    CONTROL is the number of an inherited socket, or the path of one to call.
    """
    control = _control(sys.argv[2])
    sys.path[:] = sys.argv[3:]
    for name in PRELOAD:
        importlib.import_module(name)
    if sys.argv[1] == "direct":
        importlib.import_module("flashlab.grader.worker").serve(control.fileno())
        os._exit(0)
    for name in OPTIONAL:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    worker = importlib.import_module("flashlab.grader.worker")
    worker.prepare()
    _libc.prctl(_PR_SET_DUMPABLE, 0)  # a worker may not look into the memory of what forked it
    gc.collect()
    gc.freeze()
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _root(control, os.getppid(), worker.main)
    sweep()


def _control(name: str) -> socket.socket:
    if name.isdigit():
        return socket.socket(fileno=int(name))
    control = socket.socket(socket.AF_UNIX)
    control.connect(name)
    return control


def _root(control: socket.socket, parent: int, run: Callable[..., None]) -> None:
    lanes: set[int] = set()
    while os.getppid() == parent:
        if select.select([control], [], [], 0.25)[0]:
            data, fds = _receive(control, 1)
            if not data:
                return
            root = os.getpid()
            pid = os.fork()
            if pid == 0:
                try:
                    control.close()
                    _lane(socket.socket(fileno=fds[0]), root, run)
                finally:
                    os._exit(0)
            os.close(fds[0])
            lanes.add(pid)
        lanes -= _reap()
        for orphan in set(_children(os.getpid())) - lanes:
            _kill(orphan)


def _lane(control: socket.socket, root: int, run: Callable[..., None]) -> None:
    """Serve runs one after the other; end, and end everything below, when the socket closes."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    protocol = importlib.import_module("flashlab.grader.protocol")
    while os.getppid() == root:
        if not select.select([control], [], [], 1.0)[0]:
            continue
        data, fds = _receive(control, 2)
        if not data:
            break
        try:
            request, payload = protocol.read(control.fileno(), 1 << 32)
        except (EOFError, ConnectionError):
            break
        lane = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                control.close()
                _become_worker(lane, fds, request["limits"])
                run(request, payload, fds[0])
                os._exit(0)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(LOST)
        for fd in fds:
            os.close(fd)
        del payload
        ended = watch(pid, request["limits"], control)
        sweep()
        if not ended:
            break
        protocol.write(control.fileno(), protocol.frame({"run": request["run"], **ended}))
    sweep()


def _receive(control: socket.socket, count: int) -> tuple[bytes, list[int]]:
    """One byte and the descriptors sent with it; no byte when the other side has gone."""
    try:
        data, fds, _, _ = socket.recv_fds(control, 1, count)
    except ConnectionError:
        return b"", []
    return data, fds


def _become_worker(lane: int, fds: list[int], limits: dict[str, Any]) -> None:
    os.setsid()
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != lane:
        os._exit(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(fds[1], 1)
    os.dup2(fds[1], 2)
    for fd in (nothing, fds[1]):
        os.close(fd)
    cpu = int(limits["cpu_seconds"])
    data = _data_bytes() + int(limits["memory_bytes"])
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 1))
    resource.setrlimit(resource.RLIMIT_DATA, (data, data))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _data_bytes() -> int:
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmData:"):
                return int(line.split()[1]) << 10
    return 0


def watch(pid: int, limits: dict[str, Any], control: socket.socket) -> dict[str, Any]:
    """Wait for a worker, within its limits; empty when the grader has gone.

    Returns:
        ``how`` ("exit", "signal", "wall", "memory" or "processes"), ``code``, ``cpu_seconds``,
        ``seconds`` and ``peak_bytes``.
    """
    start, how, peak = time.monotonic(), "", 0
    baseline = _resident(os.getpid())
    handle = os.pidfd_open(pid)
    try:
        while True:
            ready = select.select([handle, control], [], [], POLL_SECONDS)[0]
            if handle in ready:
                break
            if control in ready and not how:
                os.kill(pid, signal.SIGKILL)
                return {}
            family = _family(pid)
            used = sum(max(0, _resident(p) - baseline) for p in family)
            peak = max(peak, used)
            if time.monotonic() - start > limits["wall_seconds"]:
                how = how or "wall"
            elif used > limits["memory_bytes"]:
                how = how or "memory"
            elif len(family) > PROCESSES:
                how = how or "processes"
            if how:
                _kill(pid)
    finally:
        os.close(handle)
    _, status, usage = os.wait4(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    return {
        "how": how or ("signal" if code < 0 else "exit"),
        "code": code,
        "seconds": time.monotonic() - start,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "peak_bytes": peak,
    }


def sweep() -> None:
    """Kill and reap children, also those adopted from the dead, until none is left."""
    while True:
        for child in _family(os.getpid())[1:]:
            _kill(child)
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.002)
        except ChildProcessError:
            return


def _reap() -> set[int]:
    gone = set()
    with contextlib.suppress(ChildProcessError):
        while (pid := os.waitpid(-1, os.WNOHANG)[0]) != 0:
            gone.add(pid)
    return gone


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as children:
                found += map(int, children.read().split())
    return found


def _family(pid: int) -> list[int]:
    """``pid`` and all its descendants."""
    family = [pid]
    for member in family:
        if len(family) > 4 * PROCESSES:
            break
        family += _children(member)
    return family


def _resident(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm") as statm:
            fields = statm.read().split()
        return (int(fields[1]) - int(fields[2])) * resource.getpagesize()
    except (OSError, IndexError, ValueError):
        return 0


if __name__ == "__main__":
    main()
