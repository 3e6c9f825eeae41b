"""The course home as HTML: where a learner stands and what comes next."""

import json

import pytest

from flashlab import device, exercises, home, quizzes
from flashlab.workspace import Workspace


@pytest.fixture
def root(tmp_path):
    """A workspace with a chapter and a lab notebook of chapter 00."""
    for name, heading in (("chapters/00_start_here", "# 00 · start here"), ("labs/00_first", "")):
        path = tmp_path / f"{name}.ipynb"
        path.parent.mkdir()
        path.write_text(json.dumps({"cells": [{"cell_type": "markdown", "source": [heading]}]}))
    return tmp_path


def test_a_new_learner_is_sent_to_the_first_exercise(root):
    page = home.page(root)
    assert f"<b>0 of {len(exercises.SYLLABUS)}</b> exercises passed" in page
    first = exercises.get(exercises.SYLLABUS[0])
    assert f"<b>Next: {first.title}</b>" in page
    assert '<a href="chapters/00_start_here.ipynb">read the chapter</a>, then' in page
    assert '<a href="labs/00_first.ipynb">do the lab</a>' in page
    assert page.count("not checked yet") == len(exercises.SYLLABUS)


def test_a_chapter_is_called_by_its_first_heading(root):
    assert '<a href="chapters/00_start_here.ipynb">Start here</a>' in home.page(root)


def test_a_notebook_without_a_heading_is_called_by_its_file(root):
    (root / "chapters" / "00_start_here.ipynb").write_text("no notebook")
    assert '<a href="chapters/00_start_here.ipynb">Start here</a>' in home.page(root)


def test_progress_and_hints_are_shown(root):
    slug = exercises.SYLLABUS[0]
    workspace = Workspace.current()
    workspace.record_check(slug, "hash", "wrong", 45.0, "cpu")
    workspace.record_hint(slug, 2)
    assert "best so far 45 points: wrong, 2 hints opened" in home.page(root)
    workspace.record_check(slug, "other", "pass", 92.5, "cpu")
    page = home.page(root)
    assert "✓ passed, 92.5 points (cpu), 2 hints opened" in page
    assert f"<b>1 of {len(exercises.SYLLABUS)}</b> exercises passed" in page


def test_quiz_scores_stand_in_the_row_of_their_chapter(root):
    quiz = quizzes.quiz("flash-forward")
    assert f">0 of {len(quiz.questions)} right</td>" in row_of(root, ">04</td>")
    quiz.answer(1, quiz.questions[0].answer())
    assert f">1 of {len(quiz.questions)} right</td>" in row_of(root, ">04</td>")


def test_each_exercise_has_a_row_of_its_own_below_its_chapter(root):
    slugs = [s for s in exercises.SYLLABUS if exercises.get(s).chapter == "05"]
    rows = [row_of(root, f"<code>{slug}</code></td>") for slug in slugs]
    assert len({*rows}) == len(slugs) > 2
    assert all("not checked yet" in row for row in rows)
    assert f'<td rowspan="{len(slugs)}">05</td>' in rows[0]
    assert all(row.count("<td") == 2 for row in rows[1:])


def row_of(root, text):
    """The one row of the table that holds a text."""
    (row,) = [row for row in home.page(root).split("<tr>") if text in row]
    return row


def test_a_bar_shows_what_is_passed(root):
    bar = f'<progress max="{len(exercises.SYLLABUS)}" value="%d" aria-label="exercises passed">'
    assert bar % 0 in home.page(root)
    Workspace.current().record_check(exercises.SYLLABUS[0], "hash", "pass", 100.0, "cpu")
    assert bar % 1 in home.page(root)


def test_a_newer_text_beside_ones_own_does_not_take_its_place(root):
    (root / "labs" / "00_first.new.ipynb").write_text("{}")
    page = home.page(root)
    assert "labs/00_first.ipynb" in page and "new.ipynb" not in page


def test_an_exercise_without_a_notebook_is_started_by_the_command(root, monkeypatch):
    for slug in exercises.SYLLABUS:
        if exercises.get(slug).chapter == "00":
            Workspace.current().record_check(slug, "hash", "pass", 100.0, "cpu")
    todo = next(s for s in exercises.SYLLABUS if exercises.get(s).chapter != "00")
    assert f"<code>flashlab start {todo}</code>" in home.page(root)


def test_at_the_end_there_is_nothing_left(root):
    for slug in exercises.SYLLABUS:
        Workspace.current().record_check(slug, "hash", "pass", 100.0, "gpu")
    assert f"All {len(exercises.SYLLABUS)} exercises passed." in home.page(root)


@pytest.mark.parametrize(
    ("name", "capability", "says"),
    [
        ("", 0, "tier <b>cpu</b>"),
        ("Tesla T4", 75, "correctness only, no speed points"),
        ("NVIDIA A100", 80, "on the GPU for speed"),
        ("NVIDIA H200", 90, "Hopper-only parts"),
    ],
)
def test_the_tier_is_named_with_what_it_means(root, monkeypatch, name, capability, says):
    monkeypatch.setattr(device, "detect", lambda: device.classify(name, capability))
    assert says in home.page(root)


def test_names_from_files_are_escaped(root):
    cells = [{"cell_type": "markdown", "source": ["# 00 <b>bold</b>"]}]
    (root / "chapters" / "00_start_here.ipynb").write_text(json.dumps({"cells": cells}))
    assert "&lt;b&gt;bold" in home.page(root)
