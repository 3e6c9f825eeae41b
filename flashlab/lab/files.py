"""What ``flashlab lab`` lays into a workspace: copies, the home, Jupyter's settings. Floor: front.

Never overwrites what a learner changed. All of Jupyter's own files stay in the workspace's folder
``.jupyter``: the course neither reads nor writes a learner's Jupyter set-up at home.
"""

import hashlib
import json
from pathlib import Path

from flashlab import home, notebook, sources
from flashlab.workspace import Workspace
from flashlab.workspace.files import write_atomic

HOME = "home.ipynb"
HOME_CELL = """\
import flashlab.home

flashlab.home.show()  # run this cell (Shift+Enter) to renew the page"""
SETTINGS = {
    # Cells outside the window stay in the page: widgets and long reports do not vanish.
    "@jupyterlab/notebook-extension:tracker": {"windowingMode": "none"},
    # A saved chapter shows its pictures again before any cell ran, not "model not found"
    "@jupyter-widgets/jupyterlab-manager:plugin": {"saveState": True},
    # No pop-up that asks the network for news.
    "@jupyterlab/apputils-extension:notification": {
        "fetchNews": "false",
        "checkForUpdates": False,
    },
}


def jupyter_dir(root: Path) -> Path:
    """Where a workspace keeps Jupyter's own files."""
    return root / ".jupyter"


def lay_out(root: Path) -> list[str]:
    """Bring a workspace up to date with the course; returns sentences for the learner.

    Raises:
        WorkspaceError: A file cannot be written.
    """
    Workspace(root).create()
    (root / "kernels").mkdir(exist_ok=True)
    folder = jupyter_dir(root)
    _write(folder / "config/labconfig/default_setting_overrides.json", json.dumps(SETTINGS))
    notebook.ipython_config(folder / "ipython" / "profile_default")
    return _copy_notebooks(root, folder / "copies.json")


def environment(root: Path) -> dict[str, str]:
    """Environment variables that keep a Jupyter server and its kernels inside the workspace."""
    folder = jupyter_dir(root)
    return {
        "FLASHLAB_WORK": str(root),
        "IPYTHONDIR": str(folder / "ipython"),
        "JUPYTER_CONFIG_DIR": str(folder / "config"),
        "JUPYTER_DATA_DIR": str(folder / "data"),
        "JUPYTER_PREFER_ENV_PATH": "1",  # this environment's kernel, not one installed at home
        "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(folder / "user-settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(folder / "layouts"),
    }


def write_home(root: Path) -> None:
    """Write the home notebook, its page in it already, trusted by the workspace's Jupyter.

    It is generated: what stood in it before is lost, and the page says so.

    Raises:
        WorkspaceError: A file cannot be written.
    """
    from nbformat import sign, v4

    cell = v4.new_code_cell(HOME_CELL, id="course-home")
    cell.outputs = [v4.new_output("display_data", {"text/html": home.page(root)})]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    page = v4.new_notebook(cells=[cell], metadata={"kernelspec": kernel})
    data = jupyter_dir(root) / "data"
    data.mkdir(parents=True, exist_ok=True)
    sign.NotebookNotary(data_dir=str(data)).sign(page)
    _write(root / HOME, json.dumps(page, indent=1) + "\n")


def fingerprint(path: Path) -> str:
    """A hash of a notebook's cells as a person typed them: no outputs, no metadata.

    Empty for a file that is not a notebook.
    """
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        typed = [(cell["cell_type"], "".join(cell["source"])) for cell in cells]
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return hashlib.sha256(json.dumps(typed).encode()).hexdigest()


def _copy_notebooks(root: Path, record: Path) -> list[str]:
    """Copy new notebooks, renew copies that nobody changed; a newer text of one that somebody
    changed lies beside it under the name of ``beside``. Nothing that a person typed is lost.
    """
    try:
        copied = json.loads(record.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        copied = {}
    notices = []
    for source in _notebooks():
        name = f"{source.parent.name}/{source.name}"
        new, base = fingerprint(source), copied.get(name)
        held = fingerprint(root / name)
        if not (root / name).exists() or (held == base and held != new):
            write_atomic(root / name, source.read_bytes())
        elif held != new and base != new:
            notices += _lay_beside(root, name, source, copied)
            continue
        copied[name] = new
    _write(record, json.dumps(copied, indent=1))
    return notices


def beside(name: str) -> str:
    """Where the course's newer text of a changed notebook lies: ``labs/03_x.new.ipynb``."""
    return f"{name.removesuffix('.ipynb')}{home.NEWER}.ipynb"


def _lay_beside(root: Path, name: str, source: Path, copied: dict[str, str]) -> list[str]:
    """Write the newer text beside a changed notebook, unless it lies there or was changed too."""
    target, new = beside(name), fingerprint(source)
    held = fingerprint(root / target)
    if held == new:
        return []
    if (root / target).exists() and held != copied.get(target):
        return [
            f"{name} is newer in the course. Yours and {target} both have changes of yours, so "
            f"both are kept: rename {target} and start again to get the new one."
        ]
    write_atomic(root / target, source.read_bytes())
    copied[target] = new
    return [
        f"{name} is newer in the course, and yours has changes: yours is kept, and the new one is "
        f"{target}. Your answers are in kernels/, so both notebooks find them."
    ]


def _notebooks() -> list[Path]:
    course = sources.course_dir()
    return [
        p for folder in ("chapters", "labs") for p in sorted((course / folder).glob("*.ipynb"))
    ]


def _write(path: Path, text: str) -> None:
    write_atomic(path, text.encode())
