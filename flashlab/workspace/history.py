"""Every text a learner made of one exercise, and the hash of the one last saved. Floor: core.

Entries are files named by time and hash; none is ever changed or deleted by the course.
"""

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from flashlab import sources
from flashlab.workspace import files

_STAMP = "%Y%m%dT%H%M%S.%fZ"
_SHORT = 12


@dataclass(frozen=True)
class HistoryEntry:
    """One text that was kept.

    Args:
        kept_at: When, in local time, such as ``"2026-11-29 21:30:05"``.
        short_hash: First digits of the text's hash.
        path: The file that holds it.
    """

    kept_at: str
    short_hash: str
    path: Path

    @property
    def text(self) -> str:
        """The text; WorkspaceError if it is no text or cannot be read."""
        return files.decoded(self.path, files.read_bytes(self.path) or b"")


class History:
    """The kept texts of one exercise in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._last_saved = folder / "last-saved"

    def entries(self) -> list[HistoryEntry]:
        """All entries, oldest first."""
        found = []
        for path in sorted(self.folder.glob("*Z-*")):
            stamp, _, short_hash = path.stem.rpartition("-")
            try:
                kept = datetime.strptime(stamp, _STAMP).replace(tzinfo=UTC).astimezone()
            except ValueError:
                continue
            found.append(HistoryEntry(f"{kept:%Y-%m-%d %H:%M:%S}", short_hash, path))
        return found

    def find(self, text_hash: str) -> HistoryEntry | None:
        """The entry of the text with this hash, or None."""
        matching = (e for e in self.entries() if e.short_hash == text_hash[:_SHORT])
        return next(matching, None)

    def keep(self, data: bytes) -> Path:
        """Keep these bytes unless the same text is kept already; returns the entry's file.

        Raises:
            WorkspaceError: it could not be written.
        """
        digest, ending = _hash(data)
        for entry in self.entries():
            if entry.short_hash == digest[:_SHORT] and self._intact(entry, digest):
                return entry.path
        path = self.folder / f"{datetime.now(UTC):{_STAMP}}-{digest[:_SHORT]}{ending}"
        files.write_atomic(path, data)
        return path

    @staticmethod
    def _intact(entry: HistoryEntry, digest: str) -> bool:
        """False if somebody edited the entry's file, so that it no longer keeps the text."""
        data = files.read_bytes(entry.path)
        return data is not None and _hash(data)[0] == digest

    def last_saved(self) -> str | None:
        """Hash of the text last saved from a cell, or None."""
        data = files.read_bytes(self._last_saved)
        return data.decode("ascii", "replace").strip() or None if data else None

    def remember(self, text_hash: str | None) -> None:
        """Make ``text_hash`` the last saved one (None: forget it)."""
        if text_hash != self.last_saved():
            files.write_atomic(self._last_saved, (text_hash or "").encode())


def _hash(data: bytes) -> tuple[str, str]:
    """The hash of a text, or of bytes that are no text, and the ending of its file's name."""
    try:
        return sources.text_hash(data.decode("utf-8-sig")), ".py"
    except UnicodeDecodeError:
        return hashlib.sha256(data).hexdigest(), ".bin"
