"""``flashlab class build``: the folder, its settings, the notebooks and the students' copy."""

import json
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from flashlab import cli, exercises, sources
from flashlab.authoring import canonical
from flashlab.classroom import build, bundle, course
from flashlab.classroom.course import Course, Late, Points

LAB, SLUG = "lab00", "vector_scale"


@pytest.fixture
def made(tmp_path: Path) -> Course:
    return build.build(tmp_path / "autumn", ["00"])


def edit(made: Course, change) -> Path:
    """Change ``flashlab_class.json`` as an instructor might."""
    path = made.dir / course.FILE
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    return path


def cells(path: Path) -> dict[str, dict]:
    """Cells by the name that nbgrader has for them."""
    marked = [c for c in canonical.read(path)["cells"] if "nbgrader" in c["metadata"]]
    return {c["metadata"]["nbgrader"]["grade_id"]: c for c in marked}


def test_every_lab_with_an_exercise_makes_an_assignment(tmp_path):
    made = build.build(tmp_path / "all")
    graded = [slug for lab in made.labs.values() for slug in lab.slugs]
    labs = {path.stem for path in (sources.course_dir() / "labs").glob("*.ipynb")}
    in_labs = {s for path in labs for s in build.assignment.lab_slugs(path)}
    assert {lab.notebook for lab in made.labs.values()} == labs - {"12_capstone"}, "no exercise"
    assert sorted(graded) == sorted(in_labs) and set(graded) <= set(exercises.SYLLABUS)
    for lab in made.labs.values():
        marks = [c["metadata"]["nbgrader"] for c in cells(made.source(lab.name)).values()]
        worth = sum(mark.get("points", 0) for mark in marks)
        assert worth == 100 * len(lab.slugs)


def test_the_secret_is_private_and_stays(made):
    path = made.dir / "secret"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    secret = made.secret
    assert len(secret) == 32 and Course.load(made.dir).secret == secret
    build.build(made.dir)
    assert made.secret == secret
    assert "secret" in (made.dir / ".gitignore").read_text().splitlines()
    path.write_text("short")
    with pytest.raises(ValueError, match="no earlier mark can be reproduced"):
        _ = made.secret


def test_test_cells_end_in_a_float_and_points_add_up(made):
    found = cells(made.source(LAB))
    assert list(found) == [
        "class-set-up",
        f"{SLUG}-stub",
        f"{SLUG}-check",
        f"{SLUG}-step-1",
        f"{SLUG}-step-2",
    ]
    for name in list(found)[2:]:
        assert canonical.source(found[name]).splitlines()[-1].startswith("float(")
        assert found[name]["metadata"]["nbgrader"]["locked"]
    stub = canonical.source(found[f"{SLUG}-stub"])
    assert stub == f"%%fill {SLUG}\n{sources.solution_text(SLUG).rstrip()}"


def test_points_are_chosen_in_the_settings(made):
    def change(data):
        data["labs"][LAB]["points"][SLUG] = {"check": 7.5, "steps": [0, 2]}
        data["late"] = {"free_days": 2, "percent_a_day": 10}

    edit(made, change)
    again = build.build(made.dir, ["04"])
    assert again.labs[LAB].points[SLUG] == Points(7.5, (0, 2))
    assert again.late == Late(2, 10) and set(again.labs) == {LAB, "lab04"}
    found = cells(made.source(LAB))
    assert found[f"{SLUG}-check"]["metadata"]["nbgrader"]["points"] == 7.5
    assert f"float({SLUG}_report.marks(7.5))" in canonical.source(found[f"{SLUG}-check"])


def test_an_exercise_without_points_stays_unmarked(tmp_path):
    made = build.build(tmp_path / "c", ["04"])
    edit(made, lambda data: data["labs"]["lab04"]["points"].pop("flash_forward_tiles"))
    build.build(made.dir)
    text = made.source("lab04").read_text()
    assert "flash_forward_tiles-check" not in text and '"flash_forward-check"' in text
    solved = sources.solution_text("flash_forward_tiles")
    assert sources.holes(solved)[0].lines[0] not in text


WRONG = {
    "no-version": (lambda d: d.update(version=2), '"version" must be 1'),
    "no-lab": (lambda d: d.update(labs={}), "at least one lab"),
    "unknown-lab": (lambda d: d["labs"].update(lab77={"points": {}}), "there is no lab 'lab77'"),
    "unknown-exercise": (
        lambda d: d["labs"][LAB]["points"].update(flash={"check": 1, "steps": []}),
        "no exercise is called 'flash'; did you mean",
    ),
    "steps-missing": (
        lambda d: d["labs"][LAB]["points"][SLUG].update(steps=[1]),
        r'vector_scale needs .*"steps": \[2 of them\]',
    ),
    "negative": (lambda d: d["labs"][LAB]["points"][SLUG].update(check=-1), "none below 0"),
    "text": (lambda d: d["labs"][LAB]["points"][SLUG].update(check="9"), "none below 0"),
    "name": (lambda d: d.update(name="a/b"), '"name" must be letters'),
    "late": (lambda d: d.update(late={"days": 3}), '"late" needs'),
    "late-negative": (lambda d: d.update(late={"free_days": -3}), '"late" needs'),
}


