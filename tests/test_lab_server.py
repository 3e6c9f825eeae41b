"""``flashlab lab``: what it lays into a workspace, and the server that it starts and stops."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pytest

from flashlab import lab, sources
from flashlab.lab import files, server


def _notebook(*cells: str) -> str:
    rows = [{"cell_type": "code", "source": [cell], "outputs": []} for cell in cells]
    return json.dumps({"cells": rows, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A course of one chapter and one lab."""
    for name in ("chapters/00_start.ipynb", "labs/00_start.ipynb"):
        path = tmp_path / "course" / name
        path.parent.mkdir(parents=True)
        path.write_text(_notebook("first version"))
    monkeypatch.setattr(sources, "course_dir", lambda: tmp_path / "course")
    return tmp_path / "course"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "work"


def test_a_new_workspace_has_copies_of_all_notebooks(course, root):
    assert files.lay_out(root) == []
    assert (root / "chapters/00_start.ipynb").read_text() == _notebook("first version")
    assert (root / "labs/00_start.ipynb").read_text() == _notebook("first version")
    assert (root / ".flashlab-workspace").is_file()
    assert (root / "kernels").is_dir()


def test_a_copy_that_was_only_run_is_renewed(course, root):
    files.lay_out(root)
    ran = json.loads((root / "labs/00_start.ipynb").read_text())
    ran["cells"][0] |= {"outputs": [{"output_type": "stream"}], "execution_count": 3}
    (root / "labs/00_start.ipynb").write_text(json.dumps(ran))
    (course / "labs/00_start.ipynb").write_text(_notebook("second version"))
    assert files.lay_out(root) == []
    assert (root / "labs/00_start.ipynb").read_text() == _notebook("second version")


def test_a_changed_copy_gets_the_newer_one_beside_it(course, root):
    mine, newer = root / "labs/00_start.ipynb", root / "labs/00_start.new.ipynb"
    files.lay_out(root)
    mine.write_text(_notebook("my answer"))
    assert files.lay_out(root) == []
    for version in ("second version", "third version"):
        (course / "labs/00_start.ipynb").write_text(_notebook(version))
        (notice,) = files.lay_out(root)
        assert "the new one is labs/00_start.new.ipynb" in notice
        assert files.lay_out(root) == []
        assert mine.read_text() == _notebook("my answer")
        assert newer.read_text() == _notebook(version)
    newer.write_text(_notebook("mine too"))
    (course / "labs/00_start.ipynb").write_text(_notebook("fourth version"))
    (notice,) = files.lay_out(root)
    assert "both have changes of yours" in notice
    assert (mine.read_text(), newer.read_text()) == (_notebook("my answer"), _notebook("mine too"))
    newer.unlink()
    mine.rename(root / "labs/mine.ipynb")
    assert files.lay_out(root) == []
    assert mine.read_text() == _notebook("fourth version")


def test_a_changed_copy_survives_a_lost_record(course, root):
    files.lay_out(root)
    (root / "labs/00_start.ipynb").write_text(_notebook("my answer"))
    (files.jupyter_dir(root) / "copies.json").write_text("{ broken")
    assert len(files.lay_out(root)) == 1
    assert (root / "labs/00_start.ipynb").read_text() == _notebook("my answer")


def test_a_file_that_is_no_notebook_is_left_alone(course, root):
    files.lay_out(root)
    (root / "labs/00_start.ipynb").write_text("half a notebook")
    (course / "labs/00_start.ipynb").write_text(_notebook("second version"))
    assert len(files.lay_out(root)) == 1
    assert (root / "labs/00_start.ipynb").read_text() == "half a notebook"


def test_settings_of_the_learner_are_not_touched(course, root):
    files.lay_out(root)
    profile = files.jupyter_dir(root) / "ipython" / "profile_default" / "ipython_config.py"
    profile.write_text(profile.read_text() + "c.InteractiveShell.colors = 'nocolor'\n")
    before = profile.read_text()
    files.lay_out(root)
    assert profile.read_text() == before


def test_the_home_notebook_is_trusted_and_holds_its_page(root):
    import nbformat
    from nbformat.sign import NotebookNotary

    files.lay_out(root)
    files.write_home(root)
    home = nbformat.read(root / "home.ipynb", as_version=4)
    nbformat.validate(home)
    assert "exercises passed" in home.cells[0].outputs[0].data["text/html"]
    assert NotebookNotary(data_dir=str(files.jupyter_dir(root) / "data")).check_signature(home)


