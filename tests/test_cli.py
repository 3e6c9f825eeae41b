"""The command line: exit codes, one-sentence errors, help with examples."""

import json

import pytest

from flashlab import cli, exercises, learner
from flashlab.grader.report import CaseResult, Report
from flashlab.workspace import Workspace


def run(capsys, *args: str) -> tuple[int, str, str]:
    code = cli.main(args)
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture
def verdicts(monkeypatch):
    """Checks that end at once, as told: ``{slug: status}``."""
    told = {}

    def check(slug, text, **kwargs):
        status = told.get(slug, "pass")
        return Report(slug, kwargs["tier"], status, f"{slug}: {status}", text_hash="h")

    monkeypatch.setattr(learner.grader, "check", check)
    return told


@pytest.mark.parametrize("command", ["check", "hint", "start", "solution", "reset", "inspect"])
def test_unknown_slug_suggests_the_nearest(capsys, command):
    code, _, err = run(capsys, command, "flash_foward")
    assert code == 2 and "did you mean 'flash_forward'?" in err
    assert len(err.strip().splitlines()) == 1


def test_no_command_prints_the_help(capsys):
    code, out, err = run(capsys)
    assert (code, out) == (2, "")
    assert "flashlab check" in err and "Understand FlashAttention" in err


def test_exit_code_is_0_only_if_all_passed(capsys, verdicts):
    both = ("vector_scale", "flash_forward")
    assert run(capsys, "check", *both, "--tier", "cpu")[0] == 0
    verdicts["flash_forward"] = "wrong"
    code, out, _ = run(capsys, "check", *both, "--tier", "cpu")
    assert code == 1 and "vector_scale" in out and "flash_forward" in out


def test_json_is_all_that_is_printed(capsys, verdicts):
    _, out, _ = run(capsys, "check", "vector_scale", "--json", "--tier", "cpu")
    assert json.loads(out)["status"] == "pass"
    _, out, _ = run(capsys, "check", "vector_scale", "flash_forward", "--json", "--tier", "cpu")
    assert [r["slug"] for r in json.loads(out)] == ["vector_scale", "flash_forward"]


def test_file_and_tier_are_checked_before_anything_runs(capsys, tmp_path):
    code, _, err = run(capsys, "check", "vector_scale", "--file", str(tmp_path / "none.py"))
    assert code == 2 and "none.py" in err
    code, _, err = run(capsys, "check", "vector_scale", "flash_forward", "--file", "x.py")
    assert code == 2 and "one exercise" in err
    code, _, err = run(capsys, "check", "vector_scale", "--tier", "tpu")
    assert code == 2 and "cpu, gpu, hopper" in err


def test_start_writes_the_stub_once(capsys):
    code, out, _ = run(capsys, "start", "vector_scale")
    path = Workspace.current().kernel_path("vector_scale")
    assert code == 0 and str(path) in out and path.read_text() == learner.stub("vector_scale")
    path.write_text("mine = 1\n")
    code, out, _ = run(capsys, "start", "vector_scale")
    assert code == 0 and "left as it is" in out and path.read_text() == "mine = 1\n"


def test_hints_open_one_by_one_and_are_recorded(capsys):
    total = len(exercises.get("vector_scale").hints)
    for level in range(1, total + 2):
        _, out, _ = run(capsys, "hint", "vector_scale")
        assert out.startswith(f"Hint {min(level, total)} of {total}:")
        assert ("last hint already" in out) == (level > total)
    assert Workspace.current().hints_opened("vector_scale") == total
    code, _, err = run(capsys, "hint", "vector_scale", "--level", "9")
    assert code == 2 and f"1 to {total}" in err


def test_solution_opens_after_a_pass_or_on_request(capsys, verdicts):
    code, _, err = run(capsys, "solution", "vector_scale")
    assert code == 2 and "--anyway" in err
    code, out, _ = run(capsys, "solution", "vector_scale", "--anyway")
    assert code == 0 and "def vector_scale" in out
    assert Workspace.current().progress()["vector_scale"]["solution_opened"]


