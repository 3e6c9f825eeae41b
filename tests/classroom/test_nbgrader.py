"""nbgrader on a course of ours: what goes out, what comes in, how it is run."""

import copy
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from flashlab import sources
from flashlab.authoring import canonical
from flashlab.classroom import build, handed_in
from flashlab.classroom.course import Course
from flashlab.workspace import cell_source

pytestmark = [
    pytest.mark.classroom,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
if importlib.util.find_spec("nbgrader"):
    from flashlab.classroom import practice, release, submission

LAB, SLUG = "lab00", "vector_scale"
RIGHT = sources.without_markers(sources.solution_text(SLUG))


def release_of(course: Course, lab: str) -> dict:
    """The students' notebook as nbgrader makes it, without its gradebook."""
    notebook = nbformat.read(course.source(lab), as_version=4)
    notebook, _ = release.StubCells().preprocess(notebook, {})
    path = course.release(lab)
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)
    return json.loads(path.read_text())


@pytest.fixture
def course(tmp_path: Path) -> Course:
    made = build.build(tmp_path / "c", ["00"])
    release_of(made, LAB)
    return made


def answered(course: Course, text: str) -> dict:
    """The released notebook with an answer in its stub cell."""
    notebook = json.loads(course.release(LAB).read_text())
    for cell in notebook["cells"]:
        if canonical.fill_slug(cell):
            cell["source"] = cell_source(SLUG, text)
    return notebook


def put(course: Course, student: str, notebook: dict | None, name: str = f"{LAB}.ipynb") -> Path:
    folder = course.dir / "submitted" / student / LAB
    folder.mkdir(parents=True, exist_ok=True)
    if notebook is not None:
        (folder / name).write_text(json.dumps(notebook))
    return folder


def taken(course: Course, student: str, monkeypatch: pytest.MonkeyPatch) -> dict:
    """What nbgrader would run of a submission."""
    monkeypatch.chdir(course.dir)
    folder = course.dir / "submitted" / student / LAB
    notebook = nbformat.read(folder / f"{LAB}.ipynb", as_version=4)
    resources = {
        "nbgrader": {"student": student, "assignment": LAB},
        "metadata": {"path": str(folder)},
    }
    return submission.TakeAnswers().preprocess(notebook, resources)[0]


def graded_cells(notebook: dict) -> list[dict]:
    return [c for c in notebook["cells"] if c["metadata"].get("nbgrader", {}).get("grade")]


def test_every_release_stub_is_the_labs_to_the_byte(tmp_path):
    course = build.build(tmp_path / "all")
    for lab in course.labs.values():
        made = release_of(course, lab.name)
        original = canonical.read(sources.course_dir() / "labs" / f"{lab.notebook}.ipynb")
        both = [
            {slug: c["source"] for c in notebook["cells"] if (slug := canonical.fill_slug(c))}
            for notebook in (original, made)
        ]
        assert both[0] == both[1] and tuple(both[0]) == lab.slugs
        assert "SOLUTION" not in json.dumps(made)


def test_a_solution_outside_a_solution_cell_stops_the_release(course):
    notebook = nbformat.read(course.source(LAB), as_version=4)
    stub = next(c for c in notebook["cells"] if canonical.fill_slug(c))
    for change in ({"metadata": {}}, {"source": stub["source"].partition("\n")[2]}):
        broken = copy.deepcopy(notebook)
        broken["cells"][notebook["cells"].index(stub)].update(change)
        with pytest.raises(ValueError, match="holds a solution's marker"):
            release.StubCells().preprocess(broken, {})


def _pasted(notebook: dict) -> None:
    notebook["cells"].append({**copy.deepcopy(graded_cells(notebook)[0]), "id": "pasted"})


def _deleted(notebook: dict) -> None:
    for cell in graded_cells(notebook):
        notebook["cells"].remove(cell)


def _stripped(notebook: dict) -> None:
    for cell in notebook["cells"]:
        cell["metadata"] = {}


