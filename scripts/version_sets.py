"""Repeat the core tests with the other supported sets of versions (`make test` runs it).

One set is what Colab has, another the newest Triton. The third is an instructor's environment, as
`make classroom` makes it, for the tests with the marker ``classroom``. The fourth has of Triton
what a Mac gets, for those with the marker ``nocompiler``. Each is made once, in a git-ignored
folder beside .venv, and stamped like .venv itself.
"""

import hashlib
import os
import shutil
import subprocess
import sys

import class_env
from setup_env import (
    ROOT,
    VENV,
    Refused,
    install_torch_cpu,
    make_venv,
    once,
    pinned,
    pip,
    say,
    site_packages,
    triton_sources,
)

COLAB_TORCH = "2.13.0"
COLAB = (
    "triton==3.6.0",
    "numpy==2.1.3",
    "ipywidgets==7.7.1",
    "ipython==7.34.0",
    "ipykernel==6.17.1",
    "matplotlib==3.10.0",
    "nbclient==0.10.4",
    "nbformat==5.11.1",
    "rich==15.0.0",
    "pytest==9.2.0",
    "hatchling==1.33.0",  # builds the wheel that a test installs as Colab does
)
TRITON39 = ("triton==3.9.0",)
SLOW = "" if "--full" in sys.argv else " and not slow"
CLASS_MORE = ("distributed==2026.8.0",)  # the extra dask, for the tests of --scheduler
CLASS_TOOLS = ("pytest", "playwright")  # what runs the tests there, at the tests' versions


def key(*packages):
    """The stamp of a set of packages."""
    return hashlib.sha256(" ".join(packages).encode()).hexdigest()


def colab():
    """An environment with Colab's versions: its Python, and no environment variables."""
    venv = os.path.join(ROOT, ".venv-colab")
    python = os.path.join(VENV, "bin", "python")

    def install():
        say("Making .venv-colab: Triton 3.6, IPython 7.34, ipywidgets 7.7 (a minute or two)")
        return install_torch_cpu(venv, COLAB_TORCH) and pip(venv, "-qq", *COLAB)

    make_venv(venv, python)
    once(venv, "packages", key(COLAB_TORCH, *COLAB), install)
    return os.path.join(venv, "bin", "python"), {}


def triton39():
    """The course's own Python, and the environment variable that lays Triton 3.9 over its own."""
    overlay = os.path.join(ROOT, ".venv-triton39")
    os.makedirs(overlay, exist_ok=True)

    def install():
        say("Making .venv-triton39 (a minute)")
        return pip(VENV, "-qq", "--no-deps", "--upgrade", "--target", overlay, *TRITON39)

    once(overlay, "packages", key(*TRITON39), install)
    return os.path.join(VENV, "bin", "python"), {"PYTHONPATH": overlay}


def nocompiler():
    """.venv's packages, but of Triton the Python files alone, and no call that macOS lacks."""
    venv, python = os.path.join(ROOT, ".venv-nocompiler"), os.path.join(VENV, "bin", "python")
    triton = pinned(os.path.join(ROOT, "requirements.lock"), "triton")
    make_venv(venv, python)
    once(venv, "triton", triton, lambda: triton_sources(venv, triton))
    site = site_packages(venv)
    with open(os.path.join(site, "others.pth"), "w") as file:
        file.write(f"import site; site.addsitedir({site_packages(VENV)!r})\n")
    shutil.copy(os.path.join(ROOT, "tests", "macos", "sitecustomize.py"), site)
    return os.path.join(venv, "bin", "python"), {"FLASHLAB_COMPILED_PYTHON": python}


def classroom():
    """An instructor's environment and what runs tests; the Python and no environment variables."""
    class_env.main(os.path.join(VENV, "bin", "python"), os.environ.get("TORCH", "").lower())
    lock = os.path.join(ROOT, "requirements-test.lock")
    tools = [*CLASS_MORE, *(f"{name}=={pinned(lock, name)}" for name in CLASS_TOOLS)]
    once(class_env.CLASS, "tools", key(*tools), lambda: pip(class_env.CLASS, "-qq", *tools))
    return os.path.join(class_env.CLASS, "bin", "python"), {}


def test(make, marker, folder="tests"):
    """Make a set and run in it the tests of a folder with these markers; True if they pass."""
    python, more = make()
    say(f"tests with the set of versions {make.__name__}: {marker}")
    command = [python, "-m", "pytest", "-m", marker, "-q", folder]
    return subprocess.call(command, cwd=ROOT, env={**os.environ, **more}) == 0


if __name__ == "__main__":
    try:
        passed = [
            test(colab, "core and not slow"),
            test(triton39, "core and not slow"),
            test(nocompiler, "nocompiler" + SLOW, os.path.join("tests", "macos")),
            test(classroom, "classroom" + SLOW, os.path.join("tests", "classroom")),
        ]
    except Refused as refused:
        sys.exit(f"flashlab: {refused}")
    sys.exit(0 if all(passed) else 1)