def test_a_check_of_another_file_is_no_progress(capsys, verdicts, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("x = 1\n")
    run(capsys, "check", "vector_scale", "--file", str(path), "--tier", "cpu")
    run(capsys, "check", "vector_scale", "--solution", "--tier", "cpu")
    assert Workspace.current().progress() == {}
    run(capsys, "check", "vector_scale", "--tier", "cpu")
    assert Workspace.current().progress()["vector_scale"]["status"] == "pass"


def test_reset_keeps_the_text(capsys):
    workspace = Workspace.current()
    workspace.fill("vector_scale", "mine = 1\n")
    code, out, _ = run(capsys, "reset", "vector_scale")
    assert code == 0 and out
    assert "mine = 1\n" in [entry.path.read_text() for entry in workspace.history("vector_scale")]


@pytest.mark.parametrize("args", [["--help"], ["check", "--help"], ["hint", "--help"]])
def test_help_has_examples(capsys, args):
    with pytest.raises(SystemExit) as stop:
        cli.main(args)
    assert stop.value.code == 0 and "example" in capsys.readouterr().out


def test_list_names_every_exercise(capsys):
    _, out, _ = run(capsys, "list")
    for slug in exercises.SYLLABUS:
        assert slug in out


def test_a_check_before_start_says_so_first(capsys, verdicts):
    verdicts["triad"] = "unfilled"
    code, out, _ = run(capsys, "check", "triad", "--tier", "cpu")
    first = " ".join(out.splitlines()[1:3])
    assert code == 1 and "You have not started triad: this checks the stub." in first
    assert "flashlab start triad" in first
    run(capsys, "start", "triad")
    _, out, _ = run(capsys, "check", "triad", "--tier", "cpu")
    assert "You have not started" not in out


@pytest.mark.parametrize("of", ["file", "solution"])
def test_the_call_to_repeat_names_the_text_that_was_graded(capsys, monkeypatch, tmp_path, of):
    mine = tmp_path / "mine.py"
    mine.write_text(learner.sources.stub_text("triad"))
    case = CaseResult("one-block", "core", {"BLOCK": 64}, {}, "wrong")

    def check(slug, text, **kwargs):
        call = 'import flashlab\nflashlab.debug("triad", "one-block", tiles={"BLOCK": 64})'
        return Report(slug, "cpu", "wrong", "x", cases=[case], failing_call=call)

    monkeypatch.setattr(learner.grader, "check", check)
    options = {"file": mine} if of == "file" else {"solution": True}
    said = learner.check("triad", tier="cpu", show=False, **options).failing_call
    assert (f'file="{mine}"' if of == "file" else "solution=True") in said
    compile(said, "call", "exec")
    assert 'tiles={"BLOCK": 64}' in said


def test_a_long_check_says_in_a_notebook_how_far_it_is(monkeypatch):
    from IPython import display

    shown = []

    class Handle:
        update = shown.append

    def check(slug, text, progress, **kwargs):
        progress(3, 25, "causal")
        return Report(slug, "cpu", "pass", "x")

    monkeypatch.setattr(learner, "in_notebook", lambda: True)
    monkeypatch.setattr(display, "display", lambda *_, **options: Handle if options else None)
    monkeypatch.setattr(learner.grader, "check", check)
    learner.check("triad", tier="cpu")
    line, last = (page.data for page in shown)
    assert '<progress max="25" value="3">' in line and "checking triad: 3 of 25, causal" in line
    assert last == "", "the line goes when the report comes"


def test_debug_runs_the_file_it_is_told(capsys, tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text("def vector_scale(x, a):\n    raise RuntimeError('it is mine')\n")
    with pytest.raises(RuntimeError, match="it is mine"):
        cli.main(["debug", "vector_scale", "--file", str(mine)])


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("flash2_forward", "--quick"), "--quick is for"),
        (("triad", "--out", "x.json"), "saves none"),
    ],
)
def test_a_bench_refuses_options_that_it_does_not_know(capsys, args, says):
    code, _, err = run(capsys, "bench", *args)
    assert code == 2 and says in err
