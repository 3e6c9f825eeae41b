"""A learner's workspace: one file an exercise, its history, and the progress. Floor: core.

The texts of the exercises come from sources.py; what runs an answer is kernels.py.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from flashlab import sources
from flashlab.workspace import files, progress, saving
from flashlab.workspace.files import WorkspaceError
from flashlab.workspace.fill import FillResult
from flashlab.workspace.history import History, HistoryEntry
from flashlab.workspace.place import MARKER, find_root


@dataclass(frozen=True)
class Answer:
    """The text that counts as a learner's answer.

    Args:
        text: The text, LF line ends.
        path: The file it lies in; None for the untouched stub.
        saved_at: When that file was saved, in local time; empty for the stub.
        origin: ``"file"``, ``"stub"`` or ``"edited stub"`` (the stub was edited where it lies).
    """

    text: str
    path: Path | None
    saved_at: str
    origin: str


class Workspace:
    """The folder ``root`` of one learner's work; nothing is made in it before something is saved.

    Args:
        root: The folder.
        why: Why it is this one, in a few words.
    """

    def __init__(self, root: Path | str, why: str = "given") -> None:
        self.root, self.why = Path(os.path.abspath(root)), why
        self._lock = self.root / ".lock"
        self._progress = progress.Progress(self.root / "progress.json", self._lock)

    @classmethod
    def current(cls) -> Self:
        """The workspace of this process, see ``place.find_root``."""
        return cls(*find_root())

    def create(self) -> None:
        """Make the folder and the marker by which it is found from below.

        Raises:
            WorkspaceError: it cannot be made.
        """
        marker = self.root / MARKER
        if files.read_bytes(marker) is None:
            files.write_atomic(marker, b"A learner's workspace of the flashlab course.\n")

    def kernel_path(self, slug: str) -> Path:
        """The file of a learner's answer; it need not exist.

        Raises:
            WorkspaceError: ``slug`` could not be the name of an exercise.
        """
        return self.root / "kernels" / f"{_checked(slug)}.py"

    def show(self, path: Path) -> str:
        """A path as a learner reads it: short where it lies in the workspace."""
        inside = path.is_relative_to(self.root)
        return str(path.relative_to(self.root.parent)) if inside else str(path)

    def answer(self, slug: str) -> Answer:
        """The text that counts: a filled file, else a stub edited in place, else the stub.

        Raises:
            WorkspaceError: the file cannot be read.
            KeyError: there is no such exercise.
        """
        path = self.kernel_path(slug)
        data = files.read_bytes(path)
        mine = None if data is None else Answer(*_facts(path, data), "file")
        if mine and not sources.is_stub(slug, mine.text):
            return mine
        place = sources.stub_path(slug)
        data = files.read_bytes(place) or sources.stub_text(slug).encode()
        stub = Answer(*_facts(place, data), "edited stub")
        if not sources.is_stub(slug, stub.text):
            return stub
        return mine or Answer(stub.text, None, "", "stub")

    def stamp(self, slug: str) -> tuple[Any, ...]:
        """Changes when an answer or what is known of its checks may have; reads no file."""
        paths = (self.kernel_path(slug), sources.stub_path(slug), self.root / "progress.json")
        return (str(self.root), *(files.stamp(path) for path in paths))

    def fill(self, slug: str, cell_text: str, force: bool = False) -> FillResult:
        """Save a cell's text to the learner's file, or not, by the table of ``decide``.

        Args:
            slug: Exercise.
            cell_text: The cell below its ``%%fill`` line.
            force: Write in any case; the text that was there stays in the history.

        Raises:
            WorkspaceError: a file cannot be read or written, or the cell is blank.
        """
        if not cell_text.strip():
            raise WorkspaceError(
                f"the cell is empty, so nothing was saved; `%fill --pull {slug}` puts your "
                "file's text into a cell"
            )
        self.create()
        with files.locked(self._lock):
            return saving.fill(self, slug, files.tidied(cell_text), force)

    def reset(self, slug: str) -> str:
        """Put the stub back; the learner's text is kept in the history. Returns what was done.

        Raises:
            WorkspaceError: a file cannot be read or written, or the stub cannot be restored.
        """
        self.create()
        with files.locked(self._lock):
            return saving.reset(self, slug)

    def keep(self, slug: str, text: str) -> Path | None:
        """Keep a text in the history, once; a released stub is not kept. Returns the entry.

        Raises:
            WorkspaceError: it cannot be written.
        """
        self.create()
        with files.locked(self._lock):
            return saving.keep_text(self, slug, text)

    def past(self, slug: str) -> History:
        """The history of one exercise, with the hash that was last saved from a cell."""
        return History(self.root / "history" / _checked(slug))

    def history(self, slug: str) -> list[HistoryEntry]:
        """Every text of the exercise that was kept, oldest first."""
        return self.past(slug).entries()

    def progress(self) -> dict[str, dict[str, Any]]:
        """One row an exercise: status, points and tier of the best check, checks, hints,
        solution_opened, last_pass.
        """
        rows = self._progress.read()["exercises"]
        return {slug: progress.summary(row) for slug, row in rows.items()}

    def checks(self, slug: str) -> list[dict[str, Any]]:
        """Every check of an exercise, oldest first: time, text (hash), status, points, tier."""
        return self._progress.read()["exercises"].get(slug, {}).get("checks", [])

    def record_check(
        self, slug: str, text_hash: str, status: str, points: float, tier: str
    ) -> None:
        """Record a whole check (all cases, not a chosen few) of a text."""
        check = {"time": progress.now(), "text": text_hash, "status": status}
        check |= {"points": points, "tier": tier}
        self._record(slug, lambda row: row.setdefault("checks", []).append(check))

    def record_hint(self, slug: str, level: int) -> None:
        """Record that a hint was opened; opening it again changes nothing."""
        opened = {"level": level, "time": progress.now()}

        def add(row: dict[str, Any]) -> None:
            hints = row.setdefault("hints", [])
            if level not in [hint["level"] for hint in hints]:
                hints.append(opened)

        self._record(slug, add)

    def record_solution(self, slug: str) -> None:
        """Record that the solution was opened; the first time counts."""
        self._record(slug, lambda row: row.setdefault("solution_opened", progress.now()))

    def quiz(self, name: str) -> dict[str, dict[str, Any]]:
        """Question key -> {"tries": int, "right": time of the first right answer or None}."""
        return self._progress.read().get("quizzes", {}).get(name, {})

    def record_quiz(self, name: str, key: str, right: bool) -> None:
        """Record one try at a question of a quiz."""
        self.create()
        self._progress.change(lambda data: progress.add_try(data, name, key, right))

    def _record(self, slug: str, edit: Callable[[dict[str, Any]], object]) -> None:
        self.kernel_path(slug)
        self.create()
        self._progress.change(lambda data: edit(progress.row(data, slug)))

    def hints_opened(self, slug: str) -> int:
        """The highest hint opened so far, 0 if none."""
        return self.progress().get(slug, {}).get("hints", 0)

    def last_pass(self, slug: str) -> str | None:
        """Hash of the newest text whose own last check passed, else None."""
        return self.progress().get(slug, {}).get("last_pass")


def _checked(slug: str) -> str:
    if not slug.isidentifier():
        raise WorkspaceError(f"{slug!r} is no exercise: expected a name such as flash_forward")
    return slug


def _facts(path: Path, data: bytes) -> tuple[str, Path, str]:
    return files.decoded(path, data), path, files.saved_at(path)
