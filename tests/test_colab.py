"""Google Colab: its machines in words, work that outlives a runtime, the badge's notebook alone in
an empty folder. Colab itself is not run: ``google.colab`` and the GPUs are stand-ins.
"""

import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
import threading
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from flashlab import colab, device, sources
from flashlab.colab import keeping, machine
from flashlab.holes import without_markers
from flashlab.workspace import Workspace

ROOT = Path(__file__).resolve().parent.parent
LAB = "labs/00_start_here.ipynb"
SLUG = "vector_scale"
LIKE_COLAB = importlib.metadata.version("ipython").startswith("7.")
STAND_INS = {
    "google/colab/__init__.py": "",
    "google/colab/drive.py": "import os\n\ndef mount(path):\n"
    "    os.path.islink(path) or os.symlink(os.environ['STAND_IN_DRIVE'], path)\n"
    "    print('Mounted at', path)\n",
    "google/colab/files.py": "def download(path):\n    print('downloaded', path)\n",
}


class TestMachines:
    @pytest.mark.parametrize(
        ("name", "capability", "words"),
        [
            ("", 0, "tier cpu (no NVIDIA GPU). Every exercise is graded here all the same"),
            ("Tesla T4", 75, "tier gpu (Tesla T4). Kernels are compiled and checked on it"),
            ("NVIDIA L4", 89, "tier gpu (NVIDIA L4). Kernels run compiled and are timed"),
            ("NVIDIA A100-SXM4-40GB", 80, "It is the card of the FlashAttention-2 paper"),
            ("NVIDIA H100 80GB HBM3", 90, "tier hopper (NVIDIA H100 80GB HBM3). Everything runs"),
            ("Tesla P100-PCIE-16GB", 60, "is older than Triton supports"),
            ("NVIDIA B200", 100, "Kernels run compiled and are timed on it"),
        ],
    )
    def test_each_is_told_what_it_is_good_for(self, monkeypatch, name, capability, words):
        monkeypatch.setattr(device, "detect", lambda: device.classify(name, capability))
        assert words in machine.told()

    def test_a_t4_is_told_that_it_earns_no_speed_points(self):
        assert "no speed points" in machine.meaning(device.classify("Tesla T4", 75))


class TestMissing:
    @pytest.mark.parametrize(
        ("torch", "wanted"),
        [
            ("2.11.0+cu128", "triton==3.6.0"),
            ("2.13.0", "triton==3.7.1"),
            ("2.99.0", "triton>=3.6,<3.10"),
        ],
    )
    def test_triton_is_the_one_that_goes_with_torch(self, monkeypatch, torch, wanted):
        find = importlib.util.find_spec
        monkeypatch.setattr(
            importlib.util, "find_spec", lambda name: None if name == "triton" else find(name)
        )
        monkeypatch.setattr(importlib.metadata, "version", {"torch": torch}.get)
        assert colab._missing() == [wanted]

    def test_nothing_is_installed_where_nothing_is_missing(self, monkeypatch):
        assert colab._missing() == []
        monkeypatch.setattr(subprocess, "run", None)
        colab._install([])

    def test_a_failed_install_says_why(self, capsys):
        with pytest.raises(RuntimeError, match="pip could not install ./no-such-folder"):
            colab._install(["./no-such-folder"])
        assert "Installing ./no-such-folder" in capsys.readouterr().out


def test_on_a_machine_of_ones_own_the_cell_only_loads_the_magic(capsys):
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    try:
        assert "fill" not in shell.magics_manager.magics["cell"]
        colab.set_up(drive=True)
        assert "fill" in shell.magics_manager.magics["cell"]
        colab.set_up()
    finally:
        InteractiveShell.clear_instance()
    assert capsys.readouterr().out == ""


class TestKeeping:
    """Two folders: the runtime's and Drive's."""

    @pytest.fixture
    def work(self, own_home) -> Workspace:
        workspace = Workspace.current()
        workspace.fill(SLUG, "mine = 1\n")
        workspace.record_check(SLUG, "a", "wrong", 40, "cpu")
        return workspace

    def test_what_changed_is_copied_and_comes_back(self, work, tmp_path):
        known = {}
        keeping.push(work.root, tmp_path, known)
        assert (tmp_path / f"kernels/{SLUG}.py").read_text() == "mine = 1\n"
        (tmp_path / f"kernels/{SLUG}.py").unlink()
        keeping.push(work.root, tmp_path, known)
        assert not (tmp_path / f"kernels/{SLUG}.py").exists()  # unchanged here: not copied again
        work.fill(SLUG, "mine = 2\n", force=True)
        keeping.push(work.root, tmp_path, known)
        fresh = Workspace(tmp_path.with_name("fresh"))
        assert keeping.restore(tmp_path, fresh.root) == 1
        assert fresh.answer(SLUG).text == "mine = 2\n"
        assert fresh.checks(SLUG)[0]["points"] == 40

    @pytest.mark.parametrize("later", ["here", "there"])
    def test_of_two_answers_the_later_counts_and_none_is_lost(self, work, tmp_path, later):
        other = Workspace(tmp_path)
        other.fill(SLUG, "other = 1\n")
        os.utime(other.kernel_path(SLUG), (0, 0) if later == "here" else (2**32, 2**32))
        keeping.restore(tmp_path, work.root)
        expected = "mine = 1\n" if later == "here" else "other = 1\n"
        assert work.answer(SLUG).text == expected
        kept = {entry.path.read_text() for entry in work.history(SLUG)}
        assert {"mine = 1\n", "other = 1\n"} <= kept | {expected}

    def test_progress_of_both_sides_is_kept(self, work, tmp_path):
        other = Workspace(tmp_path)
        other.record_check(SLUG, "b", "pass", 100, "gpu")
        other.record_hint(SLUG, 1)
        other.record_quiz("start", "first", True)
        keeping.restore(tmp_path, work.root)
        assert {check["text"] for check in work.checks(SLUG)} == {"a", "b"}
        assert work.progress()[SLUG]["status"] == "pass" and work.hints_opened(SLUG) == 1
        assert work.quiz("start")["first"]["right"]

    def test_a_drive_that_went_away_costs_a_line_and_no_more(self, work, tmp_path, capsys):
        blocked = tmp_path / "file"
        blocked.write_text("")
        keeping.push(work.root, blocked, {})
        assert "Not copied to Drive" in capsys.readouterr().out

    def test_a_zip_takes_the_work_along(self, work, tmp_path, monkeypatch, capsys):
        packed = colab.save_zip()
        assert f"kernels/{SLUG}.py" in zipfile.ZipFile(packed).namelist()
        monkeypatch.setenv("FLASHLAB_WORK", str(tmp_path / "elsewhere"))
        colab.load_zip(packed)
        assert Workspace.current().answer(SLUG).text == "mine = 1\n"
        assert "1 answer is back." in capsys.readouterr().out
        with pytest.raises(ValueError, match="name the file"):
            colab.load_zip()