def test_a_workspace_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    done = subprocess.run(
        [sys.executable, "-m", "flashlab", "lab"],
        env={**os.environ, "FLASHLAB_WORK": str(tmp_path / "file" / "work")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "stands where a folder is expected" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_triton_there_is_a_way_out(root, monkeypatch, capsys):
    monkeypatch.setattr(lab.importlib.util, "find_spec", lambda name: None)
    assert lab.serve(root) == 2
    said = capsys.readouterr().err
    assert "Colab" in said and "WSL" in said
    assert not root.exists()


def test_a_taken_port_is_passed_over():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert server.free_port(port) > port


def test_no_free_port_says_what_to_do():
    with pytest.raises(ValueError, match="--port"):
        server.free_port(65536)


def test_no_text_browser_is_opened_in_a_terminal(monkeypatch):
    opened = []
    monkeypatch.setattr(lab.webbrowser, "open", opened.append)
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "darwin")  # has a browser, and says nothing of a display
    lab._open("http://127.0.0.1", wanted=True)
    assert opened.pop() == "http://127.0.0.1"
    monkeypatch.setattr(sys, "platform", "linux")
    lab._open("http://127.0.0.1", wanted=True)
    assert opened == []
    monkeypatch.setenv("DISPLAY", ":0")
    lab._open("http://127.0.0.1", wanted=False)
    assert opened == []
    lab._open("http://127.0.0.1", wanted=True)
    assert opened == ["http://127.0.0.1"]


class Lab:
    """A running ``flashlab lab``; ``said`` grows line by line."""

    def __init__(self, root: Path, port: int) -> None:
        command = [sys.executable, "-m", "flashlab", "lab", "--no-browser", "--port", str(port)]
        self.process = subprocess.Popen(
            command,
            env={**os.environ, "FLASHLAB_WORK": str(root)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.said: list[str] = []
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self) -> None:
        for line in self.process.stdout:
            self.said.append(line)

    def wait_for(self, pattern: str) -> str:
        """The first match in what it said; waits for it."""
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline:
            if found := re.search(pattern, "".join(self.said)):
                return found.group()
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        raise AssertionError(f"{pattern} was not said, but {''.join(self.said)}")

    def end(self, number: int) -> int:
        """Send a signal, wait for the end; returns the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(30)
        self.reader.join()
        self.process.stdout.close()
        return code


@contextlib.contextmanager
def _running(root: Path, port: int):
    started = Lab(root, port)
    try:
        yield started
    finally:
        started.end(signal.SIGTERM)


def _get(url: str) -> tuple[int, str]:
    with urllib.request.urlopen(url, timeout=20) as reply:
        return reply.status, reply.read().decode()


def test_a_lab_from_start_to_stop(root, tmp_path, own_home):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with _running(root, port) as first:
            first.wait_for(f"Port {port} is taken")
            with _running(root, port) as second:  # while the first one is still starting
                assert second.process.wait(120) == 0
                url = second.wait_for(r"open already for this workspace: http\S+").split()[-1]
            assert first.wait_for(r"http://127\S+") == url
            first.wait_for("Stop with Ctrl-C")
            said = "".join(first.said)
            assert ("You are root" in said) == (os.geteuid() == 0)
            assert _get(url)[0] == 200
            base, token = re.match(r"(http://[^/]+)/.*token=(\w+)", url).groups()
            home = json.loads(_get(f"{base}/api/contents/home.ipynb?token={token}")[1])
            assert home["content"]["cells"][0]["metadata"]["trusted"] is True
            with pytest.raises(urllib.error.HTTPError, match="403"):
                _get(f"{base}/api/contents/home.ipynb")
            _check_settings(base, token)

            with _running(tmp_path / "other", port) as neighbour:
                assert neighbour.wait_for(r"http://127\S+") != url

            assert first.end(signal.SIGINT) == 0
            assert "Stopping." in "".join(first.said)
            assert not server.answers(int(base.rsplit(":", 1)[1]), token)
    assert not (files.jupyter_dir(root) / "server.json").exists()
    assert list(own_home.iterdir()) == []


def _check_settings(base: str, token: str) -> None:
    """No news pop-up, and cells outside the window stay in the page."""
    for plugin, setting in (
        ("@jupyterlab/notebook-extension:tracker", '"windowingMode":"none"'),
        ("@jupyterlab/apputils-extension:notification", '"fetchNews":"false"'),
    ):
        reply = json.loads(_get(f"{base}/lab/api/settings/{plugin}?token={token}")[1])
        defaults = {name: row["default"] for name, row in reply["schema"]["properties"].items()}
        assert setting in json.dumps(defaults, separators=(",", ":"))


def test_a_server_that_stops_by_itself_shows_its_log(root, monkeypatch, capsys):
    real = server.start

    def broken(root: Path, port: int) -> server.Server:
        started = real(root, port)
        started.stop()
        started.log.write_text("the reason\n")
        return started

    monkeypatch.setattr(server, "start", broken)
    assert lab.serve(root, open_browser=False) == 1
    said = capsys.readouterr().err
    assert "the reason" in said and "server.log" in said
