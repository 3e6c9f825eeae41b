"""A dealt set: its files, what was tried, and its marks. Nothing here names a fault by itself."""

import difflib
import json
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flashlab import exercises, grader
from flashlab.broken.bank import COUNT, LETTERS, Puzzle, dealt_from, draw
from flashlab.grader import wording
from flashlab.grader.report import Report
from flashlab.workspace import Workspace, files

NAMED = (4, 2, 1)  # points for the right sentence at the first, second, third try
MENDED, MENDED_WITH_REPORT = 6, 3
MOST = COUNT * (NAMED[0] + MENDED)
WIDE = 96  # characters of a line, which a notebook shows unbroken
MORE_LINES = 10  # that a mend may change beyond those which the mistake changed

Progress = Callable[[int, int, str], None]


def deal(seed: int = 1, *, every: bool = False) -> "Set":
    """The set of a seed: dealt anew, or as you left it.

    A broken kernel is the course's solution with one edit. Exercises that you have passed are
    dealt; while they are under four, the first others are too, which opens their solutions (your
    progress records it). ``every`` draws from all kernels of the course in any case.

    Raises:
        ValueError: ``seed`` is not a whole number from 0.
    """
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        raise ValueError(f"seed must be a whole number from 0, not {seed!r}")
    workspace = Workspace.current()
    folder = workspace.root / "broken" / f"seed-{seed}"
    found = Set(folder, workspace)
    if found.state is None:
        _deal(found, seed, every)
    return found


def newest() -> "Set":
    """The set dealt last; the one of seed 1 if there is none."""
    folders = (Workspace.current().root / "broken").glob("seed-*/state.json")
    times = sorted((path.stat().st_mtime_ns, path.parent.name) for path in folders)
    return deal(int(times[-1][1].removeprefix("seed-")) if times else 1)


def _deal(to: "Set", seed: int, every: bool) -> None:
    passed = [s for s in exercises.SYLLABUS if to.workspace.last_pass(s)]
    slugs = dealt_from(exercises.SYLLABUS if every else passed)
    draw(seed, slugs)  # raises before anything is written
    to.workspace.create()
    to.save({"seed": seed, "slugs": list(slugs), "kernels": {}})
    for puzzle in to.puzzles:
        if puzzle.slug not in passed:
            to.workspace.record_solution(puzzle.slug)
        if files.read_bytes(to.path(puzzle.number)) is None:
            files.write_atomic(to.path(puzzle.number), puzzle.text.encode())


