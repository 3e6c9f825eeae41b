"""The project's own files: locks, environment, make targets, wheel, and what they may not hold."""

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

from flashlab import exercises

ROOT = Path(__file__).resolve().parent.parent
LOCKS = ("requirements.lock", "requirements-test.lock", "requirements-class.lock")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def _pins(lock: str) -> dict[str, Requirement]:
    lines = (ROOT / lock).read_text().splitlines()
    found = [Requirement(line) for line in lines if not line.startswith("#")]
    return {f"{r.name}{' ; ' + str(r.marker) if r.marker else ''}": r for r in found}


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_holds_plain_pins_only(lock):
    for requirement in _pins(lock).values():
        assert re.fullmatch(r"==[\w.]+", str(requirement.specifier)), requirement
        assert requirement.url is None
        assert not requirement.name.startswith(("nvidia-", "cuda-")), requirement
    text = (ROOT / lock).read_text()
    assert not re.search(r"https?:|--hash|--index|\.(org|com|io)\b", text)


def test_the_locks_pin_the_pair_that_ships_together():
    pins = {r.name: str(r.specifier) for r in _pins("requirements.lock").values()}
    assert pins["torch"] == "==2.13.0"
    assert pins["triton"] == "==3.7.1"


@pytest.mark.parametrize("lock", LOCKS[1:])
def test_the_other_locks_extend_the_learners(lock):
    learner, more = _pins(LOCKS[0]), _pins(lock)
    assert {name: str(r) for name, r in learner.items()}.items() <= {
        name: str(r) for name, r in more.items()
    }.items()


@pytest.mark.parametrize(
    ("lock", "asked"),
    [
        (LOCKS[0], PROJECT["dependencies"]),
        (LOCKS[1], PROJECT["optional-dependencies"]["test"]),
        (LOCKS[2], PROJECT["optional-dependencies"]["classroom"]),
    ],
)
def test_a_lock_fits_pyproject(lock, asked):
    pins = {r.name: next(iter(r.specifier)).version for r in _pins(lock).values()}
    for requirement in map(Requirement, asked):
        assert Version(pins[requirement.name]) in requirement.specifier, requirement


def test_environment_yml_is_python_pip_the_lock_and_the_course():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    python, pip, packages = environment["dependencies"]
    assert re.fullmatch(r"python=3\.1[123]", python)
    assert pip == "pip"
    assert packages == {"pip": ["-r requirements.lock", "-e ."]}
    assert environment["channels"][0] == "conda-forge"


def test_make_help_names_every_target():
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.search(r"^\.PHONY: (.*)$", makefile, re.M).group(1).split())
    shown = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(re.findall(r"^ +make ([\w-]+) ", shown.stdout, re.M)) == targets - {"setup-test"}


def test_the_readme_names_make_targets_that_exist():
    makefile = (ROOT / "Makefile").read_text()
    for page in ("README.md", "CONTRIBUTING.md", "AGENTS.md"):
        for target in re.findall(r"\bmake ([a-z][\w-]*)[`\n]", (ROOT / page).read_text()):
            assert re.search(rf"^{target}:", makefile, re.M), f"{page}: make {target}"


def test_the_wheel_carries_the_course(tmp_path):
    from hatchling.builders.wheel import WheelBuilder

    wheel = next(WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"]))
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        archive.extractall(tmp_path / "site")
    for folder in ("chapters", "labs", "solutions"):
        for path in (ROOT / folder).glob("*.*"):
            assert f"flashlab/_course/{folder}/{path.name}" in names
    assert "flashlab/stubs/released.json" in names
    assert not [name for name in names if name.startswith(("tests/", "work/", "scripts/"))]
    done = subprocess.run(
        [sys.executable, "-c", "from flashlab import sources; print(sources.course_dir())"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path / "site"), "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == str(tmp_path / "site" / "flashlab" / "_course"), done.stderr


# Written with one-letter classes, so that this file does not hold what it looks for.
ELSEWHERE = {
    "a path of somebody's machine": r"(?<![\w.~])/(?:root|home/(?!ada/)[a-z]+|Users/[A-Za-z]+)/"
    r"|/tm[p]/envs\b|/wor[k]/(?:main|shared|scratch)\b",  # /home/ada/ is nobody's
    "a package index's address": r"py[p]i\.org|python[h]osted\.org|registry\.np[m]js"
    r"|deb\.deb[i]an",
    "the place where the project is made": r"(?i)\bwor[k]place\b|\bthis sessio[n]\b|\bC[E]O\b"
    r"|\bsub[-]?agent",
}


@pytest.mark.parametrize("what", ELSEWHERE)
def test_the_project_speaks_of_itself(what):
    tracked = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    found = []
    for name in filter(None, tracked.stdout.split("\0")):
        path = ROOT / name
        if path.suffix in {".png", ".svg"} or not path.is_file():
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if re.search(ELSEWHERE[what], line):
                found.append(f"{name}:{number}: {line.strip()[:80]}")
    assert not found, f"{what}: {found}"


def test_the_readme_names_every_exercise():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [slug for slug in exercises.SYLLABUS if f"`{slug}`" not in text] == []


def test_the_readme_counts_right():
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    hours = round(sum(exercises.get(slug).minutes for slug in exercises.SYLLABUS) / 60)
    assert f"**{len(list((ROOT / 'chapters').glob('*.ipynb')))} chapters**" in text
    assert f"**{len(exercises.SYLLABUS)} exercises**, about {hours} hours" in text


def test_the_citation_has_the_projects_address_and_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["repository-code"] == PROJECT["urls"]["Repository"]
    assert citation["version"] == PROJECT["version"]


@pytest.mark.parametrize("path", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda p: p.name)
def test_what_github_reads_is_sound(path):
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    if path.parent.name == "workflows":
        steps = [step for job in found["jobs"].values() for step in job["steps"]]
        targets = re.findall(r"make ([\w-]+)", " ".join(step.get("run", "") for step in steps))
        makefile = (ROOT / "Makefile").read_text()
        assert targets and all(re.search(rf"^{t}:", makefile, re.M) for t in targets)
    elif path.name != "config.yml":
        ids = [field["id"] for field in found["body"]]
        assert len(ids) == len(set(ids)) > 1


def test_pictures_are_small_and_shown():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for path in (ROOT / "docs" / "pictures").iterdir():
        assert path.stat().st_size < 100_000 and f"docs/pictures/{path.name}" in text
