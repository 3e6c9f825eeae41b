"""A course on disk: ``flashlab_class.json`` (labs and points), the secret, and its folders."""

import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import flashlab
from flashlab import sources

FILE, SECRET, VERSION = "flashlab_class.json", "secret", 1
STEP_POINTS, EXERCISE_POINTS = 5, 100  # by default: 5 a step, the rest of 100 for the check


@dataclass(frozen=True)
class Points:
    """What an exercise is worth: its check as a whole, and each of its steps."""

    check: float
    steps: tuple[float, ...]

    @property
    def total(self) -> float:
        return self.check + sum(self.steps)


@dataclass(frozen=True)
class Lab:
    """One assignment.

    Args:
        name: Of the assignment and of its notebook: ``"lab04"``.
        notebook: The course's notebook that it is made from: ``"04_flash_forward"``.
        points: Slug -> points, in the order of the notebook.
    """

    name: str
    notebook: str
    points: Mapping[str, Points]

    @property
    def slugs(self) -> tuple[str, ...]:
        return tuple(self.points)


@dataclass(frozen=True)
class Late:
    """Free days a student has over the whole course; each further one costs a share."""

    free_days: int = 0
    percent_a_day: float = 0


@dataclass(frozen=True)
class Course:
    """A course for a class, in the folder ``dir``."""

    dir: Path
    name: str
    version: str  # of flashlab, when it was built
    labs: Mapping[str, Lab]
    late: Late = Late()

    @classmethod
    def load(cls, folder: Path | str) -> Self:
        """The course in ``folder``; ValueError says what is wrong with it."""
        path = Path(folder) / FILE
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            raise ValueError(
                f"{folder} is not a course: it has no {FILE}; make one with "
                f"`flashlab class build {folder}`"
            ) from None
        except (OSError, ValueError) as error:
            raise ValueError(f"{path} cannot be read: {error}") from None
        try:
            return cls(path.parent.resolve(), *_read(data))
        except _Wrong as wrong:
            raise ValueError(f"{path}: {wrong}") from None

    @property
    def secret(self) -> bytes:
        """What hidden cases are drawn from; ValueError if it is missing or no secret."""
        path = self.dir / SECRET
        try:
            return _secret_bytes(path.read_text(encoding="ascii"))
        except (OSError, ValueError):
            raise ValueError(
                f"{path} is missing or not 64 hexadecimal digits: without it no earlier mark can "
                f"be reproduced; restore it, or make a new one with `flashlab class build`"
            ) from None

    def source(self, lab: str) -> Path:
        """The instructor's notebook of a lab, solutions in it."""
        return self.dir / "source" / lab / f"{lab}.ipynb"

    def release(self, lab: str) -> Path:
        """The students' notebook of a lab, as nbgrader made it."""
        return self.dir / "release" / lab / f"{lab}.ipynb"

    def stamp(self, lab: str) -> dict[str, str]:
        """What a notebook of a lab says of itself in its metadata."""
        return {"course": self.name, "lab": lab, "version": self.version}

    def save(self) -> None:
        """Write ``flashlab_class.json``, and the secret if there is none (mode 0600)."""
        labs = {
            lab.name: {
                "notebook": lab.notebook,
                "points": {
                    slug: {"check": p.check, "steps": list(p.steps)}
                    for slug, p in lab.points.items()
                },
            }
            for lab in self.labs.values()
        }
        data = {
            "version": VERSION,
            "name": self.name,
            "secret": SECRET,
            "course_version": self.version,
            "late": asdict(self.late),
            "labs": labs,
        }
        self.dir.mkdir(parents=True, exist_ok=True)
        text = json.dumps(data, indent=1) + "\n"
        text = re.sub(r"\[[\d.,\s]+\]", lambda m: " ".join(m[0].split()), text)
        (self.dir / FILE).write_text(text, encoding="utf-8")
        path = self.dir / SECRET
        if not path.exists():
            path.touch(mode=0o600)
            path.write_text(secrets.token_hex(32) + "\n", encoding="ascii")


