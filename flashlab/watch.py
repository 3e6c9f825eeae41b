"""``flashlab watch``: checks a file at every save and goes on by itself. Floor: front.

Keys work where the terminal has them; elsewhere (an editor's output pane) it only watches.
"""

import contextlib
import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console
from rich.text import Text

from flashlab import exercises, learner
from flashlab.workspace import Workspace

POLL_S = 0.2
SETTLE_S = 0.15  # editors write in several steps
KEYS = "h hint   r reset   c check again   n next   p previous   l list   q quit"
BAR = 30


def main(slug: str | None = None) -> int:
    """Watch until ``q`` or Ctrl-C; returns 0.

    Raises:
        KeyError: there is no exercise of that name.
    """
    if slug is not None:
        exercises.get(slug)
    with _keys() as key:
        return Watch(slug or first_open(), key, Console(highlight=False)).run()


def first_open() -> str:
    """The first exercise that has not passed; the first of all when everything has."""
    rows = learner.progress()
    todo = [row["slug"] for row in rows if row["status"] != "pass"]
    return (todo or [rows[0]["slug"]])[0]


class Watch:
    """One exercise on the screen at a time.

    Args:
        slug: The exercise to begin with.
        key: Waits at most that many seconds for a key; empty when none came.
        console: Where it is shown.
    """

    def __init__(self, slug: str, key: Callable[[float], str], console: Console) -> None:
        self.key, self.console = key, console
        self.asked_to_reset = False
        self.slug, self.seen = slug, ()
        self.begin(slug)

    def run(self) -> int:
        """Check at each save and answer keys until ``q``."""
        while True:
            pressed = self.key(POLL_S)
            if pressed == "q":
                self.say("Your files stay as they are. `flashlab watch` goes on from here.")
                return 0
            if pressed:
                self.answer(pressed)
            elif self.changed():
                self.check()

    def begin(self, slug: str) -> None:
        """Show an exercise; its stub is put into the workspace if nothing is there."""
        self.slug = slug
        workspace = Workspace.current()
        path = workspace.kernel_path(slug)
        started = not path.exists()
        if started:
            workspace.fill(slug, learner.stub(slug))
        self.seen = signature(path)
        self.heading()
        if started or learner_has_not_begun(slug):
            self.say(f"Write step 1 in {path} and save it: it is checked at every save.")
        else:
            self.check()

    def check(self) -> None:
        """Grade the file; after a pass go on to the next exercise that has not passed."""
        self.seen = signature(Workspace.current().kernel_path(self.slug))
        self.console.clear()
        self.heading()
        report = learner.check(self.slug)
        if not report.passed:
            self.keys()
            return
        following = first_open()
        done = {row["slug"]: row["status"] for row in learner.progress()}
        if done[following] == "pass":
            self.say("All exercises passed.")
            self.keys()
        else:
            self.say(f"{self.slug} passed. On to the next one.", "bold green")
            self.begin(following)

    def answer(self, pressed: str) -> None:
        """What a key does."""
        if pressed == "r" and not self.asked_to_reset:
            self.asked_to_reset = True
            self.say(f"r once more puts {self.slug} back to the stub; your text is kept.")
            return
        if pressed == "r":
            self.say(Workspace.current().reset(self.slug))
            self.seen = signature(Workspace.current().kernel_path(self.slug))
        elif pressed == "h":
            learner.hint(self.slug)
        elif pressed == "c":
            self.check()
        elif pressed == "l":
            from flashlab.render import progress

            progress.print_progress(learner.progress(), self.console)
        elif pressed in "np":
            self.begin(self.neighbour(1 if pressed == "n" else -1))
        else:
            self.keys()
        self.asked_to_reset = False

    def neighbour(self, step: int) -> str:
        """The exercise before or behind this one; at an end this one."""
        order = exercises.SYLLABUS
        at = order.index(self.slug) + step
        return order[min(max(at, 0), len(order) - 1)]

    def changed(self) -> bool:
        """Whether the file was saved since it was last looked at, and is complete."""
        path = Workspace.current().kernel_path(self.slug)
        now = signature(path)
        if now == self.seen or not now:
            return False
        time.sleep(SETTLE_S)
        return signature(path) == now

    def heading(self) -> None:
        """How far the learner is, and which exercise this is."""
        rows = learner.progress()
        passed = sum(row["status"] == "pass" for row in rows)
        full = round(BAR * passed / len(rows))
        exercise = exercises.get(self.slug)
        bar = Text.assemble(("#" * full, "green"), ("-" * (BAR - full), "dim"))
        self.console.print(Text.assemble("[", bar, f"] {passed} of {len(rows)} exercises passed"))
        self.console.print(Text(f"{exercise.chapter} {self.slug}: {exercise.title}", style="bold"))

    def keys(self) -> None:
        """The keys there are."""
        self.console.print(Text(KEYS, style="dim"))

    def say(self, text: str, style: str = "") -> None:
        """A sentence, and below it the keys."""
        self.console.print(Text(text, style=style), soft_wrap=True)
        self.keys()


def signature(path: Path) -> tuple[int, ...]:
    """What changes when a file is saved; empty while there is none."""
    try:
        stat = path.stat()
    except OSError:
        return ()
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def learner_has_not_begun(slug: str) -> bool:
    """Whether the file is still the stub."""
    return Workspace.current().answer(slug).origin == "stub"


@contextlib.contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """Single keys of the terminal, without Enter; none where standard input is no terminal."""
    if not sys.stdin.isatty():
        yield lambda seconds: time.sleep(seconds) or ""
        return
    import termios  # absent on Windows
    import tty

    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)

    def key(seconds: float) -> str:
        ready, _, _ = select.select([number], [], [], seconds)
        return os.read(number, 1).decode("utf-8", "replace").lower() if ready else ""

    try:
        tty.setcbreak(number)
        yield key
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)
