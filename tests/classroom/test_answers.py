"""Bad submissions: each is reported by name, the others are graded, nothing else is read."""

import json
import os
from pathlib import Path

import pytest

from flashlab import sources
from flashlab.classroom import answers, build, handed_in
from flashlab.classroom.course import Course
from flashlab.workspace import cell_source

SLUG = "vector_scale"
ANSWER = "def vector_scale(x, a):\n    return x\n"


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Course:
    return build.build(tmp_path_factory.mktemp("class") / "c", ["00"], "demo")


@pytest.fixture
def here(course: Course, tmp_path: Path) -> Course:
    """The course, in a folder of its own with nothing handed in."""
    (tmp_path / "submitted").mkdir()
    return Course(tmp_path, course.name, course.version, course.labs, course.late)


def cell(text: str, slug: str = SLUG) -> dict:
    return {"cell_type": "code", "source": cell_source(slug, text), "metadata": {}, "outputs": []}


def notebook(course: Course, *cells: dict, **metadata: object) -> str:
    stamp = {"flashlab": course.stamp("lab00")}
    made = {"cells": list(cells), "metadata": stamp | metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(made)


def put(course: Course, student: str, **files: str | bytes) -> Path:
    folder = course.dir / "submitted" / student / "lab00"
    folder.mkdir(parents=True)
    for name, text in files.items():
        data = text if isinstance(text, bytes) else text.encode()
        (folder / name.replace("__", ".")).write_bytes(data)
    return folder


def one(course: Course, student: str = "ann") -> answers.Submission:
    found = answers.collect(course, course.labs["lab00"])
    return next(s for s in found if s.student == student)


def said(submission: answers.Submission) -> str:
    return " | ".join(submission.said)


def test_a_good_notebook_gives_its_last_cell_and_nothing_to_look_at(here: Course) -> None:
    path = here.release("lab00")
    assert not path.exists()
    marked = {**cell(ANSWER), "metadata": {"nbgrader": {"grade_id": "x"}}}
    put(here, "ann", lab00__ipynb=notebook(here, cell("old = 1"), marked))

    found = one(here)

    assert found.texts == {SLUG: ANSWER.rstrip("\n")}
    assert found.said == []


def test_a_kernel_file_goes_before_a_cell_but_a_stub_does_not(here: Course) -> None:
    cells = notebook(here, cell("x = 1"))
    put(here, "dan", lab00__ipynb=notebook(here, cell("x = '\ud800'")), vector_scale__py=ANSWER)
    put(here, "ann", lab00__ipynb=cells, vector_scale__py=ANSWER)
    put(here, "bob", lab00__ipynb=cells, vector_scale__py=sources.stub_text(SLUG))
    folder = put(here, "cid")
    (folder / "kernels").mkdir()
    (folder / "kernels" / "vector_scale.py").write_text(ANSWER)

    assert one(here, "ann").texts[SLUG] == ANSWER
    assert "differ" in said(one(here, "ann"))
    assert one(here, "bob").texts[SLUG] == "x = 1"
    assert one(here, "cid").texts[SLUG] == ANSWER
    assert one(here, "dan").texts[SLUG] == ANSWER


BAD = {
    "not JSON": ({"lab00__ipynb": "{"}, "not JSON"),
    "JSON but no notebook": ({"lab00__ipynb": "[1, 2]"}, "no notebook"),
    "deep JSON": ({"lab00__ipynb": "[" * 100_000}, "nested too deeply"),
    "lists without end": ({"lab00__ipynb": "[" + "[]," * 2_000_001 + "1]"}, "more lists"),
    "a number without end": (
        {"lab00__ipynb": '{"cells": [], "nbformat": 4, "n": ' + "9" * 5000 + "}"},
        "neither",
    ),
    "an empty notebook": ({"lab00__ipynb": " \n"}, "lab00.ipynb is empty"),
    "not text": ({"vector_scale__py": b"\xff\xfe\x00"}, "UTF-8"),
    "huge answer": ({"vector_scale__py": "#" * 200_000}, "128 KiB"),
    "nothing in it": ({"notes__txt": "hello"}, "neither"),
    "a clock ahead": (
        {"vector_scale__py": ANSWER, "timestamp__txt": "2999-01-01 00:00:00.000000 UTC"},
        "a clock is wrong",
    ),
    "no time": ({"vector_scale__py": ANSWER, "timestamp__txt": "\x1b[2Jnoon"}, "holds no time"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_submission_is_named_and_the_next_one_read(here: Course, what: str) -> None:
    files, sentence = BAD[what]
    put(here, "ann", **files)
    put(here, "bob", vector_scale__py=ANSWER)

    assert sentence in said(one(here))
    assert "\x1b" not in said(one(here))
    assert one(here, "bob").texts == {SLUG: ANSWER}
    assert one(here, "bob").said == []


def test_odd_notebooks_are_read_and_named(here: Course) -> None:
    good = cell(ANSWER)
    put(here, "kernel", lab00__ipynb=notebook(here, good, kernelspec={"name": "julia-1.9"}))
    old = {"course": "demo", "lab": "lab00", "version": "0.0.1"}
    put(here, "old", lab00__ipynb=notebook(here, good, flashlab=old))
    put(here, "lost", lab00__ipynb=notebook(here, good, flashlab=None))
    folder = put(here, "renamed")
    (folder / "lab00 (1).ipynb").write_text(notebook(here, good))
    put(here, "below", lab00__ipynb=notebook(here, good, cell(sources.stub_text(SLUG))))
    put(here, ".dot", lab00__ipynb=notebook(here, good))
    quiet = {**good, "cell_type": "markdown"}
    put(here, "quiet", lab00__ipynb=notebook(here, good, quiet))
    outputs = [{"output_type": "stream", "name": "stdout", "text": "x" * 50_000_000}]
    put(here, "large", lab00__ipynb=notebook(here, {**good, "outputs": outputs}))

    wanted = {"kernel": "julia", "old": "0.0.1", "lost": "%%fill", "renamed": "lab00 (1).ipynb",
              "large": "50 MB", "quiet": "no code"}  # fmt: skip
    found = {s.student: s for s in answers.collect(here, here.labs["lab00"])}
    assert "the stub of vector_scale below an answer" in said(found["below"])
    assert "starts with a dot" in said(found[".dot"]) and not found[".dot"].texts
    for student, word in wanted.items():
        assert word in said(found[student])
        assert found[student].texts == {SLUG: ANSWER.rstrip("\n")}


def test_ids_that_are_nearly_the_same_are_named(here: Course) -> None:
    for name in ("Ann", "ann", "bob"):
        put(here, name, vector_scale__py=ANSWER)

    assert "'Ann'" in said(one(here, "ann")) and "'ann'" in said(one(here, "Ann"))
    assert one(here, "bob").said == []


def test_a_name_that_cannot_be_seen_is_spelt_out(here: Course) -> None:
    for name in (" ", "ann\n", "b\u202eob"):
        put(here, name, vector_scale__py=ANSWER)

        assert "cannot be seen" in said(one(here, name))
        assert answers.shown(name) == ascii(name)
    assert answers.shown("zoë") == "zoë"


def test_a_folder_whose_name_is_no_text_is_read_and_named(here: Course) -> None:
    put(here, "\udcffann", vector_scale__py=ANSWER)

    assert "no text that a gradebook can hold" in said(one(here, "\udcffann"))
    assert one(here, "\udcffann").texts == {SLUG: ANSWER}


def test_no_link_is_followed(here: Course) -> None:
    solution = sources.solution_path(SLUG)
    put(here, "file").joinpath("vector_scale.py").symlink_to(solution)
    put(here, "folder").joinpath("kernels").symlink_to(solution.parent)
    put(here, "book").joinpath("lab00.ipynb").symlink_to(solution)
    lab = here.dir / "submitted" / "lab"
    lab.mkdir()
    (lab / "lab00").symlink_to(solution.parent)
    (here.dir / "submitted" / "student").symlink_to(here.dir / "submitted" / "file")
    os.mkfifo(put(here, "pipe") / "vector_scale.py")

    for name in ("file", "folder", "book", "lab", "student", "pipe"):
        assert one(here, name).texts == {}
        assert "link" in said(one(here, name)) or "plain file" in said(one(here, name))


def test_what_may_not_be_read_is_named(here: Course, monkeypatch: pytest.MonkeyPatch) -> None:
    put(here, "ann", vector_scale__py=ANSWER)
    real = os.open

    def refusing(path, *rest, **more):
        if str(path).endswith("vector_scale.py"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *rest, **more)

    monkeypatch.setattr(handed_in.os, "open", refusing)

    assert "Permission denied" in said(one(here))


def test_who_handed_nothing_in_is_there(here: Course) -> None:
    (here.dir / "submitted" / "ann").mkdir()

    assert not one(here).there
    assert one(here).said == []


def test_a_folder_that_is_no_course_says_so(tmp_path: Path, here: Course) -> None:
    with pytest.raises(ValueError, match="is not a course"):
        Course.load(tmp_path)
    (here.dir / "submitted").rmdir()
    with pytest.raises(ValueError, match="should hold the submissions"):
        answers.collect(here, here.labs["lab00"])
