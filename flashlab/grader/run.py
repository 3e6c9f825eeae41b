"""check(): the stages of one check, in order, to one report. Floor: course."""

import ast
import platform
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import triton

from flashlab import aot, exercises, sources
from flashlab.exercise import Case, Exercise
from flashlab.grader import (
    bank,
    contract,
    cpu,
    escapes,
    gpu,
    inspection,
    lint,
    points,
    pool,
    precision,
    steps,
    trials,
    wording,
)
from flashlab.grader import diagnose as diagnosis
from flashlab.grader.contract import Problem
from flashlab.grader.cpu import Answer, Cpu, Progress
from flashlab.grader.offline import Offline
from flashlab.grader.report import Report, Stage
from flashlab.grader.trials import Run
from flashlab.iocount import habits

ENDED = {  # what an escape turns into a refusal: an answer may make our process fail as well
    "pass": "Every case passes, but",
    "grader_error": "No case came to its end, and",
}
NOT_DIAGNOSED = ("pass", "unfilled", "grader_error")
RANKS_TAKE = 2  # times as long for a diagnosis whose runs start several processes each


def warm() -> None:
    """Start what a check needs ahead of time; returns at once."""
    pool.default()
    aot.warm()


def check(
    slug: str,
    text: str,
    *,
    tier: str = "cpu",
    path: str = "",
    saved_at: str = "",
    cases: Sequence[str] | None = None,
    all_cases: bool = False,
    progress: Progress | None = None,
    diagnose: bool = True,
    budget_seconds: float = 8.0,
    limits: pool.Limits | None = None,
    exercise: Exercise | None = None,
) -> Report:
    """Grade a text in processes of its own; this process never runs it.

    Args:
        slug: Exercise.
        text: The answer.
        tier: ``"cpu"``, ``"gpu"`` or ``"hopper"``; the higher ones run the lower one's stages too.
        path, saved_at: Of the file that the text comes from, for the report.
        cases: Names of the cases to run; None is all. Only then the launches are compiled and
            there are points.
        all_cases: Go on after the first group of cases that fails.
        progress: Called with (done, total, name of a case).
        diagnose: Look for the likely mistake and the first wrong step.
        budget_seconds: Time for that.
        limits: What one run may use; None is 5 s of processor, 10 s of time, 1 GiB.
        exercise: The same exercise with other cases, such as hidden ones; None is the course's.

    Raises:
        KeyError: unknown slug or case.
    """
    exercise = exercise or exercises.get(slug)
    for name in cases or ():
        exercise.case(name)
    start = time.monotonic()
    report = Report(slug, tier, "pass", "", path=path, saved_at=saved_at)
    report.text_hash = sources.text_hash(text)
    report.versions = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "triton": triton.__version__,
    }
    try:
        answer = Answer(text, path or f"{slug}.py", limits or pool.Limits())
        with trials.one_thread():
            _Check(exercise, answer, report).run(
                cases, all_cases, progress, budget_seconds if diagnose else 0.0
            )
    except KeyboardInterrupt:
        report.status, report.points = "grader_error", 0.0
        report.not_run.append("the rest: you stopped the check")
        report.headline = "You stopped the check; nothing was marked."
    report.seconds = time.monotonic() - start
    return report


def copies(runs: Sequence[Run]) -> list[str]:
    """A sentence on each line of a launcher that copies a tensor."""
    found: dict[int, int] = {}
    for run in runs:
        for copy in (run.reply.header or {}).get("copies") or []:
            line, moved = int(copy.get("line", 0)), int(copy.get("nbytes", 0))
            found[line] = max(found.get(line, 0), moved)
    return [
        f"Line {line} copies {moved:,} bytes before the kernel runs, which no tally sees; "
        "pass strides instead of .contiguous()."
        for line, moved in sorted(found.items())
    ]


