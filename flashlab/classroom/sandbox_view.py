"""What a submission's code may see of this machine, file by file. Floor: front.

Python and its library, torch, Triton, numpy and what those import, the recorder without the closed
forms (which are answers), the pipeline simulator, the compiler's worker and the run's worker:
nothing else of the course.
"""

import glob
import importlib.metadata
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
SITE, COURSE = "/flashlab/site", "/flashlab/course"
SYSTEM = ("/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64")
SYSTEM_PREFIXES = ("/", "/usr", "/usr/local")
DISTRIBUTIONS = ("torch", "triton", "numpy")
WORKER = (
    "__init__.py compiler.py loading.py hardware.py system.py aot iocount pipeline "
    "grader/__init__.py grader/server.py grader/worker.py grader/protocol.py "
    "grader/guard.py grader/audit.py grader/arguments.py"
).split()
RANKS = ("ring", "grader/ring.py")  # for exercises on several ranks alone
HIDDEN = (f"{COURSE}/flashlab/iocount/bounds",)
SERVER = f"{COURSE}/flashlab/grader/server.py"


@dataclass(frozen=True)
class View:
    """Read-only mounts (from here, to there), links, and folders that are shown empty."""

    mounts: tuple[tuple[str, str], ...]
    links: tuple[tuple[str, str], ...]  # (name, what it points to)
    empty: tuple[str, ...]
    python: str
    path: tuple[str, ...]  # sys.path inside


def course(ranks: bool = False) -> list[tuple[str, str]]:
    """The few files of the course that run beside a submission's code."""
    parts = (*WORKER, *(RANKS if ranks else ()))
    return [(str(PACKAGE / part), f"{COURSE}/flashlab/{part}") for part in parts]


def packages() -> list[tuple[str, str]]:
    """torch, Triton, numpy and what they need, each at its place in ``SITE``."""
    found = {}
    for name in sorted(_closure(DISTRIBUTIONS)):
        distribution = importlib.metadata.distribution(name)
        tops = {Path(str(file)).parts[0] for file in distribution.files or ()}
        for top in sorted(tops - {"..", "__pycache__"}):
            source = Path(str(distribution.locate_file(top)))
            if source.exists() and not top.endswith(".pth"):
                found[f"{SITE}/{top}"] = str(source)
    return [(source, there) for there, source in found.items()]


def local(ranks: bool = False) -> View:
    """The view with this machine's own Python and libraries, for a sandbox without an image."""
    python = os.path.realpath(sys.executable)
    library = os.path.dirname(os.path.realpath(os.__file__))
    mounts: dict[str, str] = {}
    links = {}
    for folder in SYSTEM:
        if os.path.islink(folder):
            links[folder] = os.readlink(folder)
        elif os.path.isdir(folder):
            mounts[folder] = folder
    for path in _python(python, library):
        if not any(_inside(path, above) for above in mounts):
            mounts[path] = path
    if os.path.exists("/etc/ld.so.cache"):
        mounts["/etc/ld.so.cache"] = "/etc/ld.so.cache"
    empty = [p for p in _other_packages(library) if any(_inside(p, m) for m in mounts)]
    beside = [(source, there) for there, source in mounts.items()]
    path = (*_standard(library), SITE, COURSE)
    everything = (*beside, *packages(), *course(ranks))
    return View(everything, tuple(links.items()), (*empty, *HIDDEN), python, path)


def _python(python: str, library: str) -> Iterator[str]:
    """The interpreter, its library and the shared libraries that it was built with."""
    yield python
    prefix = sys.base_prefix
    if prefix in SYSTEM_PREFIXES:
        yield library
        yield from glob.glob(f"{prefix}/lib/libpython3*.so*")
    else:
        yield f"{prefix}/lib"
        if not _inside(library, f"{prefix}/lib"):
            yield library


def _standard(library: str) -> tuple[str, str]:
    return library, f"{library}/lib-dynload"


def _other_packages(library: str) -> list[str]:
    """Folders of packages beside the library: the course itself may be installed there."""
    names = [f"{library}/{name}" for name in ("site-packages", "dist-packages")]
    names += [f"{sys.base_prefix}/lib/python3/dist-packages", "/usr/lib/python3/dist-packages"]
    return sorted({name for name in names if os.path.isdir(name)})


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _closure(names: tuple[str, ...]) -> set[str]:
    """The distributions and all that they require without extras, as far as they are here."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in found:
            continue
        try:
            required = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        found.add(name)
        waiting += [re.split(r"[ ;<>=!~\[(]", r)[0] for r in required if "extra ==" not in r]
    return found
