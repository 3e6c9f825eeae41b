"""Debug this kernel: the draw, what is hidden, naming, mending and marks."""

import random

import pytest

from flashlab import broken, cli, exercises, sources
from flashlab.broken import bank, desk
from flashlab.workspace import Workspace

QUICK = ("vector_scale", "triad")


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(desk, "dealt_from", lambda passed: QUICK)
    return broken.deal(3)


def mend(found, number):
    mistake = found.puzzles[number - 1].mistake
    return found.mend(number, mistake.new, mistake.old)


def without_comments(text):
    return [line.split("  # ")[0] for line in text.splitlines()]


def test_a_changed_line_keeps_its_comment():
    before = "x = a * b  # [BLOCK]\ny = x  # once\nz = y\n"
    assert bank.commented(before, before.replace("a * b  # [BLOCK]", "a + b")) == (
        "x = a + b  # [BLOCK]\ny = x  # once\nz = y\n"
    )
    other = before.replace("# once", "# twice")
    assert bank.commented(before, other) == other
    gone = "x = a * b  # [BLOCK]\nz = y\n"
    assert bank.commented(before, gone) == gone
    (adds,) = (m for m in exercises.get("vector_scale").mistakes if m.slug == "adds")
    text = bank._puzzle(1, "vector_scale", adds, random.Random(0)).text
    assert "y = a + x  # [BLOCK]" in text


@pytest.mark.parametrize("seed", range(12))
def test_a_draw_is_eight_different_kernels_of_its_seed(seed):
    slugs = bank.dealt_from(exercises.SYLLABUS)
    puzzles = broken.draw(seed, slugs)
    assert [p.number for p in puzzles] == list(range(1, broken.COUNT + 1))
    assert len({(p.slug, p.mistake.slug) for p in puzzles}) == broken.COUNT
    assert len({p.slug for p in puzzles}) == broken.COUNT, "each exercise once before one twice"
    assert puzzles == broken.draw(seed, slugs) != broken.draw(seed + 100, slugs)
    for p in puzzles:
        mutant = sources.mutant(sources.solution_text(p.slug), p.mistake)
        assert without_comments(p.text) == without_comments(mutant)
        assert p.choices[bank.LETTERS.index(p.answer)] == p.mistake.says
        assert len(set(p.choices)) == len(p.choices) == bank.CHOICES
        assert p.mistake.expect in bank.STATUSES and p.mistake.tier == "cpu"


def test_a_copy_without_mistakes_says_so(monkeypatch):
    monkeypatch.setattr(bank, "_usable", lambda slug: [])
    with pytest.raises(ValueError, match="holds no mistakes"):
        broken.draw(1, ["triad"])


def test_right_letters_are_spread():
    answers = [p.answer for s in range(8) for p in broken.draw(s, bank.dealt_from(()))]
    assert set(answers) == set(bank.LETTERS)


def test_what_you_passed_is_dealt_and_what_is_opened_is_recorded():
    assert bank.dealt_from(["flash_forward", "triad"])[:2] == ("triad", "flash_forward")
    assert len(bank.dealt_from(["flash_forward", "triad"])) == 4
    five = ("triad", "row_softmax", "flash_forward", "flash2_forward", "varlen_forward")
    assert bank.dealt_from(five) == five
    broken.deal(1)
    rows = Workspace.current().progress()
    opened = {slug for slug in rows if rows[slug]["solution_opened"]}
    assert opened == set(bank.dealt_from(()))


def test_all_kernels_are_dealt_when_asked_for():
    found = broken.deal(2, every=True)
    assert len({p.slug for p in found.puzzles}) == broken.COUNT
    assert "flash2_backward" in found.state["slugs"]
    assert cli.main(["broken", "--every"]) == 2
    assert cli.main(["broken", "--every", "--seed", "2"]) == 0


def test_nothing_that_a_learner_sees_names_the_fault(quick):
    for number, puzzle in enumerate(quick.puzzles, 1):
        seen = f"{quick!r} {quick.path(number)} {quick.show(number)}"
        assert puzzle.mistake.slug not in seen and puzzle.mistake.says not in seen
        assert puzzle.mistake.slug not in (quick.folder / "state.json").read_text()
    text = quick.symptoms(1)
    puzzle = quick.puzzles[0]
    assert puzzle.mistake.says not in text and puzzle.mistake.slug not in text
    lines = text.splitlines()[1:]
    assert max(map(len, lines)) <= desk.WIDE
    rows = {row.split()[0]: row.split()[1] for row in lines if row[2] != " "}
    assert rows[puzzle.mistake.breaks] == puzzle.mistake.expect


