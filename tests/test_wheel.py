"""The course from a wheel alone: an empty folder, a home of its own, no repository near it."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import nbformat
import pytest

from flashlab import sources
from flashlab.holes import without_markers

ROOT = Path(__file__).resolve().parent.parent
SLUG = "vector_scale"


@pytest.fixture(scope="module")
def command(tmp_path_factory) -> Path:
    """``flashlab`` of an environment that has the wheel and this environment's packages."""
    from hatchling.builders.wheel import WheelBuilder

    folder = tmp_path_factory.mktemp("wheel")
    wheel = next(WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"]))
    venv = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    packages = next(venv.glob("lib/python3*/site-packages"))
    (packages / "others.pth").write_text(f"{Path(nbformat.__file__).parents[1]}\n")
    install = [sys.executable, "-m", "pip", "--python", venv / "bin" / "python", "install"]
    subprocess.run([*install, "-q", "--no-deps", "--no-index", wheel], check=True, timeout=120)
    return venv / "bin" / "flashlab"


@pytest.fixture
def elsewhere(tmp_path, monkeypatch) -> Path:
    """An empty folder; neither it nor the environment leads to the repository."""
    for name in ("PYTHONPATH", "FLASHLAB_WORK"):
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _said(*command: str | Path) -> tuple[int, str]:
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120
    )
    return done.returncode, done.stdout


def test_it_grades_and_shows_hints_and_solutions(command, elsewhere, own_home):
    kernel = own_home / "flashlab-work" / "kernels" / f"{SLUG}.py"
    code, said = _said(command, "start", SLUG)
    assert code == 0 and kernel.read_text() == sources.stub_text(SLUG), said
    code, said = _said(command, "check", SLUG, "--tier", "cpu")
    assert code == 1 and "Step 1 is not written yet" in " ".join(said.split())
    assert str(kernel) in "".join(said.split())  # a long path is broken over lines
    assert "Hint 1 of" in _said(command, "hint", SLUG)[1]
    kernel.write_text(without_markers(_said(command, "solution", SLUG, "--anyway")[1]))
    code, said = _said(command, "check", SLUG, "--tier", "cpu")
    assert code == 0 and "100 of 100 points" in said, said
    assert list(elsewhere.iterdir()) == []


def test_it_opens_the_course_with_every_chapter_and_lab(command, elsewhere, own_home):
    lab = subprocess.Popen(
        [command, "lab", "--no-browser", "--port", "9410"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    try:
        address = None
        for line in lab.stdout:
            if address := re.search(r"(http://[^/]+)/lab/tree/home\.ipynb\?token=(\w+)", line):
                break
        assert address, "no address was said"
        base, token = address.groups()
        for folder in ("chapters", "labs"):
            reply = urllib.request.urlopen(f"{base}/api/contents/{folder}?token={token}")
            shown = {row["name"] for row in json.loads(reply.read())["content"]}
            assert shown == {path.name for path in (ROOT / folder).glob("*.ipynb")}
    finally:
        lab.send_signal(signal.SIGINT)
        lab.communicate(timeout=60)
    assert (own_home / "flashlab-work" / "home.ipynb").is_file()
    assert list(elsewhere.iterdir()) == []