@pytest.mark.parametrize("damage", [_pasted, _deleted, _stripped])
def test_a_damaged_notebook_is_graded_in_the_released_one(course, damage, monkeypatch):
    notebook = answered(course, RIGHT)
    damage(notebook)
    put(course, "ada", notebook)
    found = taken(course, "ada", monkeypatch)
    released = json.loads(course.release(LAB).read_text())
    assert handed_in.grade_ids(found) == handed_in.grade_ids(released)
    [text] = [canonical.source(c) for c in found["cells"] if canonical.fill_slug(c)]
    assert text == cell_source(SLUG, RIGHT)


def test_a_whole_notebook_keeps_its_own_cells(course, monkeypatch):
    notebook = answered(course, RIGHT)
    note = {"cell_type": "markdown", "id": "mine", "metadata": {}, "source": "my notes"}
    notebook["cells"].append(note)
    put(course, "ada", notebook)
    assert taken(course, "ada", monkeypatch)["cells"][-1]["source"] == "my notes"


def test_kernel_files_and_renamed_notebooks_get_a_notebook(course, monkeypatch):
    said = []
    folder = put(course, "alan", None)
    (folder / f"{SLUG}.py").write_text(RIGHT)
    renamed = put(course, "grace", answered(course, RIGHT), "lab00 (1).ipynb")
    empty = put(course, "kurt", None)
    for place in (folder, renamed, empty):
        submission.complete(place, course, said.append)
    assert [line.partition(",")[0] for line in said] == ["alan", "grace", "kurt"]
    assert not list(empty.iterdir())
    for student in ("alan", "grace"):
        [text] = [
            canonical.source(c)
            for c in taken(course, student, monkeypatch)["cells"]
            if canonical.fill_slug(c)
        ]
        assert sources.text_hash(text) == sources.text_hash(cell_source(SLUG, RIGHT))
    (folder / f"{SLUG}.py").write_text(RIGHT + "# second try\n")
    assert "second try" in json.dumps(taken(course, "alan", monkeypatch))


def cell(name: str, source: str, **marks: object) -> dict:
    """A code cell with nbgrader's metadata, locked unless told otherwise."""
    known = {"grade": False, "grade_id": name, "locked": True, "solution": False, "task": False}
    return nbformat.v4.new_code_cell(source, metadata={"nbgrader": known | marks})


def test_a_dead_kernel_costs_one_cell_and_answers_never_run_in_it(tmp_path, monkeypatch):
    monkeypatch.setenv("FLASHLAB_WORK", str(tmp_path / "mine"))
    notebook = nbformat.v4.new_notebook(metadata={"kernelspec": canonical.KERNEL})
    where = "import os; home = os.environ['FLASHLAB_WORK']; os.getcwd() == home"
    notebook["cells"] = [
        cell("set-up", where),
        nbformat.v4.new_code_cell("import os; os._exit(4)"),
        cell("stub", "%%fill triad\nimport os\nos._exit(5)", locked=False, solution=True),
        cell(
            "look",
            "float(open(home + '/kernels/triad.py').read() == 'import os\\nos._exit(5)\\n')",
        ),
        cell("bad", "os._exit(3)", grade=True, points=1),
        cell("good", "float(len(home) > 0)", grade=True, points=1),
    ]
    resources = {"metadata": {"path": str(tmp_path)}}
    done, _ = practice.RunChecks(timeout=60).preprocess(notebook, resources)
    shown = [c["outputs"] for c in done["cells"]]
    assert shown[0][0]["data"]["text/plain"] == "True"
    assert shown[1] == [] and "the check below runs it" in shown[2][0]["text"]
    assert shown[3][0]["data"]["text/plain"] == shown[5][0]["data"]["text/plain"] == "1.0"
    assert shown[4][-1]["ename"] == "DeadKernelError"
    assert not (tmp_path / "mine").exists()


BATCH = {  # student -> practice marks
    "right": 100.0,
    "blank": 0.0,
    "dead": 0.0,
    "deleted": 100.0,
    "edited": 0.0,
    "hook": 0.0,
    "loop": 0.0,
    "old": 100.0,
    "pasted": 100.0,
    "stripped": 100.0,
    "wrong": 0.0,
}


