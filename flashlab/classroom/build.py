"""``flashlab class build DIR``: make a course, or renew one from its ``flashlab_class.json``."""

import re
from collections.abc import Sequence
from pathlib import Path

import flashlab
from flashlab.classroom import assignment, bundle
from flashlab.classroom.course import (
    FILE,
    SECRET,
    Course,
    Lab,
    available,
    default_points,
    find_lab,
)

IGNORED = (
    SECRET,
    "gradebook.db*",
    ".nbgrader.log",
    "submitted/",
    "autograded/",
    "feedback/",
    "flashlab_*/",
    "report.html",
    "*.csv",
)
CONFIG = """\
# nbgrader's settings for this course. `flashlab class build` makes this file once; it is yours.
from pathlib import Path

from flashlab.classroom import nbgrader_settings

c = get_config()  # noqa: F821
nbgrader_settings.configure(c, Path(__file__).resolve().parent)
"""


def main(folder: str, labs: Sequence[str] | None = None, name: str | None = None) -> int:
    """Build and say what lies where; returns the exit code."""
    course = build(Path(folder), labs, name)
    for lab in course.labs.values():
        total = sum(points.total for points in lab.points.values())
        print(f"{lab.name}: {', '.join(lab.slugs)}; {total:g} points")
    wheel = bundle.write(course.dir / "students")
    print(f"for students: {wheel.relative_to(course.dir.parent)}")
    print(f"labs and points: {FILE}; change them and build again")
    print(f"next, in {course.dir.name}: nbgrader generate_assignment {next(iter(course.labs))}")
    return 0


def build(folder: Path, labs: Sequence[str] | None = None, name: str | None = None) -> Course:
    """Make or renew the course in ``folder``: settings, secret and source notebooks.

    Args:
        folder: New, empty, or a course already: then its labs and points stay.
        labs: Which labs; an existing course gets those that it lacks. None: all.
        name: Of the course; None is the folder's.

    Raises:
        ValueError: the folder holds something else, or a setting is wrong.
        KeyError: there is no such lab.
    """
    course = _course(folder, [find_lab(text) for text in labs or ()], name)
    sources = {lab: assignment.source_notebook(course, course.labs[lab]) for lab in course.labs}
    _refuse_strangers(course)
    course.save()
    for lab, text in sources.items():
        path = course.source(lab)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for path, text in (
        (course.dir / "nbgrader_config.py", CONFIG),
        (course.dir / ".gitignore", "\n".join(IGNORED) + "\n"),
    ):
        if not path.exists():
            path.write_text(text, encoding="utf-8")
    return course


def _course(folder: Path, labs: list[str], name: str | None) -> Course:
    """What is to be built: an existing course with what it lacks, or a new one."""
    if (folder / FILE).exists():
        old = Course.load(folder)
        wanted = {**old.labs, **{lab: _lab(lab) for lab in labs if lab not in old.labs}}
        return Course(old.dir, name or old.name, flashlab.__version__, wanted, old.late)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} is neither empty nor a course: name another folder")
    folder = folder.resolve()
    name = name or re.sub(r"[^\w.-]", "-", folder.name)
    wanted = {lab: _lab(lab) for lab in labs or available()}
    return Course(folder, name, flashlab.__version__, dict(sorted(wanted.items())))


def _lab(name: str) -> Lab:
    notebook = available()[name]
    slugs = assignment.lab_slugs(notebook)
    return Lab(name, notebook, {slug: default_points(slug) for slug in slugs})


def _refuse_strangers(course: Course) -> None:
    """nbgrader hands out whatever lies beside a source notebook: there must be nothing else."""
    for lab in course.labs:
        for folder in (course.source(lab).parent, course.release(lab).parent):
            for path in sorted(folder.rglob("*")):
                if path.is_file() and path.name != f"{lab}.ipynb":
                    raise ValueError(
                        f"{path} would go out to every student: move it out of {folder}"
                    )
