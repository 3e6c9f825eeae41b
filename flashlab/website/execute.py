"""Run chapters as a reader would and keep the result until something that it shows changes."""

import asyncio
import hashlib
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellControlSignal, DeadKernelError

from flashlab import notebook, reproduce, sources
from flashlab.authoring.colab_cells import SETUP
from flashlab.website import evidence
from flashlab.workspace.files import write_atomic

LIMIT_S = 1200  # of a cell: a hang, not a speed; the longest takes a minute on two quiet cores
UNSEEN = ("authoring", "classroom", "colab", "lab")  # parts of the package that no chapter shows
LIVE = "flashlab.website.live"
_PARENT = str(Path(__file__).resolve().parents[2])  # of the package: a kernel starts elsewhere


def chapters(only: Sequence[str] | None = None) -> list[Path]:
    """The chapters, or those whose two digits are named."""
    found = sorted((sources.course_dir() / "chapters").glob("*.ipynb"))
    return [path for path in found if not only or path.stem[:2] in only]


def run_all(
    paths: Sequence[Path], folder: Path, jobs: int, say: Callable[[str], None]
) -> list[Path]:
    """Executed copies of notebooks in ``folder``, in order.

    Raises:
        RuntimeError: a cell failed; names the chapter and shows the cell.
    """
    folder.mkdir(parents=True, exist_ok=True)
    state = _state()

    def one(path: Path) -> Path:
        target, stamp = folder / path.name, folder / f"{path.stem}.stamp"
        key = hashlib.sha256(path.read_bytes() + state.encode()).hexdigest()
        if target.is_file() and stamp.is_file() and stamp.read_text() == key:
            say(f"{path.stem}: unchanged")
            return target
        start = time.monotonic()
        try:
            page = run(path)
        except (CellControlSignal, DeadKernelError) as error:
            raise RuntimeError(f"{path.name}: {error}") from error
        write_atomic(target, nbformat.writes(page).encode())
        write_atomic(stamp, key.encode())
        say(f"{path.stem}: executed in {time.monotonic() - start:.0f} s")
        return target

    with ThreadPoolExecutor(jobs) as pool:  # the last chapters take longest, so they begin
        return list(pool.map(one, reversed(paths)))[::-1]


def tables(folder: Path, say: Callable[[str], None]) -> list[str]:
    """The papers' tables of the evidence page; computed again where code changed."""
    texts = []
    for name in reproduce.TABLES:
        target = folder / f"{name}-{_state()[:16]}.md"
        if not target.is_file():
            say(f"computing the table {name}")
            write_atomic(target, evidence.reproduced(name).encode())
        texts.append(target.read_text(encoding="utf-8"))
    return texts


def run(path: Path) -> nbformat.NotebookNode:
    """The notebook after a run from top to bottom in a new workspace."""
    page = nbformat.read(path, 4)
    page.cells = [cell for cell in page.cells if cell.id != SETUP]
    with tempfile.TemporaryDirectory(prefix="flashlab-site-") as folder:
        profile = Path(folder) / "ipython" / "profile_default"
        config = notebook.ipython_config(profile)
        with config.open("a", encoding="utf-8") as file:
            file.write(f'c.InteractiveShellApp.extensions.append("{LIVE}")\n')
        env = {
            **os.environ,
            "FLASHLAB_WORK": str(Path(folder) / "work"),
            "IPYTHONDIR": str(profile.parent),
            "PYTHONPATH": os.pathsep.join(filter(None, [_PARENT, os.environ.get("PYTHONPATH")])),
        }
        client = NotebookClient(page, timeout=LIMIT_S, resources={"metadata": {"path": folder}})
        asyncio.run(client.async_execute(env=env, stderr=subprocess.DEVNULL))
        _forget(folder, page)
    page.metadata.pop("widgets", None)
    return page


def _forget(folder: str, page: nbformat.NotebookNode) -> None:
    """Take the name of a folder that is gone out of what cells printed."""
    for cell in page.cells:
        for output in cell.get("outputs", ()):
            if "text" in output:
                output.text = output.text.replace(f"{folder}/", "")


def _state() -> str:
    """A hash of all code that a chapter may show or run, and of the versions it runs on."""
    import torch
    import triton

    digest = hashlib.sha256(f"{torch.__version__} {triton.__version__}".encode())
    course = sources.course_dir()
    own = [Path(__file__), Path(__file__).with_name("live.py")]
    for folder in ("flashlab", "solutions"):
        for path in sorted((course / folder).rglob("*")):
            part = path.relative_to(course).parts[1]
            seen = path in own if part == "website" else part not in UNSEEN
            if seen and path.suffix in (".py", ".json"):
                digest.update(path.read_bytes())
    return digest.hexdigest()
