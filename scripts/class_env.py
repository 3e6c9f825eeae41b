"""Make .venv-class, an instructor's environment: the course and nbgrader; `make classroom`.

One of its own, so that nbgrader's extensions do not change a learner's JupyterLab.
"""

import os
import platform
import shutil
import sys

from setup_env import (
    ROOT,
    Refused,
    check_disk,
    check_machine,
    install_torch_cpu,
    make_venv,
    once,
    pinned,
    pip,
    say,
    stamp_of,
)

CLASS = os.path.join(ROOT, ".venv-class")
LOCK = os.path.join(ROOT, "requirements-class.lock")


def main(wanted="", torch=""):
    """Make or complete .venv-class; ``wanted`` and ``torch`` as in setup_env."""
    check_machine(platform.system(), platform.machine())
    if not os.path.isdir(CLASS):
        check_disk(shutil.disk_usage(ROOT).free, torch)
    os.environ["PIP_COMPILE"] = "0"  # what is imported is compiled then
    make_venv(CLASS, wanted)

    def packages():
        if torch == "cpu" and not install_torch_cpu(CLASS, pinned(LOCK, "torch")):
            return False
        say("Installing the packages of requirements-class.lock (a minute or two)")
        return pip(CLASS, "-r", LOCK)

    def project():
        return pip(CLASS, "--no-deps", "-e", ROOT)

    once(CLASS, "packages", stamp_of(LOCK), packages)
    once(CLASS, "project", stamp_of(os.path.join(ROOT, "pyproject.toml")), project)
    say("Ready: source .venv-class/bin/activate")


if __name__ == "__main__":
    try:
        main(os.environ.get("PYTHON", ""), os.environ.get("TORCH", "").lower())
    except Refused as refused:
        sys.exit(f"flashlab: {refused}")
    except KeyboardInterrupt:
        sys.exit("\nflashlab: stopped; run the same command again to go on.")
