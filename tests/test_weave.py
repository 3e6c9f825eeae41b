"""Weaving in a small course of its own: stubs, lab cells, the released list, files left alone."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from flashlab import exercises, sources
from flashlab.authoring import __main__ as authoring
from flashlab.authoring import canonical, check, colab_cells, contract, weave

SLUG = "vector_scale"
COLAB = (colab_cells.BADGE, colab_cells.SETUP)


def cell(kind: str, name: str, text: str) -> canonical.Cell:
    return {"cell_type": kind, "id": name, "metadata": {}, "source": text}


def write_lab(path, *cells) -> None:
    notebook = {"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(canonical.dump(canonical.canonical(notebook)))


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A checkout with one exercise, its lab not yet woven."""
    solution = sources.solution_path(SLUG)
    for folder in ("solutions", "labs", "chapters", "flashlab/stubs", "flashlab/exercises"):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copy(solution, tmp_path / "solutions")
    shutil.copy(Path(__file__).parents[1] / "pyproject.toml", tmp_path)
    (tmp_path / "flashlab/exercises" / f"{SLUG}.py").touch()
    write_lab(tmp_path / "chapters/00_start.ipynb", cell("markdown", "start", "# Start"))
    write_lab(
        tmp_path / "labs/00_start.ipynb",
        cell("markdown", "start", "# Start"),
        cell("markdown", "vector-scale-contract", "to be woven"),
        cell("code", "vector-scale-stub", f"%%fill {SLUG}\n# old"),
        cell("code", "vector-scale-check", f'import flashlab\n\nflashlab.check("{SLUG}")'),
    )
    monkeypatch.setattr(sources, "_PACKAGE", tmp_path / "flashlab")
    monkeypatch.setattr(sources, "STUBS", tmp_path / "flashlab/stubs")
    monkeypatch.setattr(sources, "RELEASED", tmp_path / "flashlab/stubs/released.json")
    monkeypatch.setattr(exercises, "SYLLABUS", (SLUG,))
    return tmp_path


def lab_cells(course) -> dict[str, canonical.Cell]:
    cells = canonical.read(course / "labs/00_start.ipynb")["cells"]
    return {cell["id"]: cell for cell in cells}


def test_the_real_course_is_woven():
    assert weave.main(check=True) == []


def test_weaving_writes_stub_cells_and_hash(course):
    before = lab_cells(course)
    assert weave.main(check=False) == []
    stub = sources.derive_stub(sources.solution_text(SLUG))
    assert sources.stub_text(SLUG) == stub
    assert sources.released_stubs(SLUG) == {sources.text_hash(stub)}
    after = lab_cells(course)
    assert [name for name in after if name not in COLAB] == list(before)
    assert canonical.source(after["vector-scale-stub"]) == f"%%fill {SLUG}\n{stub}".rstrip("\n")
    assert "vector_scale(x: Tensor, a: float)" in canonical.source(after["vector-scale-contract"])
    assert all(after[name] == before[name] for name in ("start", "vector-scale-check"))


@pytest.mark.parametrize("name", ["chapters/00_start.ipynb", "labs/00_start.ipynb"])
def test_every_notebook_gets_the_two_cells_for_colab_behind_its_title(course, name):
    weave.main(check=False)
    cells = canonical.read(course / name)["cells"]
    assert [cell["id"] for cell in cells[:3]] == ["start", *COLAB]
    badge, setup = map(canonical.source, cells[1:3])
    path = colab_cells.repository().removeprefix("https://github.com/")
    assert f"https://colab.research.google.com/github/{path}/blob/main/{name})" in badge
    assert f'"https://github.com/{path}/archive/refs/heads/main.zip"' in setup
    assert "--no-deps" in setup and "capture" not in setup


