"""A learner's work beyond Colab's runtime, which is deleted when it stops: Drive, or a zip file.

Work happens on the machine's own disk. After each cell that ran, what changed is copied to Drive;
the set-up cell of the next runtime brings it back. An answer that differs on both sides is kept
twice: the later one counts, the other lies in the history.
"""

import json
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flashlab.workspace import MARKER, Workspace
from flashlab.workspace.files import write_atomic

FOLDER = "MyDrive/flashlab-work"
KEPT = ("kernels/*.py", "history/**/*", "progress.json", MARKER)
OFFER = (
    "Your work is lost when this runtime stops. To keep it, tick keep_on_drive in this cell and "
    "run it again, or take it with you as a file: colab.save_zip(), later colab.load_zip()."
)


def keep(shell: Any, root: Path, drive: bool) -> str:
    """Take up earlier work and copy new work after each cell; returns what to tell the learner."""
    Workspace(root).create()
    if not drive:
        return f"{OFFER}\n{_standing()}"
    copy = mount(root.with_name("drive"))
    brought = restore(copy, root)
    known: dict[str, float] = {}
    push(root, copy, known)
    if shell is not None:

        def after_cell(*_: object) -> None:
            push(root, copy, known)

        _replace_hook(shell, after_cell)
    back = f"{_answers(brought)} back. " if brought else ""
    return (
        f"{back}Your answers are copied to {copy} after each cell. To go on another day, open any "
        f"lab, tick keep_on_drive and run its set-up cell.\n{_standing()}"
    )


def mount(at: Path) -> Path:
    """Mount Drive at ``at`` (Colab asks for permission) and return the folder of the copy."""
    from google.colab import drive

    drive.mount(str(at))
    copy = at / FOLDER
    copy.mkdir(parents=True, exist_ok=True)
    return copy


def restore(copy: Path, root: Path) -> int:
    """Bring files of ``copy`` into ``root``; returns how many answers came. Where both have one,
    the later one counts and the other text stays in the history.
    """
    brought = 0
    for path in _work(copy):
        name = path.relative_to(copy)
        mine, data = root / name, path.read_bytes()
        if mine.exists():
            if name.name == "progress.json":
                data = _both(mine.read_bytes(), data)
            elif mine.read_bytes() == data or mine.stat().st_mtime >= path.stat().st_mtime:
                _keep_text(root, name, data)
                continue
            else:
                _keep_text(root, name, mine.read_bytes())
        write_atomic(mine, data)
        brought += name.parts[0] == "kernels"
    return brought


def push(root: Path, copy: Path, known: dict[str, float]) -> None:
    """Copy what changed since the times in ``known``, which it brings up to date.

    A Drive that went away is said once in a line, not raised: it must not cost a check.
    """
    try:
        for path in _work(root):
            name, saved = str(path.relative_to(root)), path.stat().st_mtime
            if known.get(name) != saved:
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, copy / name)
                known[name] = saved
    except OSError as error:
        print(f"Not copied to Drive ({error}): run the set-up cell again, or colab.save_zip().")


def save_zip() -> Path:
    """Pack your work into one file and, on Colab, download it; returns the file."""
    root = Workspace.current().root
    target = root.with_name("flashlab-work.zip")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in _work(root):
            archive.write(path, path.relative_to(root))
    files = _colab_files()
    if files is not None:
        files.download(str(target))
    print(f"Your work is in {target.name}; colab.load_zip() takes it up again.")
    return target


def load_zip(path: str | Path | None = None) -> None:
    """Take up work that ``save_zip`` packed; without a path Colab asks for the file."""
    files = _colab_files()
    if path is None:
        if files is None:
            raise ValueError("name the file: colab.load_zip('flashlab-work.zip')")
        path = next(iter(files.upload()))
    root = Workspace.current().root
    unpacked = root.with_name(f".{root.name}-unpacked")
    try:
        with zipfile.ZipFile(path) as archive:
            archive.extractall(unpacked)  # drops absolute and upward paths by itself
        Workspace(root).create()
        print(f"{_answers(restore(unpacked, root))} back. {_standing()}")
    finally:
        shutil.rmtree(unpacked, ignore_errors=True)


def _colab_files() -> Any:
    try:
        from google.colab import files
    except ImportError:
        return None
    return files


def _work(root: Path) -> Iterator[Path]:
    """The files that are a learner's work."""
    for pattern in KEPT:
        yield from sorted(path for path in root.glob(pattern) if path.is_file())


def _keep_text(root: Path, name: Path, data: bytes) -> None:
    """Put the text of an answer that is not used into its history."""
    if name.parts[0] == "kernels" and name.suffix == ".py":
        Workspace(root).keep(name.stem, data.decode("utf-8", "replace"))


def _both(mine: bytes, other: bytes) -> bytes:
    """Two progress files as one: every check, hint and quiz answer of either."""
    try:
        one, two = json.loads(mine), json.loads(other)
        for slug, row in two["exercises"].items():
            own = one["exercises"].setdefault(slug, {})
            for kind in ("checks", "hints"):
                rows = own.get(kind, []) + row.get(kind, [])
                own[kind] = sorted(
                    {json.dumps(r, sort_keys=True): r for r in rows}.values(), key=_time
                )
            if opened := row.get("solution_opened"):
                own.setdefault("solution_opened", opened)
        for quiz, answers in two.get("quizzes", {}).items():
            held = one.setdefault("quizzes", {}).setdefault(quiz, {})
            for key, answer in answers.items():
                if key not in held or (answer["right"] and not held[key]["right"]):
                    held[key] = answer
    except (ValueError, KeyError, TypeError, AttributeError):
        return mine  # one of them is broken: the workspace sets it aside when it reads it
    return (json.dumps(one, indent=1, sort_keys=True) + "\n").encode()


def _time(row: dict[str, Any]) -> str:
    return row.get("time", "")


def _replace_hook(shell: Any, hook: Any) -> None:
    """One hook after each cell, however often the set-up cell ran."""
    earlier = getattr(shell, "flashlab_after_cell", None)
    if earlier is not None:
        shell.events.unregister("post_run_cell", earlier)
    shell.events.register("post_run_cell", hook)
    shell.flashlab_after_cell = hook


def _answers(count: int) -> str:
    return "1 answer is" if count == 1 else f"{count} answers are"


def _standing() -> str:
    """How far the learner is, in one sentence; the next step where there is one."""
    from flashlab import learner

    rows = learner.progress()
    passed = sum(row["status"] == "pass" for row in rows)
    following = next((row for row in rows if row["status"] != "pass"), None)
    more = f" Next: {following['slug']} in lab {following['chapter']}." if following else ""
    return f"{passed} of {len(rows)} exercises passed.{more}"
