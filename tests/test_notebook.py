"""The ``%%fill`` magic in plain IPython and in a kernel."""

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from traitlets.config import Config

from flashlab import kernels, notebook
from flashlab.workspace import Workspace, WorkspaceError, cell_source

SLUG = "vector_scale"
TEXT = """\
import torch, triton
import triton.language as tl

BLOCK = 16


@triton.jit
def scale_kernel(x_ptr, y_ptr, N, a, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, a * tl.load(x_ptr + offs, mask=offs < N, other=0.0), mask=offs < N)


def vector_scale(x, a):
    y = torch.empty_like(x)
    scale_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, y, x.numel(), a, BLOCK=BLOCK)
    return y
"""
OTHER = TEXT + "\n# another\n"


@pytest.fixture
def shell():
    """A plain IPython shell with the magic loaded, as far from Jupyter as it gets."""
    InteractiveShell.clear_instance()
    made = InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
    made.run_line_magic("load_ext", "flashlab.notebook")
    yield made
    InteractiveShell.clear_instance()


def run(shell: InteractiveShell, source: str) -> object:
    """Run a cell; its error is raised."""
    result = shell.run_cell(source)
    if result.error_before_exec or result.error_in_exec:
        raise result.error_before_exec or result.error_in_exec
    return result.result


def fill(shell: InteractiveShell, text: str = TEXT, options: str = "") -> None:
    run(shell, f"%%fill {SLUG} {options}\n{text}")


def path() -> Path:
    return Workspace.current().kernel_path(SLUG)


def test_a_cell_is_saved_loaded_and_bound(shell, capsys):
    fill(shell)
    assert path().read_text() == TEXT
    assert capsys.readouterr().out.splitlines() == [
        "Saved to work/kernels/vector_scale.py.",
        "Ready: scale_kernel, vector_scale. Constants stay in the file; read one as "
        "vector_scale.BLOCK.",
    ]
    assert shell.user_ns[SLUG] is kernels.entry(SLUG)
    assert "BLOCK" not in shell.user_ns and "tl" not in shell.user_ns
    assert run(shell, "import torch; vector_scale(torch.ones(20), 2.0).sum().item()") == 40.0
    run(shell, "y = torch.zeros(20)\nscale_kernel[(2,)](torch.ones(20), y, 20, 3.0, BLOCK=16)")
    assert torch.equal(shell.user_ns["y"], 3 * torch.ones(20))


def test_a_file_without_constants(shell, capsys):
    fill(shell, "def vector_scale(x, a):\n    return a * x\n")
    assert capsys.readouterr().out.splitlines()[1] == "Ready: vector_scale."


def test_the_file_counts_where_it_is_newer(shell, capsys):
    fill(shell)
    path().write_text(OTHER.replace("a * tl", "2 * a * tl"))
    fill(shell)
    assert "was edited after this cell was saved" in capsys.readouterr().out
    assert run(shell, "import torch; vector_scale(torch.ones(20), 1.0).sum().item()") == 40.0


def test_a_conflict_stops_run_all_and_force_goes_on(shell, capsys):
    fill(shell)
    path().write_text(OTHER)
    with pytest.raises(notebook.FillConflict, match="both changed .*") as caught:
        fill(shell, TEXT + "\nx = 1\n")
    assert "-# another" in str(caught.value) and "+x = 1" in str(caught.value)
    assert path().read_text() == OTHER
    fill(shell, TEXT + "\nx = 1\n", "--force")
    assert "Take --force out" in capsys.readouterr().out
    assert path().read_text() == TEXT + "\nx = 1\n"


def test_errors_are_shown_as_one_sentence(shell, capsys):
    shell.run_cell(f"%%fill {SLUG}\nfor x in y\n")
    shown = capsys.readouterr()
    assert "This cell, line 2: expected ':' (`for x in y`)" in shown.out + shown.err
    assert "Traceback" not in shown.out + shown.err


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x = 1\nfor x in y\n", "This cell, line 3: expected ':' (`for x in y`)"),
        ("x = 1\ny = z\n", "This cell, line 3: NameError: name 'z' is not defined (`y = z`)"),
        ("x = (\n", "This cell, line 2: '(' was never closed (`x = (`)"),
    ],
)
def test_a_cell_that_does_not_load_is_saved_and_named_by_its_own_line(shell, text, sentence):
    with pytest.raises(kernels.AnswerError) as caught:
        fill(shell, text)
    assert str(caught.value) == sentence and path().read_text() == text
    with pytest.raises(kernels.AnswerError, match="work/kernels/vector_scale.py, line"):
        run(shell, "vector_scale(1, 2)")