def test_a_changed_set_up_cell_is_put_right_where_it_belongs(course):
    weave.main(check=False)
    path = course / "chapters/00_start.ipynb"
    woven = path.read_text()
    cells = canonical.read(path)["cells"]
    cells[2]["source"] = ["print('mine')"]
    write_lab(path, cells[2], cells[0])
    assert any("00_start.ipynb: not what" in said for said in weave.main(check=True))
    weave.main(check=False)
    assert path.read_text() == woven


def test_an_address_that_colab_cannot_open_is_one_sentence(course):
    project = course / "pyproject.toml"
    project.write_text(project.read_text().replace("https://github.com/", "https://example.com/"))
    (said,) = weave.main(check=False)
    assert said.startswith("project.urls.Repository should start with https://github.com/")


def test_weaving_again_changes_nothing_and_keeps_canonical_form(course):
    weave.main(check=False)
    texts = {path: path.read_text() for path in course.rglob("*.*")}
    assert weave.main(check=False) == weave.main(check=True) == canonical.main([], True) == []
    assert {path: path.read_text() for path in course.rglob("*.*")} == texts


def test_check_names_what_differs_and_writes_nothing(course, capsys):
    weave.main(check=False)
    capsys.readouterr()
    stub = sources.stub_path(SLUG)
    stub.write_text(stub.read_text() + "# edited\n")
    write_lab(course / "labs/00_start.ipynb", cell("code", "s", f"%%fill {SLUG}\n# edited"))
    sources.RELEASED.write_text("{}\n")
    assert authoring.main(["weave", "--check"]) == 1
    said = capsys.readouterr().out.splitlines()
    for name in ("vector_scale.py", "00_start.ipynb", "released.json"):
        assert sum(f"{name}: not what its solution gives" in line for line in said) == 1
    assert stub.read_text().endswith("# edited\n")


def test_released_stubs_stay_known_and_in_order(course):
    weave.main(check=False)
    path = sources.solution_path(SLUG)
    first = sources.stub_text(SLUG)
    path.write_text(path.read_text().replace("# 1. Which", "# 1. What"))
    weave.main(check=False)
    second = sources.stub_text(SLUG)
    assert first != second and sources.is_stub(SLUG, first) and sources.is_stub(SLUG, second)
    hashes = json.loads(sources.RELEASED.read_text())[SLUG]
    assert hashes == [sources.text_hash(first), sources.text_hash(second)]


def test_a_broken_solution_and_an_unknown_slug_are_one_sentence(course):
    write_lab(course / "labs/00_start.ipynb", cell("code", "s", "%%fill nothing\n"))
    assert "%%fill nothing has no solutions/nothing.py" in weave.main(check=False)[0]
    path = sources.solution_path(SLUG)
    path.write_text(path.read_text().replace("### END SOLUTION", "# end"))
    (said,) = weave.main(check=False)
    assert said.startswith(f"{path}, line ") and said.endswith("BEGIN SOLUTION inside a hole")
    assert not sources.stub_path(SLUG).exists()