def hand_in_batch(course: Course) -> None:
    """One submission for each way to go wrong that nbgrader itself stumbles over."""
    wrong = RIGHT.replace("y = a * x  #", "y = a + x  #")
    hook = "get_ipython().input_transformers_cleanup.append(lambda lines: ['90.0'])\n"
    texts = {
        "blank": sources.stub_text(SLUG),
        "dead": f"import os\nos._exit(3)\n{RIGHT}",
        "edited": wrong,
        "hook": hook + wrong,
        "loop": f"while True: pass\n{RIGHT}",
        "wrong": wrong,
    }
    made = {name: answered(course, texts.get(name, RIGHT)) for name in BATCH}
    for name, damage in (("pasted", _pasted), ("deleted", _deleted), ("stripped", _stripped)):
        damage(made[name])
    for test in graded_cells(made["edited"]):
        test["source"] = "float(90)"
    made["old"]["metadata"]["kernelspec"]["name"] = "py12"
    made["old"]["metadata"][handed_in.STAMP]["version"] = "0.0.1"
    evil = nbformat.v4.new_code_cell("import os; os.kill(os.getpid(), 9)")
    made["old"]["cells"].insert(0, evil)
    for name, notebook in made.items():
        put(course, name, notebook)
    (put(course, "broken", None) / f"{LAB}.ipynb").write_text('{"cells": [')


@pytest.mark.slow
def test_a_batch_of_everything_that_can_be_wrong_goes_through(tmp_path):
    course = build.build(tmp_path / "c", ["00"])
    nbgrader = [sys.executable, "-m", "nbgrader"]
    path = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(tmp_path)}
    run = {"cwd": course.dir, "env": path, "capture_output": True, "text": True}
    subprocess.run([*nbgrader, "generate_assignment", LAB], check=True, **run)
    hand_in_batch(course)
    done = subprocess.run([*nbgrader, "autograde", LAB], **run)
    assert done.returncode == 1 and "for student 'broken'" in done.stderr
    for said in ("old, lab00: lab00.ipynb names the kernel 'py12'", "made for version '0.0.1'"):
        assert said in done.stderr
    subprocess.run([*nbgrader, "export", "--to=out.csv"], check=True, **run)
    rows = [line.split(",") for line in (course.dir / "out.csv").read_text().splitlines()]
    at = {name: rows[0].index(name) for name in ("student_id", "score")}
    found = {row[at["student_id"]]: float(row[at["score"]]) for row in rows[1:]}
    assert found == {**BATCH, "broken": 0.0}
    assert not list((course.dir / "autograded").rglob("*.py"))


@pytest.mark.slow
def test_validating_leaves_the_instructors_workspace_alone(tmp_path):
    course = build.build(tmp_path / "c", ["00"])
    path = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(tmp_path)}
    path["FLASHLAB_WORK"] = str(tmp_path / "work")
    command = [sys.executable, "-m", "nbgrader", "validate", course.source(LAB)]
    done = subprocess.run(command, cwd=course.dir, env=path, capture_output=True, text=True)
    assert "Success" in done.stdout and done.returncode == 0, done.stderr
    assert not (tmp_path / "work").exists()
    assert [p.name for p in course.source(LAB).parent.iterdir()] == [f"{LAB}.ipynb"]


@pytest.mark.slow
@pytest.mark.parametrize("text, marks", [(RIGHT, 100), (RIGHT.replace("a * x  #", "a + x  #"), 0)])
def test_the_release_gives_the_same_marks_under_nbgraders_own_execution(
    course, text, marks, monkeypatch
):
    """Without our settings: every cell runs in the kernel, as in a student's own nbgrader."""
    from nbgrader import utils
    from nbgrader.preprocessors import Execute

    monkeypatch.setenv("FLASHLAB_WORK", str(course.dir / "work"))
    notebook = nbformat.reads(json.dumps(answered(course, text)), as_version=4)
    resources = {"metadata": {"path": str(course.dir)}}
    done, _ = Execute(timeout=300).preprocess(notebook, resources)
    got = [utils.determine_grade(c) for c in done["cells"] if utils.is_grade(c)]
    assert sum(score for score, _ in got) == marks and sum(most for _, most in got) == 100
