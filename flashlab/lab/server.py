"""One JupyterLab server as a process: start, ask, stop. Floor: front."""

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from flashlab.lab import files

START_SECONDS = 120
STOP_SECONDS = 15


@dataclass
class Server:
    """A JupyterLab server that was started here; ``log`` is all that it says."""

    process: subprocess.Popen
    port: int
    token: str
    log: Path

    @property
    def url(self) -> str:
        """The course home, with the token that opens it."""
        return f"http://127.0.0.1:{self.port}/lab/tree/{files.HOME}?token={self.token}"

    def wait_until_it_answers(self) -> bool:
        """False if it stopped or stayed silent for ``START_SECONDS``."""
        deadline = time.monotonic() + START_SECONDS
        while self.process.poll() is None and time.monotonic() < deadline:
            if answers(self.port, self.token):
                return True
            time.sleep(0.1)
        return False

    def stop(self) -> None:
        """End the server and with it its kernels."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()


def start(root: Path, port: int) -> Server:
    """Start a server rooted in the workspace ``root``; only this machine can reach it."""
    token = secrets.token_hex(24)
    log = files.jupyter_dir(root) / "server.log"
    command = [sys.executable, "-m", "jupyterlab", "--no-browser"]
    command += ["--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}"]
    command += ["--ServerApp.port_retries=0", f"--ServerApp.root_dir={root}"]
    command += [f"--LabApp.default_url=/lab/tree/{files.HOME}"]
    command += ["--LabApp.extension_manager=readonly"]  # the default one asks a package index
    command += ["--LanguageServerManager.autodetect=False"]  # it runs npm, which writes at home
    if os.geteuid() == 0:
        command.append("--allow-root")
    with log.open("w", encoding="utf-8") as sink:
        process = subprocess.Popen(
            command,
            cwd=root,
            env={**os.environ, **files.environment(root), "JUPYTER_TOKEN": token},
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C reaches the caller alone, which stops the server
        )
    return Server(process, port, token, log)


def free_port(first: int) -> int:
    """The first port from ``first`` on that nothing on this machine listens to.

    Raises:
        ValueError: None of the next 200 is free.
    """
    for port in range(first, min(first + 200, 65536)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise ValueError(f"no port from {first} on is free: name another first one with --port")


def answers(port: int, token: str) -> bool:
    """True if a Jupyter server with this token listens on the port."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/api/status", headers={"Authorization": f"token {token}"}
    )
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(request, timeout=5) as reply:
            return reply.status == 200
    except (urllib.error.URLError, OSError):
        return False