def test_a_file_that_does_not_load_is_named_by_the_files_line(shell):
    fill(shell)
    path().write_text("x = (\n")
    with pytest.raises(kernels.AnswerError, match=r"work/kernels/vector_scale.py, line 1: '\('"):
        fill(shell)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("%%fill vector_scal", "no exercise 'vector_scal'; did you mean vector_scale?"),
        ("%%fill", "expected one exercise, such as `%%fill flash_forward`, and got none"),
        ("%%fill vector_scale triad", "and got vector_scale triad"),
        ("%%fill vector_scale --forse", "%fill has no option --forse; it has --force, --pull"),
    ],
)
def test_a_wrong_first_line(shell, line, sentence):
    with pytest.raises(WorkspaceError) as caught:
        run(shell, f"{line}\nx = 1\n")
    assert sentence in str(caught.value) and not path().exists()


def test_a_blank_cell(shell):
    with pytest.raises(WorkspaceError, match="the cell is empty"):
        run(shell, f"%%fill {SLUG}\n \n")
    with pytest.raises(WorkspaceError, match="has no cell to save: start a cell with"):
        run(shell, f"%fill {SLUG}")


def test_help(shell, capsys):
    run(shell, "%fill")
    assert "%fill --pull SLUG" in capsys.readouterr().out
    run(shell, "%fill --show vector_scale  # and a remark")
    assert "the untouched stub of vector_scale; 0 texts in its history" in capsys.readouterr().out


def next_input(shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch, source: str) -> tuple:
    calls = []
    monkeypatch.setattr(
        shell, "set_next_input", lambda text, replace=False: calls.append((text, replace))
    )
    run(shell, source)
    (call,) = calls
    return call


def test_pull_puts_the_file_into_the_cell(shell, monkeypatch, capsys):
    fill(shell)
    path().write_text(OTHER)
    source, replace = next_input(shell, monkeypatch, f"%fill --pull {SLUG}")
    assert (
        replace
        and source == cell_source(SLUG, OTHER)
        and f"{path()}, saved" in (capsys.readouterr().out)
    )
    run(shell, source)
    assert "holds this text already: loaded" in capsys.readouterr().out


def test_pull_within_the_answers_cell_keeps_what_stood_there(shell, monkeypatch):
    fill(shell)
    source, _ = next_input(shell, monkeypatch, f"%%fill {SLUG} --pull\nmine = 1\n")
    assert source == cell_source(SLUG, TEXT) and path().read_text() == TEXT
    assert "mine = 1\n" in [entry.text for entry in Workspace.current().history(SLUG)]


def test_show_and_reset(shell, capsys):
    fill(shell)
    capsys.readouterr()
    run(shell, f"%fill --show {SLUG}")
    shown = capsys.readouterr().out
    assert shown.startswith(f"# the text of {path()}, saved 20") and shown.endswith(TEXT)
    run(shell, f"%fill {SLUG} --reset")
    assert "is the stub again; your text is kept as work/history" in capsys.readouterr().out


def test_unload(shell):
    shell.run_line_magic("unload_ext", "flashlab.notebook")
    assert shell.find_cell_magic("fill") is None
    shell.run_line_magic("load_ext", "flashlab.notebook")
    assert shell.find_cell_magic("fill")


def test_loading_is_quick():
    code = "import sys, flashlab.notebook; print({'torch', 'triton'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "set()", done.stderr


def test_ipython_config_adds_to_what_is_there(tmp_path):
    mine = tmp_path / "profile_default" / "ipython_config.py"
    assert notebook.ipython_config(mine.parent) == mine
    once = mine.read_text()
    assert once.splitlines()[-1] == 'c.InteractiveShellApp.extensions.append("flashlab.notebook")'
    notebook.ipython_config(mine.parent)
    assert mine.read_text() == once
    mine.write_text("c = get_config()\nc.TerminalInteractiveShell.confirm_exit = False")
    notebook.ipython_config(mine.parent)
    assert "confirm_exit = False\nc.Inter" in mine.read_text()


def test_in_a_kernel_the_stub_cell_alone_works_and_run_all_stops_at_a_conflict(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook.ipython_config(tmp_path / "ipython" / "profile_default")
    Workspace.current().fill(SLUG, TEXT)
    cells = [
        cell_source(SLUG, TEXT),
        "import torch\nprint(vector_scale(torch.ones(20), 2.0).sum().item())",
        f"open({str(path())!r}, 'a').write('# edited\\n')",
        cell_source(SLUG, OTHER),
        "open('ran-on', 'w')",
    ]
    nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    client = NotebookClient(
        nb, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    with pytest.raises(CellExecutionError, match="FillConflict.*both changed"):
        client.execute()
    loaded, used = ("".join(o.text for o in cell.outputs) for cell in nb.cells[:2])
    assert loaded.startswith("work/kernels/vector_scale.py holds this text already: loaded.")
    assert used == "40.0\n"
    assert not (tmp_path / "ran-on").exists() and path().read_text() == TEXT + "# edited\n"
