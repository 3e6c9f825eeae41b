"""The students' copy of the course: a wheel without solutions and without the bank of mistakes.

It is made from the package as it runs here, so that a checkout and an installed wheel give the
same; what pip needs to know of it comes from the installed distribution.
"""

import base64
import hashlib
import re
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from flashlab import sources

DISTRIBUTION = "flashlab-course"
LOCAL = "students"  # of the version, so that `pip list` tells the copies apart
PACKAGE = Path(sources.__file__).resolve().parent
MISTAKES = PACKAGE / "exercises" / "mistakes"
NO_MISTAKES = '"""The mistakes are kept by those who mark."""\n\nMISTAKES = ()\n'
COURSE = ("chapters", "labs")
_WHEEL = "Wheel-Version: 1.0\nGenerator: flashlab\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def write(folder: Path) -> Path:
    """Write the wheel into ``folder`` and return its path; the same course gives the same bytes.

    Raises:
        ValueError: this Python runs the package without its distribution being installed.
    """
    files = dict(contents())
    version, about = _about()
    info = f"flashlab_course-{version}.dist-info"
    files |= {f"{info}/{name}": text for name, text in about.items()}
    files[f"{info}/RECORD"] = _record(files, info).encode()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"flashlab_course-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data in sorted(files.items()):
            entry = zipfile.ZipInfo(name)  # dated 1980: the bytes depend on the contents alone
            entry.external_attr, entry.compress_type = 0o644 << 16, zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)
    return path


def contents() -> Iterator[tuple[str, bytes]]:
    """(name in the wheel, bytes) of the package and of the course's notebooks."""
    for path in sorted(PACKAGE.rglob("*")):
        inside = path.relative_to(PACKAGE)
        skipped = {"__pycache__", "_course", ".ipynb_checkpoints"} & set(inside.parts)
        if not path.is_file() or skipped or path.suffix == ".pyc":
            continue
        if not path.is_relative_to(MISTAKES):
            yield f"flashlab/{inside.as_posix()}", path.read_bytes()
    for slug in sources.slugs():
        yield f"flashlab/exercises/mistakes/{slug}.py", NO_MISTAKES.encode()
    yield "flashlab/exercises/mistakes/__init__.py", b""
    for name in COURSE:
        for path in sorted((sources.course_dir() / name).glob("*.ipynb")):
            yield f"flashlab/_course/{name}/{path.name}", path.read_bytes()


def _about() -> tuple[str, dict[str, bytes]]:
    """The version, and what pip reads of a distribution."""
    try:
        found = metadata.distribution(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        raise ValueError(
            f"{DISTRIBUTION} is not installed in this Python, so the students' copy cannot say "
            "what it needs: install the course with pip, or run `make classroom`"
        ) from None
    version = f"{found.version}+{LOCAL}"
    text = re.sub(r"(?m)^Version: .*$", f"Version: {version}", found.read_text("METADATA") or "")
    about = {"METADATA": text, "WHEEL": _WHEEL}
    for name in ("entry_points.txt", "licenses/LICENSE"):
        if known := found.read_text(name):
            about[name] = known
    return version, {name: text.encode() for name, text in about.items()}


def _record(files: dict[str, bytes], info: str) -> str:
    """The list of files with their hashes that a wheel ends with."""
    rows = []
    for name, data in sorted(files.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        rows.append(f"{name},sha256={digest},{len(data)}")
    return "\n".join([*rows, f"{info}/RECORD,,", ""])
