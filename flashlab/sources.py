"""The hand-written solution of an exercise and the texts derived from it. Floor: core.

Owns the files of the course, the hole markers (stub, transplant, mutant) and the hashes by which
an untouched stub is known. It reads text only: nothing here imports or runs a learner's file.
"""

import difflib
import hashlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from flashlab.holes import (
    Hole,
    alarm_sentence,
    derive_stub,
    holes,
    refill,
    stub_sentence,
    without_markers,
)
from flashlab.transplant import (
    TransplantError,
    alarm_step,
    fillings,
    first_blank,
    normalise,
    transplant,
)

if TYPE_CHECKING:  # torch, which exercise.py imports, is not needed to read texts
    from flashlab.exercise import Mistake

__all__ = [
    "Hole",
    "TransplantError",
    "alarm_sentence",
    "alarm_step",
    "course_dir",
    "derive_stub",
    "fillings",
    "holes",
    "is_stub",
    "mutant",
    "normalise",
    "refill",
    "released_stubs",
    "slugs",
    "solution_path",
    "solution_text",
    "step_sentence",
    "stub_path",
    "stub_text",
    "text_hash",
    "transplant",
    "unfilled_step",
    "without_markers",
]

_PACKAGE = Path(__file__).resolve().parent
STUBS = _PACKAGE / "stubs"
RELEASED = STUBS / "released.json"


def course_dir() -> Path:
    """The folder of chapters/, labs/ and solutions/: a checkout's root or the wheel's copy.

    Raises:
        FileNotFoundError: the package stands alone, without the course's files.
    """
    for folder in (_PACKAGE / "_course", _PACKAGE.parent):
        if (folder / "labs").is_dir() and (folder / "chapters").is_dir():
            return folder
    raise FileNotFoundError(
        f"chapters/ and labs/ were expected beside {_PACKAGE}; install flashlab-course again"
    )


def slugs() -> tuple[str, ...]:
    """Every exercise that has a solution or a stub, in alphabetical order."""
    folders = (course_dir() / "solutions", STUBS)
    return tuple(sorted({path.stem for folder in folders for path in folder.glob("[!_]*.py")}))


def solution_path(slug: str) -> Path:
    """Where the solution of ``slug`` lies."""
    return course_dir() / "solutions" / f"{slug}.py"


def stub_path(slug: str) -> Path:
    """Where the woven stub of ``slug`` lies."""
    return STUBS / f"{slug}.py"


def solution_text(slug: str) -> str:
    """The solution with its markers; KeyError if there is none (a student bundle has none)."""
    return _read(solution_path(slug), slug, "solution")


def stub_text(slug: str) -> str:
    """The stub as released; KeyError if there is none."""
    return _read(stub_path(slug), slug, "stub")


def _read(path: Path, slug: str, what: str) -> str:
    if slug.isidentifier() and path.is_file():
        return path.read_text(encoding="utf-8")
    if slug in slugs():
        way = "; chapters use your own once it has passed its check" if what == "solution" else ""
        raise KeyError(f"this copy of the course has no {what} of {slug}{way}")
    near = difflib.get_close_matches(slug, slugs(), n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(slugs())}"
    raise KeyError(f"no exercise is called {slug!r}; {hint}")


def text_hash(text: str) -> str:
    """SHA-256 of the normalised text, in hex."""
    return hashlib.sha256(normalise(text).encode()).hexdigest()


def released_stubs(slug: str) -> frozenset[str]:
    """Hashes of every stub of ``slug`` ever given to learners; empty for an unknown one."""
    if not RELEASED.is_file():
        return frozenset()
    return frozenset(json.loads(RELEASED.read_text(encoding="utf-8")).get(slug, ()))


def is_stub(slug: str, text: str) -> bool:
    """Whether ``text`` is an untouched stub of ``slug``, of this release or an earlier one."""
    return text_hash(text) in released_stubs(slug)


def step_sentence(slug: str, step: int) -> str:
    """What a report says of step ``step`` while it is not written."""
    try:
        sentence = holes(solution_text(slug))[step - 1].sentence
    except KeyError:  # a student's copy holds no solutions
        sentence = stub_sentence(stub_text(slug), step)
    return alarm_sentence(step, sentence)


def unfilled_step(slug: str, text: str) -> int | None:
    """Number of the first step that is not written, else None.

    Not written: its alarm still stands, or (where the given lines are unchanged) its hole is blank
    or holds nothing but comments, strings, ``pass`` and ``...``.
    """
    open_steps = (alarm_step(text), first_blank(stub_text(slug), text))
    return min((step for step in open_steps if step), default=None)


def mutant(solution_text: str, mistake: "Mistake") -> str:
    """The solution, markers removed, with the one edit of ``mistake``.

    Raises:
        ValueError: ``mistake.old`` does not stand exactly once, with the lines where it does.
    """
    body = without_markers(solution_text)
    found = [m.start() for m in re.finditer(re.escape(mistake.old), body)]
    if len(found) != 1:
        lines = ", ".join(str(body.count("\n", 0, at) + 1) for at in found) or "none"
        raise ValueError(
            f"mistake {mistake.slug!r}: {mistake.old!r} must stand exactly once in the solution, "
            f"not {len(found)} times (lines without markers: {lines})"
        )
    return body.replace(mistake.old, mistake.new)