class TestStrays:
    """Files without a partner."""

    def test_a_complete_course_has_none(self, course):
        weave.main(check=False)
        assert list(check.strays(course)) == []

    @pytest.mark.parametrize(
        "name",
        [
            "solutions/other.py",
            "flashlab/stubs/other.py",
            "flashlab/exercises/other.py",
            "labs/01_more.ipynb",
            "chapters/01_more.ipynb",
            "labs/kernel.py",
            "labs/deeper/00_start.ipynb",
            "chapters/figure.svg",
            "solutions/notes.txt",
            "flashlab/exercises/mistakes/other.py",
        ],
    )
    def test_one_file_too_many(self, course, name):
        weave.main(check=False)
        (course / name).parent.mkdir(exist_ok=True)
        write_lab(course / name)
        assert [said.split(":")[0].split(" ")[0] for said in check.strays(course)] == [name]

    def test_figures_and_parts_of_an_exercise_are_no_strays(self, course):
        weave.main(check=False)
        (course / "chapters/figure.svg").write_text("<svg/>")
        text = cell("markdown", "figure", "![tiles](figure.svg)")
        write_lab(course / "chapters/00_start.ipynb", text)
        (course / "flashlab/exercises/mistakes").mkdir()
        (course / f"flashlab/exercises/mistakes/{SLUG}.py").touch()
        exercise = course / f"flashlab/exercises/{SLUG}.py"
        exercise.write_text("from flashlab.exercises.inputs import make\n")
        (course / "flashlab/exercises/inputs.py").touch()
        assert list(check.strays(course)) == []

    def test_missing_files(self, course):
        weave.main(check=False)
        (course / "labs/00_start.ipynb").rename(course / "labs/77_start.ipynb")
        sources.solution_path(SLUG).unlink()
        assert list(check.strays(course)) == [
            "solutions/vector_scale.py is missing: the syllabus names it",
            "chapters/00_start.ipynb has no partner labs/00_start.ipynb",
            "labs/77_start.ipynb belongs to no exercise of the syllabus",
            "labs/00_*.ipynb: 0 contract cells of vector_scale, 1 wanted",
            "labs/00_*.ipynb: 0 stub cells of vector_scale, 1 wanted",
            "labs/77_*.ipynb: 1 contract cells of vector_scale, 0 wanted",
            "labs/77_*.ipynb: 1 stub cells of vector_scale, 0 wanted",
        ]

    def test_cells_of_a_lab(self, course):
        weave.main(check=False)
        stub = cell("code", "a", f"%%fill {SLUG}\n")
        write_lab(course / "labs/00_start.ipynb", stub, {**stub, "id": "b"})
        assert list(check.strays(course)) == [
            "labs/00_*.ipynb: 0 contract cells of vector_scale, 1 wanted",
            "labs/00_*.ipynb: 2 stub cells of vector_scale, 1 wanted",
        ]


def test_check_says_one_line_each(course, capsys):
    assert authoring.main(["check"]) == 1
    lines = capsys.readouterr().out.splitlines()
    verdicts = [line for line in lines if not line.startswith(" ")]
    assert [line.split()[0] for line in verdicts][:2] == ["FAILED", "ok"]
    assert len(verdicts) == 5
    weave.main(check=False)
    assert authoring.main(["check"]) == 0


DOC = """Attention of *one* head.

s = q k^T * sm_scale
o = softmax(s) v

Rows that see no key give o = 0, ``lse * 1 = -inf``.

Args:
    q, k: [N, D]; queries
        and keys.
    causal: whether ``i < j`` is hidden.

Returns:
    o: [N, D]

Raises:
    ValueError: another shape.

Source: a paper, section 2,
    equation 3.
"""


def test_contract_renders_a_docstring():
    parts = contract._docstring(DOC)
    assert parts[0] == r"Attention of \*one\* head."
    assert parts[1] == "```text\ns = q k^T * sm_scale\no = softmax(s) v\n```"
    assert parts[3:] == [
        "**Arguments**\n\n- `q`, `k`: [N, D]; queries and keys.\n"
        "- `causal`: whether `i < j` is hidden.",
        "**Returns**\n\n- `o`: [N, D]",
        "**Errors**\n\n- `ValueError`: another shape.",
        "**Source**: a paper, section 2, equation 3.",
    ]


def test_contract_breaks_long_signatures():
    def f(
        q: torch.Tensor, k: "torch.Tensor", *, kind: str = "a", pair: tuple[int, int] = (1, 2)
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Something."""

    assert contract.signature("flash_forward", f) == (
        "flash_forward(\n    q: Tensor,\n    k: Tensor,\n    *,\n    kind: str = 'a',\n"
        "    pair: tuple[int, int] = (1, 2),\n) -> tuple[Tensor, Tensor]"
    )


def test_contract_prints_the_budget_of_the_core_case_that_moves_most():
    text = contract.contract_cell(exercises.get(SLUG))
    assert "case `three-blocks` (float16, N = 48, BLOCK = 16)" in text
    assert "| `x` | 96 | 0 |\n| `y` | 0 | 96 |" in text