@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_setting_is_named(made, fault):
    change, says = WRONG[fault]
    edit(made, change)
    with pytest.raises(ValueError, match=says) as raised:
        Course.load(made.dir)
    assert str(made.dir / course.FILE) in str(raised.value)


def test_a_folder_that_is_no_course(tmp_path, capsys):
    with pytest.raises(ValueError, match="is not a course: it has no flashlab_class.json"):
        Course.load(tmp_path)
    (tmp_path / course.FILE).write_text("{")
    with pytest.raises(ValueError, match="cannot be read"):
        Course.load(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").write_text("mine")
    assert cli.main(["class", "build", str(other)]) == 2
    assert "is neither empty nor a course" in capsys.readouterr().err
    assert [path.name for path in other.iterdir()] == ["thesis.tex"]
    assert cli.main(["class", "build", str(tmp_path / "new"), "--lab", "99"]) == 2
    assert "there is no lab '99'; there are lab00" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_nothing_goes_out_by_accident(made):
    for place in (made.source(LAB).parent, made.dir / "release" / LAB):
        place.mkdir(parents=True, exist_ok=True)
        (place / "vector_scale.py").write_text(sources.solution_text(SLUG))
        with pytest.raises(ValueError, match="would go out to every student"):
            build.build(made.dir)
        (place / "vector_scale.py").unlink()


def test_settings_of_the_instructor_stay(made):
    path = made.dir / "nbgrader_config.py"
    path.write_text(path.read_text() + "c.Exchange.root = '/srv/exchange'\n")
    before = made.source(LAB).read_text()
    build.build(made.dir)
    assert "/srv/exchange" in path.read_text()
    assert made.source(LAB).read_text() == before


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The students' copy."""
    return bundle.write(tmp_path_factory.mktemp("students"))


@pytest.fixture(scope="module")
def texts(wheel) -> dict[str, str]:
    with zipfile.ZipFile(wheel) as found:
        return {name: found.read(name).decode("utf-8") for name in found.namelist()}


def test_the_same_course_gives_the_same_bytes(wheel, tmp_path):
    assert bundle.write(tmp_path).read_bytes() == wheel.read_bytes()


def test_no_solution_and_no_mistake_is_in_it(texts):
    whole = "\n".join(texts.values())
    assert not [name for name in texts if "solutions" in name.split("/")]
    for slug in exercises.SYLLABUS:
        assert f"flashlab/stubs/{slug}.py" in texts
        for mistake in exercises.get(slug).mistakes:
            assert mistake.says not in whole
        for hole in sources.holes(sources.solution_text(slug)):
            body = "\n".join(hole.lines)
            if len(hole.lines) > 3:  # shorter ones are idioms that chapters show
                assert body not in whole, (slug, hole.number)


CHECKS = """
import flashlab, json, sys
from flashlab import sources
print(sources.course_dir())
for path in sys.argv[1:]:
    report = flashlab.check("vector_scale", file=path, show=False, tier="cpu")
    print(json.dumps([report.status, report.points, report.headline]))
"""


def test_pip_installs_it_and_it_checks_without_solutions(wheel, tmp_path):
    place = tmp_path / "packages"
    pip = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile"]
    run = [sys.executable, *pip, "--disable-pip-version-check", "--target", str(place), wheel]
    subprocess.run(run, check=True)
    wrong, solution = tmp_path / "wrong.py", sources.solution_text(SLUG)
    mistakes = [m for m in exercises.get(SLUG).mistakes if m.expect == "wrong"]
    wrong.write_text(sources.mutant(solution, mistakes[0]))
    stub = place / "flashlab" / "stubs" / f"{SLUG}.py"
    done = subprocess.run(
        [sys.executable, "-c", CHECKS, stub, wrong],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": str(place)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    where, *rows = done.stdout.splitlines()
    assert Path(where) == place / "flashlab" / "_course"
    reports = [json.loads(row) for row in rows]
    assert [report[:2] for report in reports] == [["unfilled", 0], ["wrong", 0]]
    assert sources.holes(solution)[0].sentence in reports[0][2]
    assert mistakes[0].says not in reports[1][2]


def test_pip_can_read_it(wheel, texts):
    [record] = [text for name, text in texts.items() if name.endswith("RECORD")]
    assert {line.split(",")[0] for line in record.splitlines()} == set(texts)
    [about] = [text for name, text in texts.items() if name.endswith("METADATA")]
    assert "Name: flashlab-course" in about and f"+{bundle.LOCAL}" in about
    [entry] = [text for name, text in texts.items() if name.endswith("entry_points.txt")]
    assert "flashlab = flashlab.cli:main" in entry
