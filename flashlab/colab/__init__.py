"""The course on Google Colab: what the set-up cell of every notebook calls. Floor: front.

Elsewhere it makes sure that ``%%fill`` exists and does nothing more. Colab's own torch, Triton,
ipywidgets and IPython stay: what is missing is installed without its dependencies.
"""

import importlib
import importlib.metadata
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from flashlab.colab.keeping import load_zip, save_zip
from flashlab.colab.machine import told

__all__ = ["load_zip", "on_colab", "save_zip", "set_up"]

NEEDED = ("numpy", "ipywidgets", "matplotlib", "rich")
# Triton's release beside torch's: what torch's own metadata asks for on Linux with CUDA.
TRITON_BESIDE = {
    "2.11": "3.6.0",
    "2.12": "3.7.0",
    "2.13": "3.7.1",
    "2.14": "3.8.0",
    "2.15": "3.9.0",
}
ANY_TRITON = "triton>=3.6,<3.10"


def on_colab() -> bool:
    """True in a notebook that Google Colab runs."""
    return "COLAB_RELEASE_TAG" in os.environ or "google.colab" in sys.modules


def set_up(drive: bool = False) -> None:
    """Make the notebook ready; says what it did only where it did something.

    Args:
        drive: Keep a copy of the work on Google Drive, and take up what is there. Colab asks you
            for permission. Without effect elsewhere.
    """
    from IPython import get_ipython

    shell = get_ipython()
    if shell is not None and "fill" not in shell.magics_manager.magics["cell"]:
        shell.run_line_magic("load_ext", "flashlab.notebook")
    if not on_colab():
        return
    _install(_missing())
    root = Path(os.environ.setdefault("FLASHLAB_WORK", str(Path.cwd() / "flashlab-work")))
    print(told())
    from flashlab.colab import keeping

    print(keeping.keep(shell, root, drive))


def _missing() -> list[str]:
    """What pip has to install, as it wants to read it."""
    wanted = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if importlib.util.find_spec("torch") is None:
        raise RuntimeError(
            "torch is missing, which Colab has on every runtime: Runtime > Disconnect and delete "
            "runtime, then run this cell again"
        )
    if importlib.util.find_spec("triton") is None:  # runtimes without a GPU have none
        release = ".".join(importlib.metadata.version("torch").split(".")[:2])
        beside = TRITON_BESIDE.get(release)
        wanted.append(f"triton=={beside}" if beside else ANY_TRITON)
    return wanted


def _install(packages: list[str]) -> None:
    """Install packages and nothing that they ask for, in plain sight."""
    if not packages:
        return
    print(f"Installing {', '.join(packages)} (Colab has the rest).", flush=True)
    command = [sys.executable, "-m", "pip", "install", "--no-deps", *packages]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"pip could not install {', '.join(packages)}:\n{done.stderr[-2000:]}")
    print(done.stdout.strip().splitlines()[-1])
    importlib.invalidate_caches()
