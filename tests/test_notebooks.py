"""Chapters and labs run from top to bottom, labs with their solutions in the stub cells."""

import re
import time

import nbformat
import pytest
from nbclient import NotebookClient

from flashlab import claims, exercises, sources
from flashlab.holes import without_markers
from flashlab.notebook import ipython_config
from flashlab.workspace import Workspace

LIMIT_S = 300  # a hang, not a speed: cells run beside other tests
CORE = {"00", "04"}  # repeated with the other sets of versions
FILL = re.compile(r"%%fill (\w+)\n")


def notebooks(part: str) -> list:
    found = []
    for path in sorted((sources.course_dir() / part).glob("*.ipynb")):
        marks = [pytest.mark.core] if path.stem[:2] in CORE else []
        found.append(pytest.param(path, id=path.stem, marks=marks))
    return found


def run(path, tmp_path, monkeypatch, edit=lambda cell: None):
    """The notebook after a run in a workspace of its own; any error in a cell is raised."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("FLASHLAB_CAPSTONE_STEPS", "8")  # the whole training takes a minute
    ipython_config(tmp_path / "ipython" / "profile_default")
    notebook = nbformat.read(path, 4)
    for cell in notebook.cells:
        edit(cell)
    start = time.monotonic()
    NotebookClient(
        notebook, timeout=LIMIT_S, resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    print(f"{path.parent.name}/{path.stem}: {time.monotonic() - start:.1f} s")
    return notebook


@pytest.mark.parametrize("path", notebooks("chapters"))
def test_chapter_runs(path, tmp_path, monkeypatch):
    notebook = run(path, tmp_path, monkeypatch)
    chapter = path.stem[:2]
    if chapter in claims.chapters():
        assert not list(claims.faults(chapter, notebook.cells, claims.of(chapter)))


@pytest.mark.parametrize("path", notebooks("labs"))
def test_lab_runs_and_its_solutions_pass(path, tmp_path, monkeypatch):
    def fill(cell):
        stub = FILL.match(cell.source) if cell.cell_type == "code" else None
        if stub:
            cell.source = stub[0] + without_markers(sources.solution_text(stub[1]))

    run(path, tmp_path, monkeypatch, fill)
    slugs = [s for s in exercises.SYLLABUS if exercises.get(s).chapter == path.stem[:2]]
    rows = Workspace.current().progress()
    assert {slug: rows[slug]["status"] for slug in slugs} == dict.fromkeys(slugs, "pass")
