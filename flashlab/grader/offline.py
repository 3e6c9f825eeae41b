"""The compile stage: what the answer launched, compiled for GPUs that need not be here.

Runs in a thread that waits for a process of its own, beside the CPU cases. Floor: course.
"""

import contextlib
import threading
from collections.abc import Sequence
from typing import Any

from flashlab import aot, compiler
from flashlab.exercise import Exercise
from flashlab.grader import contract, cpu, trials
from flashlab.grader.cpu import Answer
from flashlab.grader.report import CaseResult, Report, Stage
from flashlab.grader.trials import Run

SECONDS = 30.0  # for one launch and target
BEFORE = ("unfilled", "contract", "forbidden", "grader_error")  # say more than a refusal


class Offline:
    """Compiles the launches of each function's first good run; ``finish`` writes what was found.

    Args:
        exercise: Names the targets.
        text, filename: The answer.
        own: Wait for a run at the answer's own tile sizes.
    """

    def __init__(self, exercise: Exercise, text: str, filename: str, own: bool) -> None:
        self.exercise, self.text, self.filename, self.own = exercise, text, filename, own
        self.rows: list[aot.Compiled] = []
        self._thread: threading.Thread | None = None
        self._waiting: dict[str, list[aot.Launch]] = {}  # by function; any tile sizes will do
        self._chosen: dict[str, list[aot.Launch]] = {}

    def saw(self, run: Run) -> None:
        """Start if the launches of ``run`` are the last ones to wait for."""
        launches, called = described(run), self.exercise.called(run.trial.case)
        if not compiler.here():
            return
        if self._thread is not None or not launches:
            return
        if self.exercise.compiled:
            if run.trial.case.name in self.exercise.compiled:
                self._chosen[run.trial.case.name] = launches
            if set(self._chosen) == set(self.exercise.compiled):
                self._start(self._all())
            return
        if self.own and not run.trial.own:
            self._waiting.setdefault(called, launches)
            return
        self._chosen.setdefault(called, launches)
        if set(self._chosen) == set(self.exercise.functions):
            self._start(self._all())

    def _all(self) -> list[aot.Launch]:
        """Of each kernel one launch, though several functions may launch it."""
        every = [x for launches in (self._waiting | self._chosen).values() for x in launches]
        if self.exercise.compiled:
            return every
        return list({launch.kernel: launch for launch in every}.values())

    def _start(self, launches: Sequence[aot.Launch]) -> None:
        self._thread = threading.Thread(target=self._compile, args=(launches,), daemon=True)
        self._thread.start()

    def _compile(self, launches: Sequence[aot.Launch]) -> None:
        self.rows = aot.compile_launches(
            self.text, self.filename, launches, self.exercise.archs, SECONDS
        )

    def finish(self, report: Report) -> None:
        """Wait, then write rows, stage and notes; a text that no target takes fails the check."""
        if not compiler.here():
            report.stages.append(Stage("compile", "not run", compiler.NONE_HERE))
            report.not_run.append(f"compile checks: {compiler.NONE_HERE}")
            return
        if self._thread is None and self._waiting | self._chosen:
            self._start(self._all())
        if self._thread is None:
            report.stages.append(Stage("compile", "not run", "no kernel was launched"))
            return
        self._thread.join()
        report.resources = [row.to_json() for row in self.rows]
        bad = [row for row in self.rows if not row.ok]
        refused = self._refused()
        detail = bad[0].sentence if bad else ""
        report.stages.append(Stage("compile", "fail" if bad else "pass", detail))
        if refused and report.status not in BEFORE and report.cases:
            self._mark(report.first_failure or report.cases[0], refused)
            report.status = "compile"
        elif bad:
            targets = ", ".join(sorted({f"sm_{row.arch}" for row in bad}))
            report.notes.append(f"Does not run on {targets}: {detail.rstrip('.')}.")
        spills = ", ".join(f"sm_{row.arch}" for row in self.rows if row.spill_bytes)
        if spills:
            report.notes.append(f"Spills registers on {spills}: use smaller tiles or more warps.")

    def _refused(self) -> aot.Compiled | None:
        """The first row of a kernel that no target takes, if there is one."""
        taken = {row.kernel for row in self.rows if row.error != "refused"}
        return next((row for row in self.rows if row.kernel not in taken), None)

    def _mark(self, case: CaseResult, row: aot.Compiled) -> None:
        """Give a case the compiler's refusal as its status."""
        case.status, case.detail = "compile", row.sentence
        case.line = f"line {row.line}" if row.line else ""


def compile_for(
    exercise: Exercise, text: str, archs: Sequence[int], filename: str = ""
) -> list[aot.Compiled]:
    """Rows of what ``text`` launches in its first core case at its own tile sizes.

    Raises:
        ValueError: the run launched no kernel, saying how it ended.
    """
    answer = Answer(text, filename or f"{exercise.slug}.py")
    case = next((c for c in exercise.cases if c.own), exercise.cases[0])
    tree, _ = contract.parse(text)
    own = contract.constants(tree, exercise.tile_names) if tree else {}
    trial = trials.trial(exercise, case, own or exercise.tiles(case.pairs[0]))
    [(_, run)] = cpu.run_trials(exercise, answer, [trial])
    launches = described(run)
    if not launches:
        said = run.result.detail or run.result.status
        raise ValueError(f"expected {exercise.slug} to launch a kernel, it did not: {said}")
    return aot.compile_launches(text, answer.filename, launches, tuple(archs), SECONDS)


def described(run: Run) -> list[aot.Launch]:
    """Distinct launches that a worker described."""
    found: dict[str, Any] = {}
    for launch in (run.reply.header or {}).get("launches") or []:
        if isinstance(launch.get("described"), dict):
            with contextlib.suppress(TypeError, KeyError, ValueError, AttributeError):
                made = aot.Launch.from_json(launch["described"])
                found.setdefault(str(launch["kernel"]), made)
    return list(found.values())
