"""``flashlab watch``: saves are checked, keys answered, the next exercise comes by itself."""

import io
import os
import pty
import re
import select
import subprocess
import sys
import time

import pytest
from rich.console import Console

from flashlab import exercises, learner, sources, watch
from flashlab.workspace import Workspace

FIRST, SECOND = exercises.SYLLABUS[:2]


class Terminal:
    """``flashlab watch`` in a terminal; ``text`` is all that it wrote."""

    def __init__(self, *arguments: str) -> None:
        self.end, inside = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "flashlab", "watch", *arguments],
            stdin=inside, stdout=inside, stderr=inside, env={**os.environ, "TERM": "xterm"},
        )  # fmt: skip
        os.close(inside)
        self.text = ""

    def wait_for(self, pattern: str) -> None:
        deadline = time.monotonic() + 90
        while not re.search(pattern, self.text):
            assert time.monotonic() < deadline, f"{pattern} is not in {self.text[-2000:]}"
            if select.select([self.end], [], [], 0.2)[0]:
                try:
                    self.text += os.read(self.end, 65536).decode("utf-8", "replace")
                except OSError:  # the other end is closed
                    assert re.search(pattern, self.text), self.text[-2000:]

    def press(self, keys: str) -> None:
        self.text = ""
        os.write(self.end, keys.encode())


@pytest.fixture
def terminal():
    opened = []

    def start(*arguments):
        opened.append(Terminal(*arguments))
        return opened[-1]

    yield start
    for one in opened:
        if one.process.poll() is None:
            one.process.kill()
        one.process.wait()
        os.close(one.end)


def test_a_save_is_checked_and_the_next_exercise_comes_by_itself(terminal):
    seen = terminal()
    seen.wait_for(r"Write step 1 in .*vector_scale\.py")
    path = Workspace.current().kernel_path(FIRST)
    assert path.read_text() == sources.stub_text(FIRST)
    seen.press("h")
    seen.wait_for("Hint 1 of")
    path.write_text("def vector_scale(x, a):\n    return x\n")
    seen.wait_for(r"FAIL[^\n]*vector_scale")
    seen.press("r")
    seen.wait_for("r once more puts vector_scale back")
    seen.press("r")
    seen.wait_for("stub")
    assert path.read_text() == sources.stub_text(FIRST)
    path.write_text(sources.without_markers(sources.solution_text(FIRST)))
    seen.wait_for(rf"vector_scale passed\.(.|\n)*Write step 1 in .*{SECOND}\.py")
    assert "1 of " in seen.text
    seen.press("q")
    assert seen.process.wait(20) == 0
    assert Workspace.current().hints_opened(FIRST) == 1


class Fake:
    """A watch without a terminal; ``said`` is what is on its screen."""

    def __init__(self, slug=FIRST) -> None:
        self.screen = io.StringIO()
        console = Console(file=self.screen, width=100, highlight=False)
        self.pressed = []
        self.watch = watch.Watch(slug, lambda _: self.pressed.pop(0), console)

    @property
    def said(self) -> str:
        return self.screen.getvalue()


def test_reset_asks_once_and_keeps_the_text():
    fake = Fake()
    Workspace.current().fill(FIRST, "mine = 1\n")
    path = Workspace.current().kernel_path(FIRST)
    fake.watch.answer("r")
    assert path.read_text() == "mine = 1\n"
    fake.watch.answer("l")
    fake.watch.answer("r")
    assert path.read_text() == "mine = 1\n", "another key in between takes the question back"
    fake.watch.answer("r")
    assert path.read_text() == sources.stub_text(FIRST)
    assert any(e.path.read_text() == "mine = 1\n" for e in Workspace.current().history(FIRST))
    assert not fake.watch.changed()


def test_next_and_previous_stop_at_the_ends():
    fake = Fake()
    fake.watch.answer("p")
    assert fake.watch.slug == FIRST
    fake.watch.answer("n")
    assert fake.watch.slug == SECOND
    fake.pressed = ["?", "q"]
    assert fake.watch.run() == 0
    assert fake.said.count("q quit") >= 3


def test_it_begins_with_the_first_that_has_not_passed():
    Workspace.current().record_check(FIRST, "hash", "pass", 100, "cpu")
    assert watch.first_open() == SECOND
    for slug in exercises.SYLLABUS:
        Workspace.current().record_check(slug, "hash", "pass", 100, "cpu")
    assert watch.first_open() == FIRST


def test_an_unknown_exercise_is_refused_before_the_terminal_is_touched():
    with pytest.raises(KeyError, match="flash_forward"):
        watch.main("flash_foward")


def test_a_file_that_is_being_written_is_not_checked(monkeypatch):
    fake = Fake()
    path = Workspace.current().kernel_path(FIRST)
    path.write_text("half")
    monkeypatch.setattr(watch.time, "sleep", lambda _: path.write_text("half and half"))
    assert not fake.watch.changed()
    monkeypatch.setattr(watch.time, "sleep", lambda _: None)
    assert fake.watch.changed()
    assert learner.progress()[0]["status"] == "not started"
