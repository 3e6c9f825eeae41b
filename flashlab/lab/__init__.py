"""``flashlab lab``: JupyterLab on a workspace, opened on the course home. Floor: front.

One server a workspace: a second start says where the first one is. Nothing here needs a network.
"""

import contextlib
import importlib.util
import json
import os
import signal
import sys
import time
import webbrowser
from collections.abc import Iterator
from pathlib import Path

from flashlab.lab import files, server
from flashlab.workspace import Workspace

FIRST_PORT = 8888


def serve(
    root: str | Path | None = None, port: int | None = None, open_browser: bool = True
) -> int:
    """Run JupyterLab on a workspace until Ctrl-C; returns the exit code.

    Args:
        root: The workspace; None is the current one (``FLASHLAB_WORK``, else ``work/``).
        port: First port to try; None is 8888. A taken one is passed over.
        open_browser: Open the course home in a browser, where there is a display.

    Raises:
        WorkspaceError: The workspace cannot be written.
    """
    if importlib.util.find_spec("triton") is None:
        print(
            "flashlab: Triton is missing, and without it no kernel runs: run `make setup` in the "
            "course's repository; on Windows use WSL, or open the labs on Google Colab.",
            file=sys.stderr,
        )
        return 2
    workspace = Workspace(root) if root else Workspace.current()
    workspace.create()
    folder = files.jupyter_dir(workspace.root)
    folder.mkdir(exist_ok=True)
    with _only_one(folder / "lock") as first:
        if first:
            return _serve_first(workspace.root, port or FIRST_PORT, open_browser)
    return _point_to_running(folder, open_browser)


def _serve_first(root: Path, port: int, open_browser: bool) -> int:
    for notice in files.lay_out(root):
        _say(notice)
    if os.geteuid() == 0:
        _say("You are root: fine in a container; elsewhere a user of your own is safer.")
    free = server.free_port(port)
    if free != port:
        _say(f"Port {port} is taken, so this is port {free}.")
    note = files.jupyter_dir(root) / "server.json"
    with _stopping_signals():
        lab = server.start(root, free)
        try:
            files.write_home(root)
            if not lab.wait_until_it_answers():
                return _failed(lab)
            _write_private(note, {"url": lab.url, "port": lab.port, "token": lab.token})
            _say(f"The course is at {lab.url}")
            _say(f"Your work is in {root} (your answers in its folder kernels/).")
            _say("Stop with Ctrl-C here; what is saved stays, and the same command goes on.")
            _open(lab.url, open_browser)
            return 0 if lab.process.wait() == 0 else _failed(lab)
        except KeyboardInterrupt:
            _say("Stopping.")
            return 0
        finally:
            note.unlink(missing_ok=True)
            lab.stop()


def _point_to_running(folder: Path, open_browser: bool) -> int:
    """Say where the server of this workspace is; it may still be starting."""
    deadline = time.monotonic() + server.START_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, ValueError):
            running = json.loads((folder / "server.json").read_text(encoding="utf-8"))
            if server.answers(running["port"], running["token"]):
                _say(f"The course is open already for this workspace: {running['url']}")
                _open(running["url"], open_browser)
                return 0
        time.sleep(0.3)
    log = folder / "server.log"
    _say(f"Another `flashlab lab` holds this workspace and does not answer: see {log}.")
    return 1


def _failed(lab: server.Server) -> int:
    tail = lab.log.read_text(encoding="utf-8", errors="replace").splitlines()[-12:]
    print("\n".join(tail), file=sys.stderr)
    print(f"flashlab: JupyterLab stopped by itself; all it said is in {lab.log}.", file=sys.stderr)
    return 1


@contextlib.contextmanager
def _stopping_signals() -> Iterator[None]:
    """A closed terminal and ``kill`` stop the server as Ctrl-C does."""

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _only_one(path: Path) -> Iterator[bool]:
    """True for the process that holds the lock; the system frees it however that process ends."""
    import fcntl  # absent on Windows, where the sentence about Triton still has to come

    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def _write_private(path: Path, data: dict[str, object]) -> None:
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(data, file)


def _open(url: str, wanted: bool) -> None:
    """Open a browser, but no text browser in a terminal without a display."""
    hints = ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME", "BROWSER")
    if wanted and (sys.platform == "darwin" or any(os.environ.get(name) for name in hints)):
        webbrowser.open(url)


def _say(text: str) -> None:
    print(f"flashlab: {text}", flush=True)
