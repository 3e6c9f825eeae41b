"""The table of what running a ``%%fill`` cell does: every row, forced or not, and at random."""

import json
import random
from pathlib import Path

import pytest

from flashlab import sources
from flashlab.workspace import Workspace, WorkspaceError, cell_source, split_cell
from flashlab.workspace.fill import decide

SLUG = "vector_scale"
A, B, C = ("a = 1\n", "b = 2\n", "c = 3\n")


SOLUTION = """\
def vector_scale(x, a):
    ### BEGIN SOLUTION 1: return a times x
    return a * x
    ### END SOLUTION
"""


@pytest.fixture
def workspace() -> Workspace:
    return Workspace.current()


@pytest.fixture(autouse=True)
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The released stub of a course of one exercise."""
    text = sources.derive_stub(SOLUTION)
    for folder in ("chapters", "labs", "solutions", "stubs"):
        (tmp_path / folder).mkdir()
    (tmp_path / "solutions" / f"{SLUG}.py").write_text(SOLUTION)
    (tmp_path / "stubs" / f"{SLUG}.py").write_text(text)
    released = tmp_path / "released.json"
    released.write_text(json.dumps({SLUG: [sources.text_hash(text)]}))
    monkeypatch.setattr(sources, "course_dir", lambda: tmp_path)
    monkeypatch.setattr(sources, "STUBS", tmp_path / "stubs")
    monkeypatch.setattr(sources, "RELEASED", released)
    return text


def file_text(workspace: Workspace) -> str:
    return workspace.kernel_path(SLUG).read_text()


def edit(workspace: Workspace, text: str) -> None:
    path = workspace.kernel_path(SLUG)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def kept(workspace: Workspace) -> list[str]:
    return [entry.text for entry in workspace.history(SLUG)]


def last_saved(workspace: Workspace) -> str | None:
    return workspace.past(SLUG).last_saved()


STUBS = {"stub", "old stub"}


@pytest.mark.parametrize(
    ("cell", "file", "last", "kept", "action"),
    [
        ("a", "a", None, "", "loaded"),
        ("a", "a", "b", "a b", "loaded"),
        ("stub", "stub", None, "", "loaded"),
        ("stub", "a", None, "", "kept"),
        ("old stub", "a", "a", "a", "kept"),
        ("stub", "a", "stub", "", "kept"),
        ("a", "b", "b", "a b", "older"),
        ("a", None, None, "a", "older"),
        ("a", "stub", None, "a", "older"),
        ("a", None, None, "", "saved"),
        ("stub", None, None, "", "saved"),
        ("stub", "old stub", None, "", "saved"),
        ("a", "stub", None, "", "saved"),
        ("b", "a", "a", "a", "saved"),
        ("a", None, "a", "a", "saved"),
        ("a", "stub", "a", "a", "saved"),
        ("a", "b", "a", "a", "newer"),
        ("a", "b", "a", "a b", "newer"),
        ("c", "b", "a", "a", "conflict"),
        ("c", "b", None, "", "conflict"),
    ],
)
def test_first_matching_row_wins(cell, file, last, kept, action):
    assert decide(cell, file, last, STUBS, kept.split().__contains__) == action


def test_first_cell_is_saved(workspace):
    result = workspace.fill(SLUG, A)
    assert (result.action, result.text, result.path) == ("saved", A, workspace.kernel_path(SLUG))
    assert result.message == f"Saved to work/kernels/{SLUG}.py."
    assert file_text(workspace) == A and kept(workspace) == [A]
    assert last_saved(workspace) == sources.text_hash(A)


def test_equal_texts_are_loaded_and_remembered(workspace):
    edit(workspace, "a = 1   \r\n\n\n")
    result = workspace.fill(SLUG, "a = 1")
    assert result.action == "loaded" and "already" in result.message
    assert file_text(workspace) == "a = 1   \n\n\n"  # read_text translates; bytes below
    assert workspace.kernel_path(SLUG).read_bytes() == b"a = 1   \r\n\n\n"
    assert last_saved(workspace) == sources.text_hash(A)


def test_stub_cell_beside_a_filled_file_loads_the_file(workspace, stub):
    edit(workspace, A)
    result = workspace.fill(SLUG, stub)
    assert (result.action, result.text) == ("kept", A)
    assert "nothing was written" in result.message and f"%fill --pull {SLUG}" in result.message
    assert file_text(workspace) == A and last_saved(workspace) is None


def test_text_of_the_past_asks_for_force(workspace):
    workspace.fill(SLUG, A)
    workspace.fill(SLUG, B)
    result = workspace.fill(SLUG, A)
    assert (result.action, result.text) == ("older", B)
    assert f"`%%fill {SLUG} --force`" in result.message and workspace.history(SLUG)[0].kept_at in (
        result.message
    )
    assert "-b = 2" in result.diff and "+a = 1" in result.diff
    assert file_text(workspace) == B and last_saved(workspace) == sources.text_hash(B)
    assert workspace.fill(SLUG, A, force=True).action == "saved"
    assert file_text(workspace) == A


def test_text_of_the_past_without_a_file_says_that_the_stub_counts(workspace, stub):
    workspace.keep(SLUG, A)
    result = workspace.fill(SLUG, A)
    assert (result.action, result.text, result.path) == ("older", stub, None)
    assert "the untouched stub counts" in result.message


def test_cell_is_saved_over_a_stub_and_over_the_last_saved(workspace, stub):
    assert workspace.fill(SLUG, stub).action == "saved"
    assert workspace.fill(SLUG, A).action == "saved"
    assert workspace.fill(SLUG, B).action == "saved"
    assert file_text(workspace) == B and kept(workspace) == [A, B]


def test_an_older_stub_counts_as_unfilled(workspace, stub, monkeypatch):
    old = "old = True\n"
    known = sources.released_stubs(SLUG) | {sources.text_hash(old)}
    monkeypatch.setattr(sources, "released_stubs", lambda slug: known)
    edit(workspace, old)
    assert workspace.fill(SLUG, stub).action == "saved"
    assert file_text(workspace) == stub and kept(workspace) == []
    edit(workspace, A)
    assert workspace.fill(SLUG, old).action == "kept"


def test_newer_file_is_loaded(workspace):
    workspace.fill(SLUG, A)
    edit(workspace, B)
    result = workspace.fill(SLUG, A)
    assert (result.action, result.text) == ("newer", B)
    assert "was edited after this cell was saved" in result.message and result.diff
    assert file_text(workspace) == B and kept(workspace) == [A, B]
    assert last_saved(workspace) == sources.text_hash(A), "loading a newer file changed it"
    assert workspace.fill(SLUG, B).action == "loaded"  # what --pull puts into the cell


def test_both_changed_is_a_conflict_with_the_difference(workspace):
    workspace.fill(SLUG, A)
    edit(workspace, B)
    result = workspace.fill(SLUG, C)
    assert (result.action, result.text) == ("conflict", B)
    assert result.diff.splitlines()[:2] == [f"--- work/kernels/{SLUG}.py", "+++ this cell"]
    assert "-b = 2" in result.diff and "+c = 3" in result.diff
    assert file_text(workspace) == B
    forced = workspace.fill(SLUG, C, force=True)
    assert forced.action == "saved" and "is kept as work/history/" in forced.message
    assert "Take --force out" in forced.message
    assert file_text(workspace) == C and set(kept(workspace)) == {A, B, C}


@pytest.mark.parametrize("case", ["newer", "kept"])
def test_force_writes_where_the_file_would_be_loaded(workspace, stub, case):
    workspace.fill(SLUG, A)
    edit(workspace, B)
    cell = A if case == "newer" else stub
    assert workspace.fill(SLUG, cell, force=True).action == "saved"
    assert file_text(workspace) == cell and B in kept(workspace)


def test_reset_keeps_the_text_and_forgets_the_last_saved(workspace, stub):
    workspace.fill(SLUG, A)
    message = workspace.reset(SLUG)
    assert message.startswith(f"work/kernels/{SLUG}.py is the stub again; your text is kept as")
    assert file_text(workspace) == stub and kept(workspace) == [A]
    assert last_saved(workspace) is None
    assert workspace.fill(SLUG, A).action == "older"  # Run All does not bring it back unasked
    assert workspace.fill(SLUG, stub).action == "loaded"
    assert workspace.reset(SLUG) == f"{SLUG} is untouched: there was nothing to put back."


def test_the_last_saved_hash_survives_a_new_process(workspace):
    workspace.fill(SLUG, A)
    edit(workspace, B)
    again = Workspace(workspace.root)
    assert again.fill(SLUG, A).action == "newer"


def test_blank_cell_is_refused(workspace):
    workspace.fill(SLUG, A)
    with pytest.raises(WorkspaceError, match=f"cell is empty.*%fill --pull {SLUG}"):
        workspace.fill(SLUG, " \n\n")
    assert file_text(workspace) == A


def test_text_is_written_as_it_is_but_for_line_ends(workspace):
    workspace.fill(SLUG, 's = """x  \r\n"""')
    assert workspace.kernel_path(SLUG).read_bytes() == b's = """x  \n"""\n'


class TestEditedStub:
    """A learner may edit the stub where it lies."""

    @pytest.fixture(autouse=True)
    def stubs(self, stub: str) -> Path:
        place = sources.stub_path(SLUG)
        place.write_text(stub + "mine = 1\n")
        return place

    def test_counts_as_filled(self, workspace, stubs, stub):
        answer = workspace.answer(SLUG)
        assert (answer.origin, answer.path) == ("edited stub", stubs) and answer.saved_at
        result = workspace.fill(SLUG, stub)
        assert (result.action, result.path) == ("kept", stubs)
        assert not workspace.kernel_path(SLUG).exists()

    def test_another_cell_is_a_conflict_until_forced(self, workspace, stubs, stub):
        assert workspace.fill(SLUG, A).action == "conflict"
        assert workspace.fill(SLUG, A, force=True).action == "saved"
        assert workspace.answer(SLUG).text == A
        assert kept(workspace) == [stub + "mine = 1\n", A]

    def test_a_filled_file_wins_and_a_stub_file_does_not(self, workspace, stubs, stub):
        edit(workspace, stub)
        assert workspace.answer(SLUG).origin == "edited stub"
        edit(workspace, A)
        assert workspace.answer(SLUG).origin == "file"

    def test_reset_restores_it(self, workspace, stubs, stub):
        message = workspace.reset(SLUG)
        assert str(stubs) in message and stubs.read_text() == stub
        assert kept(workspace) == [stub + "mine = 1\n"]

    def test_reset_without_a_solution_says_how(self, workspace, stubs, monkeypatch):
        monkeypatch.setattr(sources, "solution_path", lambda slug: Path("none"))
        with pytest.raises(WorkspaceError, match="install flashlab-course again"):
            workspace.reset(SLUG)


@pytest.mark.parametrize("seed", range(6))
def test_no_text_is_ever_lost(workspace, stub, seed):
    """Random cells, edits, resets, pulls: each text the course saw is on disk or in the cell."""
    draw = random.Random(seed)
    places = [workspace.kernel_path(SLUG), sources.stub_path(SLUG)]
    texts = [stub, *(f"x = {n}\n" for n in range(6))]
    cell, seen = stub, set()

    def on_disk() -> dict[Path, bytes]:
        return {place: place.read_bytes() for place in places if place.exists()}

    for _ in range(40):
        step = draw.choice(["type", "run", "run", "force", "edit", "edit stub", "reset", "pull"])
        before = on_disk()
        if step == "type":
            cell = draw.choice(texts)
        elif step == "edit":
            edit(workspace, draw.choice(texts))
        elif step == "edit stub":
            places[1].write_text(draw.choice(texts))
        else:
            seen |= {data.decode() for place, data in before.items()}
        if step in ("run", "force"):
            result = workspace.fill(SLUG, cell, force=step == "force")
            if result.action == "saved":
                seen.add(cell)
                assert places[0].read_text() == cell
            else:
                assert on_disk() == before and step == "run" or result.action == "loaded"
        elif step == "reset":
            workspace.reset(SLUG)
        elif step == "pull":
            workspace.keep(SLUG, cell)
            seen.add(cell)
            cell = workspace.answer(SLUG).text
        there = {data.decode() for data in on_disk().values()} | set(kept(workspace)) | {cell}
        assert seen - {stub} <= there, step
        assert len(kept(workspace)) == len(set(kept(workspace)))


def test_a_cell_is_told_by_its_first_line():
    assert split_cell(cell_source(SLUG, A)) == (SLUG, "a = 1")
    assert split_cell(f"\n%%fill {SLUG} --force # again\nx = 1\n") == (SLUG, "x = 1\n")
    assert split_cell(f"%%fill --force {SLUG}\nx\n") == (SLUG, "x\n")
    assert split_cell(f"%%fill {SLUG}") == (SLUG, "")
    assert split_cell("x = '%%fill y'\n") is None
    assert split_cell("%%fill\nx = 1\n") is None
    assert split_cell("%%fill \nx = 1\n") is None
    assert split_cell("%%filling x\n") is None
