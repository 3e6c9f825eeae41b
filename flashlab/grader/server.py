"""The process from which workers are forked. It imports, forks and waits; it never computes.

Started as a script by ``pool``: root (imports once) -> lanes (one run at a time each) -> a worker
per run. It runs no torch operation: a fork after a threaded one hangs. When the socket to the
grader closes, everything below dies.
"""

import contextlib
import gc
import importlib
import os
import resource
import select
import socket
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

PRELOAD = ("flashlab", "torch", "numpy", "triton", "triton.language", "flashlab.iocount")
OPTIONAL = (
    "flashlab.aot",
    "flashlab.pipeline",
    "flashlab.grader.ring",
    "triton.tools.tensor_descriptor",
    "triton.experimental.gluon.language",
)
ASK_SECONDS = 0.005  # between two questions whether a worker has ended, where nothing tells
LATE_SECONDS = 10.0  # beyond its limit, after which a worker that nobody watches ends itself
PROCESSES = 64
FILE_BYTES = 16 << 20
LOST = 70  # exit code of a worker whose own code failed


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
    system = _system()
    system.hide_memory()
    gc.collect()
    gc.freeze()
    system.adopt_orphans()
    _root(control, os.getppid(), worker.main)
    sweep()


def _system() -> Any:
    """``flashlab.system``, once ``sys.path`` leads to it."""
    return importlib.import_module("flashlab.system")


def _control(name: str) -> socket.socket:
    if name.isdigit():
        return socket.socket(fileno=int(name))
    control = socket.socket(socket.AF_UNIX)
    control.connect(name)
    return control


def _root(control: socket.socket, parent: int, run: Callable[..., None]) -> None:
    lanes: set[int] = set()
    adopted, kill = _system().adopted, _system().kill
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
        for orphan in adopted(lanes):
            kill(orphan)


def _lane(control: socket.socket, root: int, run: Callable[..., None]) -> None:
    """Serve runs one after the other; end, and end everything below, when the socket closes."""
    _system().die_with_parent()
    _system().adopt_orphans()
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
    if data and not _system().LINUX:
        control.sendall(b"A")
    return data, fds


def _become_worker(lane: int, fds: list[int], limits: dict[str, Any]) -> None:
    os.setsid()
    _system().die_with_parent(limits["wall_seconds"] + LATE_SECONDS)
    if os.getppid() != lane:
        os._exit(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(fds[1], 1)
    os.dup2(fds[1], 2)
    for fd in (nothing, fds[1]):
        os.close(fd)
    cpu = int(limits["cpu_seconds"])
    _system().limit_memory(int(limits["memory_bytes"]))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def watch(pid: int, limits: dict[str, Any], control: socket.socket) -> dict[str, Any]:
    """Wait for a worker, within its limits; empty when the grader has gone.

    Returns:
        ``how`` ("exit", "signal", "wall", "memory" or "processes"), ``code``, ``cpu_seconds``,
        ``seconds`` and ``peak_bytes``.
    """
    system = _system()
    start, how, peak, looked = time.monotonic(), "", 0, 0.0
    handle = system.end_handle(pid)
    watched = [control] if handle is None else [control, handle]
    pause = ASK_SECONDS if handle is None else system.LOOK_SECONDS
    try:
        while True:
            ready = select.select(watched, [], [], pause)[0]
            ended, status, usage = os.wait4(pid, os.WNOHANG)
            if ended:
                break
            if control in ready and not how:
                system.kill(pid)
                return {}
            now = time.monotonic()
            if now - start > limits["wall_seconds"]:
                how = how or "wall"
            elif now - max(start, looked) >= system.LOOK_SECONDS:
                count, used = system.look(pid, os.getpid())
                looked, peak = time.monotonic(), max(peak, used)
                if used > limits["memory_bytes"]:
                    how = how or "memory"
                elif count > PROCESSES:
                    how = how or "processes"
            if how:
                system.kill(pid)
    finally:
        system.end_group(pid)
        if handle is not None:
            os.close(handle)
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
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                for child in _system().below(os.getpid()):
                    _system().kill(child)
                time.sleep(0.002)
        except ChildProcessError:
            return


def _reap() -> set[int]:
    gone = set()
    with contextlib.suppress(ChildProcessError):
        while (pid := os.waitpid(-1, os.WNOHANG)[0]) != 0:
            gone.add(pid)
    return gone


if __name__ == "__main__":
    main()