class _Check:
    """One check under way."""

    def __init__(self, exercise: Exercise, answer: Answer, report: Report) -> None:
        self.exercise, self.answer, self.report = exercise, answer, report
        self.barred = False  # from points, by what the text reaches for

    def run(
        self,
        cases: Sequence[str] | None,
        all_cases: bool,
        progress: Progress | None,
        budget_seconds: float,
    ) -> None:
        report, exercise = self.report, self.exercise
        tree = self._read()
        if tree is None and report.status == "unfilled":
            self._try_steps()
        if tree is not None:
            report.own_tiles = contract.constants(tree, exercise.tile_names)
            self._run_cases(tree, cases, all_cases, progress)
            if cases is None:
                points.award(exercise, report, self.stage.runs, self.barred)
            if report.status not in NOT_DIAGNOSED and budget_seconds:
                self._diagnose(budget_seconds * (RANKS_TAKE if exercise.ranks else 1))
        report.headline = report.headline or wording.headline(report)

    def _read(self) -> ast.Module | None:
        """The tree of a text that may be run; else None, with the reason in the report."""
        step = sources.unfilled_step(self.exercise.slug, self.answer.text)
        tree, problem = contract.parse(self.answer.text)
        if step is not None:
            self.report.step = step
            if problem:
                self.report.notes.append(f"Line {problem.line}: {problem.detail}.")
            problem = Problem("unfilled", sources.step_sentence(self.exercise.slug, step))
        problem = (
            problem or contract.contract(self.exercise, tree) or lint.lint(self.exercise, tree)
        )
        if problem is None:
            self.report.stages.append(Stage("read", "pass"))
            return tree
        place = f"line {problem.line}: " if problem.line else ""
        self.report.status = problem.status
        self.report.stages.append(Stage("read", "fail", place + problem.detail))
        self.report.not_run.append("cases: the text was not run")
        return None

    def _try_steps(self) -> None:
        """The steps before the first unwritten one, each as far as it can be judged without it."""
        tree, problem = contract.parse(self.answer.text)
        if problem or lint.lint(self.exercise, tree):
            return
        found = steps.so_far(self.exercise, self.answer, self.report.step)
        if found is None:
            return
        unwritten = self.report.stages[-1].detail
        self.report.stages.append(Stage("steps", "pass" if found.right else "fail", found.said))
        self.report.headline = (
            f"{self.exercise.slug} is not finished: {found.said}. {unwritten.rstrip('.')}."
        )

    def _run_cases(
        self,
        tree: ast.Module,
        names: Sequence[str] | None,
        all_cases: bool,
        progress: Progress | None,
    ) -> None:
        report, exercise, answer = self.report, self.exercise, self.answer
        warm()
        kernels = exercise.kind in ("triton", "gluon")
        compiles = kernels and names is None
        own = any(c.own for c in exercise.cases) and bool(report.own_tiles)
        offline = Offline(exercise, answer.text, answer.filename, own)
        self.stage = Cpu(exercise, answer, report.own_tiles, names, all_cases, progress)
        self.stage.on_run = offline.saw if compiles else None
        self.stage.run()
        if exercise.kind == "gluon":
            inspection.tell(self.stage, report)
        report.cases = [run.result for run in self.stage.runs]
        report.notes += self.stage.notes + copies(self.stage.runs)
        report.not_run += self.stage.not_run
        bad = report.first_failure
        report.status = bad.status if bad else "pass"
        detail = f"{bad.name}: {bad.detail}" if bad else ""
        ran = "pass" if report.cases else "not run"
        report.stages.append(Stage("cases", "fail" if bad else ran, detail))
        if compiles:
            offline.finish(report)
            inspection.inspect(exercise, report)
        if report.status == "grader_error" or report.status not in points.NO_POINTS:
            self._escapes(tree)
        if kernels or exercise.ranks:
            self._run_compiled(names, progress)
        if report.status == "pass" and not report.cases:  # a pass would say more than is known
            report.status = "grader_error"
            report.headline = f"Nothing was marked, since no case ran: {report.not_run[0]}."

    def _run_compiled(self, names: Sequence[str] | None, progress: Progress | None) -> None:
        """The GPU stage, for a text that passed everything else."""
        report = self.report
        only = self.exercise.archs if self.exercise.kind == "gluon" else ()
        why_not = gpu.available(self.exercise.ranks, only)
        if report.tier == "cpu":
            why_not = "compiled run: not run on tier cpu"
        elif report.status != "pass":
            why_not = "compiled run: not run, an earlier stage failed"
        if why_not:
            report.not_run.append(why_not)
            return
        done: list[Run] = []

        def tell(run: Run) -> None:
            done.append(run)
            if progress:
                progress(len(done), total, f"{run.result.name} on the GPU")

        stage = gpu.Gpu(self.exercise, self.answer, report.tier, report.own_tiles, names, tell)
        total = len(stage.plan())
        report.cases += [run.result for run in stage.run()]
        self.stage.runs += done
        bad = report.first_failure
        report.status = bad.status if bad else "pass"
        detail = f"{bad.name}: {bad.detail}" if bad else ""
        report.stages.append(Stage("compiled cases", "fail" if bad else "pass", detail))
        how = f"each call repeated {gpu.REPEATS} times, bit for bit"
        if self.exercise.ranks:
            how = "over NCCL, a GPU a rank; cases with more ranks than GPUs were not run"
        report.notes.append(
            f"Compiled on {torch.cuda.get_device_name()}; {how}; fp32 multiplied in TF32, "
            "Triton's default, and limits allow for it."
        )

    def _escapes(self, tree: ast.Module) -> None:
        """A text that earns points must not reach out of its place."""
        problem = escapes.escape(tree, self.exercise.ranks)
        if problem is None:
            return
        self.barred = True
        detail = f"line {problem.line}: {problem.detail}"
        self.report.stages.append(Stage("escapes", "fail", detail))
        if self.report.status in ENDED:
            self.report.headline = f"{ENDED[self.report.status]} {detail}."
            self.report.status = problem.status
        else:
            self.report.notes.append(f"No points, since {detail}.")

    def _diagnose(self, budget_seconds: float) -> None:
        exercise, answer = self.exercise, self.answer
        report = self.report
        runs = [
            bank.Run(
                r.trial.case, r.trial.tiles, r.result, r.raw, r.trial.reference, r.trial.arguments
            )
            for r in self.stage.runs
        ]
        found = diagnosis.diagnose(
            exercise,
            runs,
            self._run_text,
            text=answer.text,
            budget_seconds=budget_seconds,
            run_many=self._run_many,
        )
        diagnosis.apply(report, found)
        if exercise.kind == "triton" and not report.mistake:
            said = []
            if report.status in ("nan", "wrong"):
                said = [f"Line {line}: {text}." for line, text in habits.reductions(answer.text)]
            if report.status == "precision":
                said = precision.causes(answer.text, runs)
            report.structure = said[: precision.MOST] + report.structure
        report.step = steps.first_wrong(exercise, answer, self.stage.runs)

    def _run_many(self, jobs: Sequence[bank.Job]) -> list[trials.Raw]:
        wanted = [(t, trials.trial(self.exercise, case, tiles)) for t, case, tiles in jobs]
        return [r.raw for r in cpu.run_texts(self.exercise, wanted, self.answer.filename)]

    def _run_text(
        self,
        text: str,
        case: Case,
        tiles: Mapping[str, int],
        inputs: Mapping[str, Any] | None = None,
    ) -> trials.Raw:
        trial = trials.trial(self.exercise, case, tiles)
        if inputs is not None:
            trial = trials.with_inputs(self.exercise, case, tiles, inputs, trial.sizes)
        [run] = cpu.run_texts(self.exercise, [(text, trial)], self.answer.filename)
        return run.raw
