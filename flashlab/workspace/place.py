"""Where the workspace of this process lies. Floor: core."""

import os
from pathlib import Path

from flashlab import sources

MARKER = ".flashlab-workspace"


def find_root() -> tuple[Path, str]:
    """The workspace's folder and why it is this one; the folder need not exist.

    FLASHLAB_WORK, else the nearest folder with a marker from the working directory upwards, else
    ``work/`` beside the course, else (the course came as a wheel) ``~/flashlab-work``.
    """
    if named := os.environ.get("FLASHLAB_WORK", "").strip():
        return Path(named).expanduser(), "FLASHLAB_WORK says so"
    try:
        here = Path.cwd()
    except FileNotFoundError:  # the working directory was deleted
        here = Path("/")
    for folder in (here, *here.parents):
        if (folder / MARKER).is_file():
            return folder, "the nearest workspace round the working directory"
    try:
        course = sources.course_dir()
    except FileNotFoundError:
        course = None
    if course is None or course.name == "_course":
        return Path.home() / "flashlab-work", "the course was installed from a wheel"
    return course / "work", "beside the course"
