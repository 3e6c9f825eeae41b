"""One assignment's notebook, woven from a lab, its solutions and the points of a course."""

import re
from typing import Any

from flashlab import exercises, sources
from flashlab.authoring import canonical
from flashlab.classroom.course import Course, Lab, Points

ONLY_COLAB = ("colab-badge", "colab-setup")
SET_UP = """\
# Run this first, after every restart of the kernel.
%load_ext flashlab.notebook
import flashlab"""
_CHAPTER_LINK = re.compile(r"\[([^\]]*)\]\(\.\./[^)]*\)")


def lab_slugs(notebook: str) -> list[str]:
    """The exercises of one of the course's labs, in order."""
    cells = canonical.read(_path(notebook))["cells"]
    return [slug for cell in cells if (slug := canonical.fill_slug(cell))]


def source_notebook(course: Course, lab: Lab) -> str:
    """The instructor's notebook: stub cells hold solutions, marked as nbgrader's cells are.

    Exercises without points keep their stub and their check, ungraded.

    Raises:
        ValueError: an exercise has points but no cells in the lab.
    """
    cells: list[canonical.Cell] = []
    graded = set()
    for cell in canonical.read(_path(lab.notebook))["cells"]:
        if cell["id"] in ONLY_COLAB:
            continue
        slug = canonical.fill_slug(cell) or _checked(cell)
        points = lab.points.get(slug)
        if points is None:
            cells.append(_without_links(cell))
        elif canonical.fill_slug(cell):
            cells.append(_solution(cell, slug))
        else:
            cells += _tests(cell["id"], slug, points)
            graded.add(slug)
    if missing := set(lab.points) - graded:
        raise ValueError(f"{lab.notebook} has no check cell of {', '.join(sorted(missing))}")
    cells.insert(1, _cell("class-set-up", SET_UP, _marks("class-set-up", locked=True)))
    notebook = {
        "cells": cells,
        "metadata": {"kernelspec": canonical.KERNEL, "flashlab": course.stamp(lab.name)},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return canonical.dump(notebook)


def _path(notebook: str) -> Any:
    return sources.course_dir() / "labs" / f"{notebook}.ipynb"


def _checked(cell: canonical.Cell) -> str | None:
    """The exercise that a check cell, ``flashlab.check("slug")`` alone, is about."""
    match = re.fullmatch(r'flashlab\.check\("(\w+)"\)', canonical.source(cell).strip())
    return match[1] if match else None


def _without_links(cell: canonical.Cell) -> canonical.Cell:
    """Links to chapters lead nowhere from an assignment's folder: their text stays."""
    if cell["cell_type"] != "markdown":
        return cell
    return {**cell, "source": canonical.lines(_CHAPTER_LINK.sub(r"\1", canonical.source(cell)))}


def _solution(cell: canonical.Cell, slug: str) -> canonical.Cell:
    text = f"%%fill {slug}\n{sources.solution_text(slug)}"
    return _cell(cell["id"], text, _marks(f"{slug}-stub", solution=True))


def _tests(name: str, slug: str, points: Points) -> list[canonical.Cell]:
    """The check, then a cell a step; each ends in a plain float for nbgrader."""
    check = (
        f"# {points.check:g} points, for practice: the class is marked by another run.\n"
        f'{slug}_report = flashlab.check("{slug}")\n'
        f"float({slug}_report.marks({points.check:g}))"
    )
    cells = [_cell(name, check, _graded(f"{slug}-check", points.check))]
    steps = zip(exercises.get(slug).steps, points.steps, strict=True)
    for number, (title, worth) in enumerate(steps, 1):
        text = (
            f"# Step {number} ({title}): {worth:g} points, here only once the core cases pass.\n"
            f"float({slug}_report.marks({worth:g}))"
        )
        marks = _graded(f"{slug}-step-{number}", worth)
        cells.append(_cell(f"{name.removesuffix('-check')}-step-{number}", text, marks))
    return cells


def _cell(name: str, text: str, metadata: dict[str, Any]) -> canonical.Cell:
    return {
        "cell_type": "code",
        "execution_count": None,
        "id": name,
        "metadata": metadata,
        "outputs": [],
        "source": canonical.lines(text),
    }


def _graded(grade_id: str, points: float) -> dict[str, Any]:
    marks = _marks(grade_id, locked=True)
    marks["nbgrader"] |= {"grade": True, "points": points}
    return marks


def _marks(grade_id: str, *, locked: bool = False, solution: bool = False) -> dict[str, Any]:
    """nbgrader's metadata of a cell, schema 3."""
    return {
        "nbgrader": {
            "grade": False,
            "grade_id": grade_id,
            "locked": locked,
            "schema_version": 3,
            "solution": solution,
            "task": False,
        }
    }
