"""What one student handed in for one lab: the answers, and what is odd about the files.

Only ``%%fill`` cells and kernel files count. Nothing of a student's is imported or run here, and
no link is followed. Reading goes on after a fault; each is one sentence that names the file.
"""

import json
import os
import re
import stat
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flashlab import sources
from flashlab.authoring import canonical
from flashlab.classroom.course import Course, Lab

MAX_NOTEBOOK_BYTES, BIG_NOTEBOOK_BYTES, MAX_FILE_BYTES = 200 * 10**6, 10**7, 10**6
MAX_CONTAINERS = 2 * 10**6  # some MB of empty lists would fill the memory
STAMP = "flashlab"  # of a notebook's metadata: course, lab, version
MADE_FROM = "made_from"  # in the stamp of a notebook that we made for a submission without one
_FILL = re.compile(r"\s*%%fill[ \t]+([^\W\d]\w*)[^\n]*(?:\n|$)")


class Unreadable(Exception):
    """A file cannot be read; the message says why and starts after the file's name."""


@dataclass
class HandedIn:
    """One submission.

    Args:
        texts: Slug -> the text that counts as the answer.
        origins: Slug -> where that text lies, relative to the submission.
        problems: What could not be read: the instructor has to look at it.
        notes: What is odd, and was dealt with.
    """

    texts: dict[str, str] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read(folder: Path, course: Course, lab: Lab) -> HandedIn:
    """The answers in ``folder``: a filled kernel file counts before a cell of the notebook."""
    found = HandedIn()
    path = find_notebook(folder, lab, found)
    if path is not None:
        try:
            notebook = read_notebook(path)
        except Unreadable as error:
            found.problems.append(f"{path.name} {error}")
        else:
            _look_at(notebook, path.name, course, lab, found)
            _take_cells(notebook, path.name, lab, found)
    for slug in lab.slugs:
        _take_file(folder, slug, found)
    if not found.texts and not found.problems:
        found.problems.append("holds neither a %%fill cell of this lab nor a kernel file")
    return found


def find_notebook(folder: Path, lab: Lab, found: HandedIn) -> Path | None:
    """The notebook to read: the lab's, else the only or the last saved one of another name."""
    paths = [
        path
        for path in sorted(folder.glob("*.ipynb"))
        if not path.name.startswith(".") and not _is_made(path)
    ]
    for name in (lab.name, lab.notebook):
        if folder / f"{name}.ipynb" in paths:
            return folder / f"{name}.ipynb"
    if not paths:
        return None
    chosen = max(paths, key=lambda path: (path.lstat().st_mtime, path.name))
    many = f"; of {len(paths)} notebooks it was saved last" if len(paths) > 1 else ""
    found.notes.append(f"{chosen.name} should be called {lab.name}.ipynb and is read{many}")
    return chosen


def read_notebook(path: Path) -> dict[str, Any]:
    """The notebook at ``path``; Unreadable unless it is one of format 4 with cells."""
    text = read_text(path, MAX_NOTEBOOK_BYTES)
    if not text.strip():
        raise Unreadable("is empty")
    if text.count("[") + text.count("{") > MAX_CONTAINERS:
        raise Unreadable("holds more lists than any notebook does")
    try:
        notebook = json.loads(text, parse_int=_whole)
    except RecursionError:
        raise Unreadable("is nested too deeply to be a notebook") from None
    except ValueError as error:
        raise Unreadable(f"is not JSON, so not a notebook: {error}") from None
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list) or notebook.get("nbformat") != 4:
        raise Unreadable("is no notebook of format 4: save it anew with JupyterLab")
    good = [cell for cell in cells if isinstance(cell, dict) and _is_text(cell.get("source"))]
    metadata = notebook.get("metadata")
    return {"cells": good, "metadata": metadata if isinstance(metadata, dict) else {}}


def read_text(path: Path, most: int) -> str:
    """A plain file's text; Unreadable for links, folders, pipes, what is too big or no UTF-8."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(number, "rb") as file:
            if not stat.S_ISREG(os.fstat(number).st_mode):
                raise Unreadable("is not a plain file")
            data = file.read(most + 1)
    except OSError as error:
        linked = "is a link" if path.is_symlink() else f"cannot be read: {error.strerror}"
        raise Unreadable(linked) from None
    if len(data) > most:
        raise Unreadable(f"is larger than {most / 1e6:g} MB")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise Unreadable("is not UTF-8 text") from None


def fill_cells(notebook: dict[str, Any]) -> list[tuple[str, str]]:
    """(slug, text) of every ``%%fill`` cell, in order; half characters become "?"."""
    found = []
    for cell in notebook["cells"]:
        source = canonical.source(cell).encode("utf-8", "replace").decode()
        match = _FILL.match(source) if cell.get("cell_type") == "code" else None
        if match:
            found.append((match[1], source[match.end() :]))
    return found


def grade_ids(notebook: dict[str, Any]) -> Counter:
    """How often each of nbgrader's cell names stands in a notebook."""
    marks = (cell.get("metadata") for cell in notebook["cells"])
    marks = (m.get("nbgrader") for m in marks if isinstance(m, dict))
    return Counter(str(m["grade_id"]) for m in marks if isinstance(m, dict) and "grade_id" in m)