@pytest.fixture(scope="module")
def course_address(tmp_path_factory):
    """The address of the course's wheel on a server of this machine."""
    from hatchling.builders.wheel import WheelBuilder

    folder = tmp_path_factory.mktemp("wheel")
    built = next(WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"]))
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/{Path(built).name}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def runtime(tmp_path, course_address, monkeypatch):
    """A machine as Colab gives it: Colab's packages, no course; a kernel that runs there."""
    venv = tmp_path / "runtime"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    packages = next(venv.glob("lib/python3*/site-packages"))
    here = Path(nbformat.__file__).parents[1]
    (packages / "colab.pth").write_text(f"{here}\n")
    for name, text in STAND_INS.items():
        (packages / name).parent.mkdir(parents=True, exist_ok=True)
        (packages / name).write_text(text)
    spec = tmp_path / "jupyter" / "kernels" / "python3" / "kernel.json"
    spec.parent.mkdir(parents=True)
    argv = [str(venv / "bin" / "python"), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec.write_text(json.dumps({"argv": argv, "display_name": "Python 3", "language": "python"}))
    drive = tmp_path / "somebodys-drive"
    drive.mkdir()
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    monkeypatch.setenv("COLAB_RELEASE_TAG", "stand-in")
    monkeypatch.setenv("FLASHLAB_COURSE", course_address)
    monkeypatch.setenv("STAND_IN_DRIVE", str(drive))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    for name in ("PYTHONPATH", "FLASHLAB_WORK"):
        monkeypatch.delenv(name)
    return drive


def session(folder: Path, answer: str | None) -> dict[str, str]:
    """Open the badge's notebook in an empty folder, tick Drive, run set-up, stub and check.

    Returns what each cell said, by its id.
    """
    folder.mkdir()
    notebook = nbformat.read(ROOT / LAB, 4)
    wanted = ["colab-setup", "import", f"{SLUG}-stub".replace("_", "-")]
    wanted.append(f"{SLUG}-check".replace("_", "-"))
    cells = {cell.id: cell for cell in notebook.cells}
    notebook.cells = [cells[name] for name in wanted]
    setup = cells["colab-setup"]
    setup.source = setup.source.replace("keep_on_drive = False", "keep_on_drive = True")
    if answer is not None:
        cells[wanted[2]].source = f"%%fill {SLUG}\n{answer}"
    NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": folder}}
    ).execute()
    return {cell.id: said(cell) for cell in notebook.cells}


def said(cell) -> str:
    parts = []
    for output in cell.outputs:
        data = output.get("data", {})
        parts += [output.get("text", ""), data.get("text/html", ""), data.get("text/plain", "")]
    return "".join(parts)


@pytest.mark.skipif(not LIKE_COLAB, reason="runs with Colab's versions (scripts/version_sets.py)")
def test_the_badges_notebook_alone_leads_to_a_passing_check_and_is_resumed(runtime, tmp_path):
    solution = without_markers(sources.solution_text(SLUG))
    first = session(tmp_path / "monday", solution)
    assert "Successfully installed flashlab-course" in first["colab-setup"]
    assert "tier cpu (no NVIDIA GPU)" in first["colab-setup"]
    assert "Your answers are copied to" in first["colab-setup"]
    assert "100 of 100 points" in first["vector-scale-check"]
    copy = runtime / keeping.FOLDER
    assert (copy / f"kernels/{SLUG}.py").read_text() == solution
    assert "pass" in (copy / "progress.json").read_text()

    second = session(tmp_path / "tuesday", None)
    assert "1 answer is back." in second["colab-setup"]
    assert "1 of " in second["colab-setup"]
    assert (tmp_path / f"tuesday/flashlab-work/kernels/{SLUG}.py").read_text() == solution
    assert "100 of 100 points" in second["vector-scale-check"]