def available() -> dict[str, str]:
    """Every lab with an exercise: name -> notebook, such as ``"lab04": "04_flash_forward"``."""
    paths = sorted((sources.course_dir() / "labs").glob("[0-9][0-9]_*.ipynb"))
    with_exercises = [path for path in paths if "%%fill " in path.read_text(encoding="utf-8")]
    return {f"lab{path.stem[:2]}": path.stem for path in with_exercises}


def find_lab(text: str) -> str:
    """The lab that ``04``, ``lab04`` or ``04_flash_forward`` means; KeyError names those there."""
    known = available()
    for name, notebook in known.items():
        if text in (name, name.removeprefix("lab"), notebook):
            return name
    raise KeyError(f"there is no lab {text!r}; there are {', '.join(known)}")


def default_points(slug: str) -> Points:
    """100 an exercise: 5 for each step, the rest for the check."""
    steps = (STEP_POINTS,) * _steps(slug)
    return Points(EXERCISE_POINTS - sum(steps), steps)


def _steps(slug: str) -> int:
    """How many steps an exercise has; read from its solution, which needs no torch."""
    return len(sources.holes(sources.solution_text(slug)))


def _secret_bytes(text: str) -> bytes:
    found = bytes.fromhex(text.strip())
    if len(found) != 32:
        raise ValueError("32 bytes are wanted")
    return found


class _Wrong(Exception):
    """One sentence on a ``flashlab_class.json``."""


def _read(data: Any) -> tuple[str, str, dict[str, Lab], Late]:
    """Name, version, labs and late days, checked."""
    if not isinstance(data, dict) or data.get("version") != VERSION:
        raise _Wrong(f'"version" must be {VERSION}: another flashlab wrote this course')
    name = data.get("name")
    if not isinstance(name, str) or not re.fullmatch(r"[\w.-]{1,80}", name):
        raise _Wrong(f'"name" must be letters, digits, ".", "-" and "_", not {name!r}')
    labs = data.get("labs")
    if not isinstance(labs, dict) or not labs:
        raise _Wrong('"labs" must name at least one lab')
    found = {lab: _lab(lab, entry) for lab, entry in labs.items()}
    version = str(data.get("course_version", flashlab.__version__))
    return name, version, found, _late(data.get("late", {}))


def _late(entry: Any) -> Late:
    try:
        late = Late(**entry)
    except TypeError:
        late = Late(-1)
    if not isinstance(late.free_days, int) or not all(map(_is_points, asdict(late).values())):
        raise _Wrong('"late" needs {"free_days": whole days, "percent_a_day": 0 to 100}')
    return late


def _lab(name: str, entry: Any) -> Lab:
    known = available()
    if name not in known:
        raise _Wrong(f"there is no lab {name!r}; there are {', '.join(known)}")
    points = entry.get("points") if isinstance(entry, dict) else None
    if not isinstance(points, dict) or not points:
        raise _Wrong(f'{name} needs "points" for at least one exercise')
    return Lab(name, known[name], {slug: _points(name, slug, p) for slug, p in points.items()})


def _points(lab: str, slug: str, entry: Any) -> Points:
    try:
        steps = _steps(slug)
    except KeyError as error:
        raise _Wrong(f"{lab}: {error.args[0]}") from None
    fits = (
        isinstance(entry, dict)
        and isinstance(entry.get("steps"), list)
        and len(entry["steps"]) == steps
        and all(_is_points(value) for value in (entry.get("check"), *entry["steps"]))
    )
    if not fits:
        raise _Wrong(
            f'{lab}: {slug} needs {{"check": points, "steps": [{steps} of them]}}, none below 0'
        )
    return Points(entry["check"], tuple(entry["steps"]))


def _is_points(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e6