def test_a_set_is_left_as_it_was(quick):
    mend(quick, 1)
    again = broken.deal(3)
    assert again.text(1) == quick.text(1) != again.puzzles[0].text
    assert broken.newest().state["seed"] == 3
    broken.deal(4)
    assert broken.newest().state["seed"] == 4


def test_naming_costs_a_try_each(quick):
    wrong = [c for c in bank.LETTERS if c != quick.puzzles[0].answer]
    right = quick.puzzles[0].answer
    assert quick.name(1, wrong[0]).startswith("No")
    assert quick.name(1, f" {right.upper()} ").startswith("Right")
    assert quick.points(1) == (2, 0)
    assert "already" in quick.name(1, wrong[1]) and quick.points(1) == (2, 0)
    for letter in [c for c in bank.LETTERS if c != quick.puzzles[1].answer][:3]:
        quick.name(2, letter)
    assert quick.name(2, quick.puzzles[1].answer).startswith("Right")
    assert quick.points(2) == (0, 0), "a fourth try is worth nothing"
    assert broken.deal(3).points(1) == (2, 0), "kept on disk"
    for letter in ("", "ab", "g", "?"):
        with pytest.raises(ValueError, match="choose one of"):
            quick.name(3, letter)


def test_mended_alone_with_report_and_not(quick):
    assert "as it was dealt" in quick.check(1)
    quick.mend(1, "import torch", "import torch  # a change that mends nothing")
    assert "not mended yet" in quick.check(1) and quick.points(1) == (0, 0)
    mend(quick, 1)
    assert "every case passes" in quick.check(1) and "Name its fault" in quick.check(1)
    assert quick.points(1) == (0, 6)
    quick.name(1, quick.puzzles[0].answer)
    assert quick.points(1) == (4, 6)

    report = quick.report(2)
    assert report.mistake["slug"] == quick.puzzles[1].mistake.slug, "the report names it"
    assert f'file="{quick.path(2)}"' in report.failing_call, "it repeats this file, not yours"
    quick.name(2, quick.puzzles[1].answer)
    mend(quick, 2)
    quick.check(2)
    assert quick.points(2) == (0, 3)
    assert quick.marks == 13 and f"13 of {desk.MOST} points" in repr(quick)


def test_a_kernel_written_anew_is_no_mend(quick):
    text = quick.text(1)
    body = "\n".join(f"# {line}" for line in text.splitlines())
    quick.path(1).write_text(body + "\n" + text)
    assert "instead of writing it anew" in quick.check(1)
    blank = text.replace("\n", "\n\n").replace("    ", "        ")
    assert desk.lines_changed(text, blank) == 0, "a formatter's changes do not count"


def test_a_replacement_has_to_stand_once(quick):
    for old in ("", "not in it", "import"):
        with pytest.raises(ValueError, match="stands"):
            quick.mend(1, old, "x")
    with pytest.raises(ValueError, match="kernels 1 to 8, not 9"):
        quick.show(9)
    for seed in (-1, "a", True):
        with pytest.raises(ValueError, match="seed"):
            broken.deal(seed)


def test_in_a_terminal(quick, capsys):
    number, right = "1", quick.puzzles[0].answer
    assert cli.main(["broken", "choices", number]) == 0
    assert quick.puzzles[0].mistake.says in capsys.readouterr().out
    assert cli.main(["broken", "show", number]) == 0
    assert quick.path(1).name in capsys.readouterr().out
    assert cli.main(["broken", "name", number, right]) == 0
    assert cli.main(["broken"]) == 0
    assert "4 of 80 points" in capsys.readouterr().out
    for wrong in (["name", "1"], ["show"], ["show", "1", "a"], ["show", "12"]):
        assert cli.main(["broken", *wrong]) == 2
        assert capsys.readouterr().err.startswith("flashlab: ")
