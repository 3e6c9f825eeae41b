"""What every test gets: a home and a workspace of its own, and fresh memory full of NaN."""

import importlib.util
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from flashlab import compiler

ROOT = Path(__file__).resolve().parent.parent
REAL_HOME = Path.home()
WORKSPACES = [ROOT / "work", REAL_HOME / "flashlab-work"]
if "FLASHLAB_WORK" in os.environ:
    WORKSPACES.append(Path(os.environ["FLASHLAB_WORK"]))
OURS = re.compile("flashlab|jupyter|ipython|triton|matplotlib|torch|npm|nv|chrom")
CACHES = Path(tempfile.mkdtemp(prefix="flashlab-tests-"))  # fonts and compiled kernels, shared
# Repeated with the other supported sets of versions: what touches Triton, numpy or IPython.
CORE = (
    "aot colab device entry exercise explorer fill hardware iocount kernels notebook numerics "
    "pipeline quizzes reference sources transplant worked workspace"
).split()
PARTLY_CORE = ("test_notebooks.py",)  # says itself which of its tests are


def pytest_configure() -> None:
    """Fill every fresh ``torch.empty`` with NaN, so that an element nobody stored is seen.

    The private setter: ``torch.use_deterministic_algorithms`` imports the compiler first.
    """
    torch._C._set_deterministic_algorithms(True, warn_only=True)
    # A run in the background ignores Ctrl-C, and so would the servers that tests stop with it.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ["MPLBACKEND"] = "agg"
    os.environ["MPLCONFIGDIR"] = str(CACHES / "matplotlib")
    os.environ["TRITON_CACHE_DIR"] = str(CACHES / "triton")


def pytest_unconfigure() -> None:
    shutil.rmtree(CACHES, ignore_errors=True)


def _is_core(path: Path) -> bool:
    """Whether a file or folder is named after a core module, or lies in such a folder."""
    parts = path.relative_to(ROOT / "tests").with_suffix("").parts
    return any(part.removeprefix("test_").split("_")[0] in CORE for part in parts)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With ``-m core`` leave the rest unread: it imports packages that other sets lack."""
    if not config.getoption("markexpr").startswith("core"):
        return None
    inside = collection_path.is_relative_to(ROOT / "tests") and collection_path.name != "tests"
    here = _is_core(collection_path) or collection_path.name in PARTLY_CORE
    return True if inside and not here else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the core tests; GPU tests say what runs them where there is no GPU."""
    capability = torch.cuda.get_device_capability()[0] if torch.cuda.is_available() else 0
    for item in items:
        if _is_core(item.path):
            item.add_marker(pytest.mark.core)
        for marker, least in (("gpu", 7), ("hopper", 9)):
            if item.get_closest_marker(marker) and capability < least:
                reason = f"not run on this tier: `make test` on a machine with a {marker} runs it"
                item.add_marker(pytest.mark.skip(reason=reason))
        if item.get_closest_marker("classroom") and importlib.util.find_spec("nbgrader") is None:
            reason = "needs nbgrader: `make test` runs it in .venv-class, beside these tests"
            item.add_marker(pytest.mark.skip(reason=reason))
        if item.get_closest_marker("nocompiler") and compiler.here():
            reason = "needs a Triton without compiler: `make test` runs it in .venv-nocompiler"
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new home folder, and a workspace in it that nothing has made yet; returns the home."""
    home = tmp_path_factory.mktemp("home")
    for name in list(os.environ):
        if name.startswith(("JUPYTER", "IPYTHON", "XDG_", "FLASHLAB_", "TRITON_INTERPRET")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("FLASHLAB_WORK", str(home / "work"))
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    return home


@pytest.fixture(scope="session", autouse=True)
def learners_files_stay_untouched() -> Iterator[None]:
    """Fails the run if a test wrote into ``work/`` or left something new in the home folder."""
    before = _learners_files()
    yield
    changed = sorted(before.items() ^ _learners_files().items())
    assert not changed, (
        f"tests touched a learner's files: {[str(path) for path, _ in changed][:5]}"
    )


def _learners_files() -> dict[Path, float]:
    """Files of the real workspaces with their times; in the home folder what we might make there.

    Other programs write there meanwhile, so only names count.
    """
    found = {}
    for workspace in WORKSPACES:
        found |= {path: path.stat().st_mtime for path in workspace.rglob("*") if path.is_file()}
    for folder in ("", ".config", ".cache", ".local/share"):
        names = [path for path in (REAL_HOME / folder).glob("*") if OURS.search(path.name)]
        found |= dict.fromkeys(names, 0.0)
    return found
