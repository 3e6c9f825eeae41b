"""What a learner checked, passed and opened: progress.json. Floor: core.

Written whole and atomically under the workspace's lock. A file that cannot be understood is set
aside under another name, never deleted.
"""

import json
import logging
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from flashlab.workspace import files

_LOG = logging.getLogger("flashlab")


class Progress:
    """The progress file at ``path``, guarded by the lock file at ``lock``."""

    def __init__(self, path: Path, lock: Path) -> None:
        self.path, self.lock = path, lock

    def read(self) -> dict[str, Any]:
        """The file's data; a broken file is set aside and reads as empty.

        Raises:
            WorkspaceError: the file cannot be read or set aside.
        """
        data, problem = self._parse()
        if problem:
            with files.locked(self.lock):
                data = self._read_or_set_aside()
        return data

    def change(self, edit: Callable[[dict[str, Any]], None]) -> None:
        """Read, let ``edit`` change the data in place, write; nobody else comes between.

        Raises:
            WorkspaceError: the file cannot be read or written.
        """
        with files.locked(self.lock):
            data = self._read_or_set_aside()
            edit(data)
            text = json.dumps(data, indent=1, sort_keys=True) + "\n"
            files.write_atomic(self.path, text.encode())

    def _parse(self) -> tuple[dict[str, Any], str]:
        raw = files.read_bytes(self.path)
        if raw is None:
            return _empty(), ""
        try:
            data = json.loads(raw)
        except (ValueError, RecursionError) as error:
            return _empty(), str(error)
        return (data, "") if _is_sound(data) else (_empty(), "not the course's structure")

    def _read_or_set_aside(self) -> dict[str, Any]:
        data, problem = self._parse()
        if problem:
            aside = self.path.with_name(f"progress.broken-{datetime.now():%Y%m%dT%H%M%S.%f}.json")
            files.move(self.path, aside)
            _LOG.warning(
                "%s could not be understood (%s): it is kept as %s and a new one is begun; "
                "your kernels are untouched.",
                self.path,
                problem,
                aside.name,
            )
        return data


def _empty() -> dict[str, Any]:
    return {"version": 1, "exercises": {}}


def _is_sound(data: object) -> bool:
    if not isinstance(data, dict) or not isinstance(data.get("exercises"), dict):
        return False
    rows = data["exercises"].values()
    return all(isinstance(row, dict) and _is_row(row) for row in rows) and _has_quizzes(data)


def _has_quizzes(data: dict[str, Any]) -> bool:
    """Whether "quizzes", where there is one, has its form; files of older releases have none."""
    quizzes = data.get("quizzes", {})
    if not isinstance(quizzes, dict) or not all(isinstance(q, dict) for q in quizzes.values()):
        return False
    rows = [row for quiz in quizzes.values() for row in quiz.values()]
    return all(isinstance(row, dict) and isinstance(row.get("tries"), int) for row in rows)


def _is_row(row: dict[str, Any]) -> bool:
    checks, hints = row.get("checks", []), row.get("hints", [])
    return (
        isinstance(checks, list)
        and all(isinstance(c, dict) and isinstance(c.get("points"), int | float) for c in checks)
        and all(isinstance(c.get("status"), str) for c in checks)
        and isinstance(hints, list)
        and all(isinstance(h, dict) and isinstance(h.get("level"), int) for h in hints)
    )


def now() -> str:
    """Local time with its offset, to the second."""
    return datetime.now().astimezone().isoformat(timespec="seconds")


def row(data: dict[str, Any], slug: str) -> dict[str, Any]:
    """The part of ``data`` that belongs to ``slug``, made if need be."""
    return data["exercises"].setdefault(slug, {})


def add_try(data: dict[str, Any], quiz: str, key: str, right: bool) -> None:
    """Count one try at a question; the first right answer keeps its time, later ones change
    nothing.
    """
    row = (
        data.setdefault("quizzes", {})
        .setdefault(quiz, {})
        .setdefault(key, {"tries": 0, "right": None})
    )
    if row["right"] is None:
        row["tries"] += 1
        row["right"] = now() if right else None


def last_pass(entry: dict[str, Any]) -> str | None:
    """Hash of the newest text whose own last check passed, or None; grader errors do not count."""
    seen = set()
    for check in reversed(entry.get("checks", [])):
        if check["status"] == "grader_error" or check.get("text") in seen:
            continue
        if check["status"] == "pass":
            return check.get("text")
        seen.add(check.get("text"))
    return None


def summary(entry: dict[str, Any]) -> dict[str, Any]:
    """Best check, number of checks, hints and solution opened, last pass, as flat values."""
    checks = entry.get("checks", [])
    order = [((c["status"] == "pass"), c["points"], n) for n, c in enumerate(checks)]
    best = checks[max(order)[2]] if checks else {}
    return {
        "status": best.get("status", "not started"),
        "points": best.get("points"),
        "tier": best.get("tier", ""),
        "checks": len(checks),
        "hints": max((h["level"] for h in entry.get("hints", [])), default=0),
        "solution_opened": entry.get("solution_opened"),
        "last_pass": last_pass(entry),
    }
