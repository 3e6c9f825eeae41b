"""A submission on its way into nbgrader: the lab as it was released, with the answers put in.

A notebook that still has each of nbgrader's cells once is kept; any other is replaced by the
released one, so that a pasted cell, lost metadata or a missing notebook costs no marks.
"""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
from nbgrader.converters import Autograde
from nbgrader.preprocessors import NbGraderPreprocessor

from flashlab.authoring import canonical
from flashlab.classroom import handed_in
from flashlab.classroom.course import Course

LOG = logging.getLogger("flashlab.classroom")


class TakeAnswers(NbGraderPreprocessor):
    """Put the answers that count into the stub cells; says by name what is odd."""

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        who = resources["nbgrader"]
        course = Course.load(Path.cwd())  # nbgrader works in the course's folder
        lab = course.labs[who["assignment"]]
        folder = Path(resources["metadata"]["path"])
        found = handed_in.read(folder, course, lab)
        for said in [*found.problems, *found.notes]:
            self.log.warning("%s, %s: %s", who["student"], lab.name, said)
        released = nbformat.read(course.release(lab.name), as_version=4)
        if handed_in.grade_ids(nb) != handed_in.grade_ids(released):
            self.log.warning(
                "%s, %s: nbgrader's cells are not all there once: the answers are put into the "
                "notebook as it was released",
                who["student"],
                lab.name,
            )
            nb = released
        put_in(nb, found.texts)
        return nb, resources


def put_in(notebook: Any, texts: dict[str, str]) -> None:
    """The answers into the cells that nbgrader knows as solutions; other stub cells go quiet."""
    for cell in notebook["cells"]:
        slug = canonical.fill_slug(cell)
        if slug is None:
            continue
        if cell["metadata"].get("nbgrader", {}).get("solution") and slug in texts:
            cell["source"] = f"%%fill {slug}\n{texts[slug]}"


def complete_submissions(course: Course) -> None:
    """Let ``nbgrader autograde`` see submissions without a notebook of the right name."""
    original = Autograde.init_notebooks
    if hasattr(original, "of_flashlab"):
        return

    def init_notebooks(self: Autograde) -> None:
        lab = self.coursedir.assignment_id
        here = Course.load(self.coursedir.root)
        if lab in here.labs:
            for folder in sorted(
                (here.dir / "submitted").glob(f"{self.coursedir.student_id}/{lab}")
            ):
                complete(folder, here, self.log.warning)
        original(self)

    init_notebooks.of_flashlab = True
    Autograde.init_notebooks = init_notebooks


def complete(folder: Path, course: Course, say: Callable[[str], None]) -> None:
    """Give a submission of kernel files, or of a renamed notebook, a notebook to be graded in."""
    lab = course.labs[folder.name]
    path = folder / f"{lab.name}.ipynb"
    if not folder.is_dir() or path.exists() or not course.release(lab.name).exists():
        return
    found = handed_in.read(folder, course, lab)
    if not found.texts:
        say(f"{folder.parent.name}, {lab.name}: {'; '.join(found.problems)}")
        return
    notebook = json.loads(course.release(lab.name).read_text(encoding="utf-8"))
    origins = ", ".join(sorted(set(found.origins.values())))
    notebook["metadata"][handed_in.STAMP][handed_in.MADE_FROM] = origins
    path.write_text(canonical.dump(notebook), encoding="utf-8")
    say(f"{folder.parent.name}, {lab.name}: no {path.name}; made one for {origins}")
