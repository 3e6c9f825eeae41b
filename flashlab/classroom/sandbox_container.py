"""Docker's and podman's command line, the same closed place in a container. Floor: front.

The image brings Python and its library; torch, Triton, numpy and the worker are mounted into it.
"""

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from flashlab.classroom import sandbox_bwrap, sandbox_view

ENGINES = ("docker", "podman")
MEMORY = "6g"
MEETING = "/flashlab/meeting"


def image() -> str:
    """The image that fits this Python; ``--image`` names another one."""
    return f"docker.io/library/python:{sys.version_info.major}.{sys.version_info.minor}-slim"


def program(engine: str) -> str:
    """Where the engine's client is; empty if it is not."""
    return shutil.which(engine) or ""


def words(
    engine: str,
    image: str,
    command: Sequence[str],
    meeting: Path | None = None,
    ranks: bool = False,
) -> list[str]:
    """``command`` in a container of ``image`` that is gone when the command ends."""
    scratch = f"rw,nosuid,nodev,mode=1777,size={sandbox_bwrap.SCRATCH_BYTES}"
    nobody = f"{sandbox_bwrap.NOBODY}:{sandbox_bwrap.NOBODY}"
    found = [program(engine) or engine, "run", "--rm", "--interactive", "--pull", "missing"]
    found += ["--network", "none", "--ipc", "private", "--read-only", "--tmpfs", f"/tmp:{scratch}"]
    found += ["--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--user", nobody]
    found += ["--pids-limit", str(sandbox_bwrap.TASKS), "--memory", MEMORY, "--memory-swap"]
    found += [MEMORY, "--ulimit", f"nofile={sandbox_bwrap.OPEN_FILES}", "--ulimit", "core=0"]
    for name, value in (sandbox_bwrap.SETTINGS | sandbox_bwrap.NO_GPU).items():
        found += ["--env", f"{name}={value}"]
    for source, there in (*sandbox_view.packages(), *sandbox_view.course(ranks)):
        found += ["--volume", f"{source}:{there}:ro"]
    for folder in sandbox_view.HIDDEN:
        found += ["--tmpfs", f"{folder}:ro,size=4k"]
    if meeting is not None:
        found += ["--volume", f"{os.path.abspath(meeting)}:{MEETING}"]
    return [*found, image, *command]