class Set:
    """Eight broken kernels in ``folder``."""

    def __init__(self, folder: Path, workspace: Workspace) -> None:
        self.folder, self.workspace = folder, workspace
        raw = files.read_bytes(folder / "state.json")
        self.state: dict[str, Any] | None = json.loads(raw) if raw else None
        self._puzzles: list[Puzzle] = []

    def save(self, state: dict[str, Any]) -> None:
        """Write what was tried so far."""
        self.state = state
        text = json.dumps(state, indent=1) + "\n"
        files.write_atomic(self.folder / "state.json", text.encode())

    @property
    def puzzles(self) -> list[Puzzle]:
        """The kernels with their faults: for the marks, not for whoever is looking for them."""
        if not self._puzzles:
            self._puzzles = draw(self.state["seed"], self.state["slugs"])
        return self._puzzles

    def slug(self, number: int) -> str:
        """The exercise that kernel ``number`` belongs to."""
        return self._puzzle(number).slug

    def path(self, number: int) -> Path:
        """Where kernel ``number`` lies: edit it there."""
        return self.folder / f"{number}_{self.slug(number)}.py"

    def _shown(self, number: int) -> str:
        return self.workspace.show(self.path(number))

    def _puzzle(self, number: int) -> Puzzle:
        if number not in range(1, COUNT + 1):
            raise ValueError(f"there are kernels 1 to {COUNT}, not {number!r}")
        return self.puzzles[number - 1]

    def _tried(self, number: int) -> dict[str, Any]:
        fresh = {"tries": [], "named": False, "told": False, "report": False, "mended": None}
        return self.state["kernels"].setdefault(str(number), fresh)

    def text(self, number: int) -> str:
        """The file as it is now."""
        path = self.path(number)
        return files.decoded(path, files.read_bytes(path) or b"")

    def show(self, number: int, first: int = 1, last: int | None = None) -> str:
        """Lines ``first`` to ``last`` of the file, numbered, and where it lies."""
        lines = self.text(number).splitlines()[first - 1 : last]
        head = f"# kernel {number}: {self._shown(number)}\n"
        return head + "\n".join(f"{n:4d}  {line}" for n, line in enumerate(lines, first))

    def symptoms(self, number: int, progress: Progress | None = None) -> str:
        """What each case of the exercise says of the file: a status, and no diagnosis."""
        exercise = exercises.get(self._puzzle(number).slug)
        names = [case.name for case in exercise.cases]
        report = grader.check(
            exercise.slug, self.text(number), cases=names, all_cases=True, diagnose=False,
            progress=progress,
        )  # fmt: skip
        rows = [f"kernel {number}, {exercise.slug}: {report.status}"]
        longest = max(map(len, names))
        for name in names:
            runs = [run for run in report.cases if run.name == name]
            told = ", ".join(dict.fromkeys(run.status for run in runs)) or "not run"
            head = f"  {name:{longest}s}  {told:14s}"
            why = textwrap.wrap(exercise.case(name).why, WIDE - len(head))
            rows += [head + why[0], *(" " * len(head) + line for line in why[1:])]
        return "\n".join(rows)

    def choices(self, number: int) -> str:
        """The sentences to choose the fault from."""
        listed = zip(LETTERS, self._puzzle(number).choices, strict=False)
        return "\n".join(f"  {letter}. {sentence}" for letter, sentence in listed)

    def name(self, number: int, letter: str) -> str:
        """Say which sentence names the fault; each try counts."""
        puzzle, tried = self._puzzle(number), self._tried(number)
        letter = str(letter).strip().lower()
        if letter not in LETTERS[: len(puzzle.choices)] or len(letter) != 1:
            raise ValueError(f"choose one of {', '.join(LETTERS[: len(puzzle.choices)])}")
        if tried["named"]:
            return f"Kernel {number} is named already: {puzzle.mistake.says}"
        tried["tries"].append(letter)
        tried["named"] = letter == puzzle.answer
        self.save(self.state)
        if tried["named"]:
            return f"Right: {puzzle.mistake.says} Now mend it: edit {self._shown(number)}."
        return f"No: the fault of kernel {number} is another one."

    def mend(self, number: int, old: str, new: str) -> str:
        """Replace ``old``, which stands once in the file, by ``new``, as an editor would."""
        text = self.text(number)
        if not old or text.count(old) != 1:
            raise ValueError(
                f"{old!r} stands {text.count(old) if old else 'nowhere'} times in kernel {number}"
                ": give enough of the line that it stands once"
            )
        files.write_atomic(self.path(number), text.replace(old, new).encode())
        return f"Saved {self._shown(number)}."

    def check(self, number: int, progress: Progress | None = None) -> str:
        """Is it mended? Runs every case; the report stays hidden."""
        puzzle, tried, text = self._puzzle(number), self._tried(number), self.text(number)
        if text == puzzle.text:
            return f"Kernel {number} is as it was dealt: edit {self._shown(number)} first."
        changed, most = lines_changed(puzzle.text, text), most_lines(puzzle)
        if changed > most:
            return (
                f"Kernel {number} differs from what was dealt in {changed} lines: mend the fault "
                f"in at most {most} instead of writing it anew."
            )
        report = grader.check(puzzle.slug, text, diagnose=False, progress=progress)
        if not report.passed:
            bad = report.first_failure
            at = f": {bad.name} says {bad.status}" if bad else f": {report.status}"
            return f"Kernel {number} is not mended yet{at}."
        if not tried["mended"]:
            tried["mended"] = "with report" if tried["report"] else "alone"
            self.save(self.state)
        more = "" if tried["named"] else " Name its fault too."
        return f"Kernel {number} is mended: every case passes.{more}"

    def report(self, number: int, progress: Progress | None = None) -> Report:
        """Open the hidden report: it names the fault, so naming then gives no points."""
        tried = self._tried(number)
        tried["told"] = not tried["named"] or tried["told"]
        tried["report"] = True
        self.save(self.state)
        slug, path = self.slug(number), str(self.path(number))
        report = grader.check(slug, self.text(number), path=path, progress=progress)
        smallest = wording.smallest_failure(report) if report.failing_call else None
        if smallest is not None:
            report.failing_call = wording.failing_call(slug, smallest, f'file="{path}"')
        return report

    def points(self, number: int) -> tuple[int, int]:
        """Points for naming and for mending kernel ``number``."""
        tried = self._tried(number)
        at = len(tried["tries"]) - 1
        alone = tried["named"] and not tried["told"]
        named = NAMED[at] if alone and at < len(NAMED) else 0
        mended = {"alone": MENDED, "with report": MENDED_WITH_REPORT}.get(tried["mended"], 0)
        return named, mended

    @property
    def marks(self) -> int:
        """Points in all, of ``MOST``."""
        return sum(sum(self.points(n)) for n in range(1, COUNT + 1))

    def __repr__(self) -> str:
        seed = self.state["seed"]
        rows = [f"Debug this kernel, seed {seed}: {self.marks} of {MOST} points"]
        for puzzle in self.puzzles:
            tried = self._tried(puzzle.number)
            named = "named" if tried["named"] else f"{len(tried['tries'])} tries to name it"
            told = ["mended" if tried["mended"] else "not mended", named]
            told += ["report opened"] * tried["report"]
            got = "+".join(map(str, self.points(puzzle.number)))
            shown = self._shown(puzzle.number)
            rows.append(f"  {puzzle.number}. {shown}: {', '.join(told)} ({got})")
        return "\n".join(rows)


def lines_changed(before: str, after: str) -> int:
    """Lines that differ, those added and taken away counted once."""
    matcher = difflib.SequenceMatcher(None, _code(before), _code(after), autojunk=False)
    blocks = (op for op in matcher.get_opcodes() if op[0] != "equal")
    return sum(max(i2 - i1, j2 - j1) for _, i1, i2, j1, j2 in blocks)


def most_lines(puzzle: Puzzle) -> int:
    """Lines that a mend of this kernel may change."""
    mistake = puzzle.mistake
    return MORE_LINES + max(mistake.old.count("\n"), mistake.new.count("\n")) + 1


def _code(text: str) -> list[str]:
    """Lines without blank ones and line ends, so that a formatter may run over a mend."""
    return [re.sub(r"\s+", " ", line).strip() for line in text.splitlines() if line.strip()]
