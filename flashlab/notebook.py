"""The ``%%fill`` magic: a lab's stub cell as a door to the learner's file. Floor: front.

``%load_ext flashlab.notebook`` loads it; a workspace's IPython profile does so for every kernel
(``ipython_config``), so that the stub cell works alone after a restart. Loading imports no torch.
"""

from pathlib import Path
from typing import Any

from flashlab.workspace import FillResult, Workspace, WorkspaceError, cell_source, files

OPTIONS = ("--force", "--pull", "--show", "--reset")
_USAGE = """\
%%fill SLUG          (first line of a cell) save the cell's text to your file, load it
%%fill SLUG --force  the same, even where the file has changed; its text stays in the history
%fill --pull SLUG    put the file's text into this cell
%fill --show SLUG    print which text counts, and where it lies
%fill --reset SLUG   put the stub back; your text stays in the history"""
_EXTENSION_LINE = 'c.InteractiveShellApp.extensions.append("flashlab.notebook")'


def in_notebook() -> bool:
    """True inside a Jupyter kernel (not in plain Python or a terminal IPython)."""
    try:
        from IPython import get_ipython
    except ImportError:
        return False
    return getattr(get_ipython(), "kernel", None) is not None


class FillConflict(WorkspaceError):
    """Cell and file both changed, so nothing was written; ``Run All`` stops here."""


def load_ipython_extension(shell: Any) -> None:
    """What ``%load_ext flashlab.notebook`` calls."""
    from IPython.core.magic import no_var_expand

    @no_var_expand
    def fill(line: str, cell: str | None = None) -> None:
        run_fill(shell, line, cell)

    fill.__doc__ = _USAGE
    shell.register_magic_function(fill, "line_cell", "fill")


def unload_ipython_extension(shell: Any) -> None:
    """What ``%unload_ext flashlab.notebook`` calls."""
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop("fill", None)


def ipython_config(profile_dir: Path) -> Path:
    """Make every kernel that uses this IPython profile load the magic; returns the config file.

    Settings that stand in the file already are left as they are.

    Raises:
        WorkspaceError: the file cannot be read or written.
    """
    path = Path(profile_dir) / "ipython_config.py"
    text = files.decoded(path, files.read_bytes(path) or b"c = get_config()\n")
    if _EXTENSION_LINE not in text.splitlines():
        files.write_atomic(path, f"{text.rstrip()}\n{_EXTENSION_LINE}\n".encode())
    return path


def run_fill(shell: Any, line: str, cell: str | None) -> None:
    """One ``%fill`` line or ``%%fill`` cell.

    Raises:
        WorkspaceError: the line or a file is not as it should be, or the text does not load.
        FillConflict: cell and file both changed.
    """
    slug, options = _parsed(line, cell)
    if slug is None:
        print(_USAGE)
    elif "--pull" in options:
        _pull(shell, slug, cell)
    elif "--show" in options:
        _show(slug)
    elif "--reset" in options:
        print(Workspace.current().reset(slug))
    elif cell is None:
        raise WorkspaceError(
            f"`%fill {slug}` has no cell to save: start a cell with `%%fill {slug}`, or ask for "
            f"one of {', '.join(OPTIONS[1:])}"
        )
    else:
        _fill(shell, slug, cell, force="--force" in options)


def _parsed(line: str, cell: str | None) -> tuple[str | None, list[str]]:
    """Slug and options of the magic's line, checked."""
    words = line.split("#")[0].split()
    options = [word for word in words if word.startswith("-")]
    slugs = [word for word in words if not word.startswith("-")]
    if unknown := [option for option in options if option not in OPTIONS]:
        raise WorkspaceError(f"%fill has no option {unknown[0]}; it has {', '.join(OPTIONS)}")
    if not slugs and not options and cell is None:
        return None, options
    if len(slugs) != 1:
        got = " ".join(slugs) or "none"
        raise WorkspaceError(
            f"expected one exercise, such as `%%fill flash_forward`, and got {got}"
        )
    from flashlab import kernels

    try:
        return kernels.entry(slugs[0]).slug, options
    except AttributeError as error:
        raise WorkspaceError(str(error)) from None


def _fill(shell: Any, slug: str, cell: str, force: bool) -> None:
    result = Workspace.current().fill(slug, cell, force)
    if result.action == "conflict":
        raise FillConflict(f"{result.message}\n{result.diff}")
    print(result.message)
    print(_bound(shell, slug, result))


def _bound(shell: Any, slug: str, result: FillResult) -> str:
    """Bind the entry and its kernels in the learner's namespace; returns the sentence on it."""
    from flashlab import kernels

    entry = kernels.entry(slug)
    shell.push({slug: entry})  # also where the text does not load: a call says so again
    try:
        handles = entry.kernels()
    except kernels.AnswerError as error:
        if result.action not in ("saved", "loaded") or error.line is None:
            raise
        raise kernels.AnswerError("This cell", error.line + 1, error.problem) from error.__cause__
    names = {**handles, slug: entry}
    shell.push(names)
    constants = [n for n in vars(entry.module()) if n.isupper()]
    told = f"Ready: {', '.join(sorted(names))}."
    if constants:
        told += f" Constants stay in the file; read one as {slug}.{constants[0]}."
    return told


def _pull(shell: Any, slug: str, cell: str | None) -> None:
    workspace = Workspace.current()
    answer = workspace.answer(slug)
    if cell is not None and cell.strip():
        workspace.keep(slug, cell)
    shell.set_next_input(cell_source(slug, answer.text), replace=True)
    print(f"This cell now holds {_told(workspace, slug)}; run it to load it.")


def _show(slug: str) -> None:
    workspace = Workspace.current()
    kept = len(workspace.history(slug))
    print(f"# {_told(workspace, slug)}; {kept} texts in its history")
    print(workspace.answer(slug).text, end="")


def _told(workspace: Workspace, slug: str) -> str:
    answer = workspace.answer(slug)
    if answer.path is None:
        return f"the untouched stub of {slug}"
    return f"the text of {answer.path}, saved {answer.saved_at}"