def _whole(digits: str) -> int:
    """A whole number; 0 for one that Python reads from no text, and no notebook needs."""
    return int(digits) if len(digits) < 100 else 0


def _is_text(source: Any) -> bool:
    return isinstance(source, str) or (
        isinstance(source, list) and all(isinstance(line, str) for line in source)
    )


def _is_made(path: Path) -> bool:
    """Whether we made this notebook for a submission that had none of the right name."""
    try:
        stamp = read_notebook(path)["metadata"].get(STAMP)
    except Unreadable:
        return False
    return isinstance(stamp, dict) and MADE_FROM in stamp


def _look_at(
    notebook: dict[str, Any], name: str, course: Course, lab: Lab, found: HandedIn
) -> None:
    """Note what an instructor may want to know of a notebook that can be read."""
    metadata, said = notebook["metadata"], found.notes.append
    size = sum(len(json.dumps(cell.get("outputs", []))) for cell in notebook["cells"])
    if size > BIG_NOTEBOOK_BYTES:
        said(f"{name} holds {size / 1e6:.0f} MB of output, which is ignored")
    kernel = metadata.get("kernelspec")
    kernel = kernel.get("name") if isinstance(kernel, dict) else None
    if kernel not in (None, "python3"):
        said(f"{name} names the kernel {str(kernel)[:40]!r}; the course's is used")
    stamp, mine = metadata.get(STAMP), course.stamp(lab.name)
    stamp = stamp if isinstance(stamp, dict) else {}
    for key, what in (("version", "version"), ("lab", "lab"), ("course", "course")):
        if key in stamp and stamp[key] != mine[key]:
            said(f"{name} was made for {what} {str(stamp[key])[:40]!r}, this is {mine[key]!r}")
    ids = grade_ids(notebook)
    if twice := [grade_id for grade_id, count in ids.items() if count > 1]:
        said(f"{name} holds copies of {', '.join(twice)[:200]}; the last %%fill cell counts")
    if not ids and name != f"{lab.notebook}.ipynb":
        said(f"{name} has lost nbgrader's metadata; answers are known by their %%fill lines")


def _take_cells(notebook: dict[str, Any], name: str, lab: Lab, found: HandedIn) -> None:
    cells = fill_cells(notebook)
    quiet = [c for c in notebook["cells"] if c.get("cell_type") != "code"]
    if hidden := [match[1] for c in quiet if (match := _FILL.match(canonical.source(c)))]:
        said = f"answers {', '.join(sorted(set(hidden)))[:200]} in a cell that holds no code"
        found.notes.append(f"{name} {said}: it does not count")
    mine = [(slug, sources.is_stub(slug, text)) for slug, text in cells if slug in lab.slugs]
    if lost := sorted(slug for slug, stub in dict(mine).items() if stub and (slug, False) in mine):
        said = f"{name} has the stub of {', '.join(lost)} below an answer"
        found.notes.append(f"{said}; the last %%fill cell counts")
    if strange := sorted({slug for slug, _ in cells} - set(lab.slugs)):
        found.notes.append(f"{name} also answers {', '.join(strange)[:200]}, not of this lab")
    for slug, text in cells:
        if slug in lab.slugs:
            found.texts[slug], found.origins[slug] = text, name


def _take_file(folder: Path, slug: str, found: HandedIn) -> None:
    """A kernel file, here or in ``kernels/``, goes before the cell unless it is a stub."""
    paths = [folder / f"{slug}.py", folder / "kernels" / f"{slug}.py"]
    for path in paths:
        name = path.relative_to(folder).as_posix()
        if not os.path.lexists(path):
            continue
        try:
            text = read_text(path, MAX_FILE_BYTES)
        except Unreadable as error:
            found.problems.append(f"{name} {error}")
            continue
        before = found.texts.get(slug)
        if before is not None and sources.is_stub(slug, text):
            continue
        if before is not None and sources.text_hash(before) != sources.text_hash(text):
            if not sources.is_stub(slug, before):
                found.notes.append(f"{name} and {found.origins[slug]} differ; {name} counts")
        found.texts[slug], found.origins[slug] = text, name
