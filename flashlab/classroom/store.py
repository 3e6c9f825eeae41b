"""The results of a course on disk: one file a job, named by what went into it. Floor: front.

Files are only added: written beside, flushed, then linked to their name, so that a kill at any
moment leaves a whole result or none. A job whose result is there is never run again. One process
writes at a time.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER, FORMAT = "flashlab_grades", 1
KEY = re.compile(r"[0-9a-f]{64}")


class Store:
    """The store in ``folder``, made when it is first locked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.broken: list[str] = []  # results that were there and could not be read

    @contextlib.contextmanager
    def locked(self) -> Iterator["Store"]:
        """Become the one writer.

        Raises:
            ValueError: another process writes, or the folder belongs to another version.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / "lock", "a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ValueError(f"another process grades into {self.folder}: wait") from None
            self._format()
            for left in self.folder.glob("jobs/*/.new-*"):  # by a writer that was killed
                left.unlink()
            yield self

    def _format(self) -> None:
        path = self.folder / "store.json"
        if not path.exists():
            _write(path, json.dumps({"format": FORMAT}).encode())
        try:
            found = json.loads(path.read_text())["format"]
        except (ValueError, KeyError, TypeError):
            found = None
        if found != FORMAT:
            raise ValueError(
                f"{path} says format {found!r}, this flashlab writes {FORMAT}: move it away"
            )

    def path(self, key: str) -> Path:
        """Where the result of a job lies."""
        if not KEY.fullmatch(key):
            raise ValueError(f"{key!r} is no key of a job")
        return self.folder / "jobs" / key[:2] / f"{key}.json"

    def get(self, key: str) -> dict[str, Any] | None:
        """The result of a job; None if there is none. A damaged one is set aside and named."""
        path = self.path(key)
        try:
            head, _, body = path.read_bytes().partition(b"\n")
        except FileNotFoundError:
            return None
        if hashlib.sha256(body).hexdigest().encode() == head:
            return json.loads(body)
        aside = path.with_suffix(f".broken-{os.getpid()}")
        os.replace(path, aside)
        self.broken.append(str(aside))
        return None

    def put(self, key: str, result: dict[str, Any]) -> bool:
        """Add a result; False, and nothing written, if there is one already."""
        body = json.dumps(result, sort_keys=True).encode()
        head = hashlib.sha256(body).hexdigest().encode()
        return _write(self.path(key), head + b"\n" + body)

    def keys(self) -> list[str]:
        """Every job that has a result."""
        return sorted(path.stem for path in self.folder.glob("jobs/??/*.json"))

    def note_loss(self, key: str) -> int:
        """A worker was lost on this job; how many were so far."""
        self.path(key)
        folder = self.folder / "lost" / key
        count = self.losses(key) + 1
        _write(folder / str(count), b"")
        return count

    def losses(self, key: str) -> int:
        """How many workers were lost on this job."""
        folder = self.folder / "lost" / key
        return len(os.listdir(folder)) if folder.is_dir() else 0


def _write(path: Path, data: bytes) -> bool:
    """A new file, whole or not at all; False if there is one of that name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    number, name = tempfile.mkstemp(prefix=".new-", dir=path.parent)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(number)
        os.link(name, path)
        added = True
    except FileExistsError:
        added = False
    finally:
        os.unlink(name)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return added
