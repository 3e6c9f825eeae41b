"""The CPU stage: every case at its tile sizes, group by group, on the recorder. Trusted side.

Also used for single runs: mutants of the diagnosis, steps, `flashlab.debug`'s neighbours.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from flashlab.exercise import GROUPS, Case, Exercise
from flashlab.grader import pool, trials, verdict
from flashlab.grader.trials import Run, Trial

HOPELESS = ("unfilled", "contract", "forbidden", "crash", "timeout", "oom", "grader_error")
TIMEOUTS = 2  # in one check; more would only cost the learner's time

Progress = Callable[[int, int, str], None]


@dataclass
class Answer:
    """A text to run, how its file is called in messages, and what a run may use."""

    text: str
    filename: str
    limits: pool.Limits = field(default_factory=pool.Limits)


@dataclass
class Cpu:
    """Runs an answer's trials in groups and keeps what came of it.

    Args:
        exercise: What is graded.
        answer: The learner's text.
        own_tiles: Tile sizes that the text declares; empty if it declares none.
        names: Cases to run; None is all.
        all_cases: Go on after the first group that fails.
        progress: Called with (done, total, text).
        on_run: Called with every run as it ends.
    """

    exercise: Exercise
    answer: Answer
    own_tiles: dict[str, int]
    names: Sequence[str] | None = None
    all_cases: bool = False
    progress: Progress | None = None
    on_run: Callable[[Run], None] | None = None
    runs: list[Run] = field(default_factory=list)
    not_run: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    fixed: dict[str, int] = field(default_factory=dict)  # tile sizes that ignore the constants
    total: int = 0
    _timeouts: int = 0

    def run(self) -> None:
        """Run the groups in order until one fails."""
        groups = [(g, self._plan(g)) for g in GROUPS]
        groups = [(g, plan) for g, plan in groups if plan]
        self.total = sum(len(plan) for _, plan in groups)
        for number, (group, plan) in enumerate(groups):
            ended = self._run_group(plan)
            failed = any(r.result.status != "pass" for r in self.runs)
            if failed and (ended or not self.all_cases):
                for later, _ in groups[number + 1 :]:
                    self.not_run.append(f"{later} cases: stopped, {group} failed")
                return

    def _plan(self, group: str) -> list[tuple[Case, dict[str, int], bool]]:
        plan = []
        for case in self.exercise.cases:
            if case.group != group or (self.names is not None and case.name not in self.names):
                continue
            tiles = [self.exercise.tiles(pair) for pair in case.pairs]
            plan += [(case, t, False) for t in tiles]
            if case.own and self.own_tiles and self.own_tiles not in tiles:
                plan.append((case, self.own_tiles, True))
        return plan

    def _run_group(self, plan: list[tuple[Case, dict[str, int], bool]]) -> bool:
        """True if going on makes no sense."""
        first = not self.runs
        if first:
            run = self._first(plan[0])
            self._keep(run)
            if run.result.status in HOPELESS and not self.all_cases:
                self.not_run.append(
                    f"other runs: stopped, the first one ended in {run.result.status}"
                )
                return True
        rest = self._fit(plan[1:] if first else plan)
        done: list[Run | None] = [None] * len(rest)
        stop = False
        for number, run in run_trials(self.exercise, self.answer, rest):
            done[number] = run
            self._tell(run)
            self._timeouts += run.result.status == "timeout"
            if self._timeouts >= TIMEOUTS:
                stop = True
                self.not_run.append(f"other runs: stopped after {TIMEOUTS} that took too long")
                break
        self.runs += [run for run in done if run is not None]
        return stop

    def _first(self, planned: tuple[Case, dict[str, int], bool]) -> Run:
        """The first run of a check; it also shows whether the text ignores its tile sizes."""
        case, tiles, own = planned
        [(_, run)] = run_trials(
            self.exercise, self.answer, [trials.trial(self.exercise, case, tiles, own)]
        )
        seen = run.result.observed_tiles
        self.fixed = {n: size for n, size in seen.items() if size != tiles[n]}
        if not self.fixed or self.exercise.tiles_as != "constants":
            return run
        said = ", ".join(f"{n} = {size}" for n, size in self.fixed.items())
        self.notes.append(
            f"The kernel is launched with {said}, whatever the module's constants say; "
            "the cases were sized for that."
        )
        again = trials.trial(self.exercise, case, {**tiles, **self.fixed}, own)
        [(_, run)] = run_trials(self.exercise, self.answer, [again])
        return run

    def _fit(self, plan: Sequence[tuple[Case, dict[str, int], bool]]) -> list[Trial]:
        """Trials at the tile sizes that will really be used, each once."""
        made: dict[tuple[Any, ...], Trial] = {}
        seen = {(r.trial.case.name, *r.trial.tiles.items()) for r in self.runs}
        for case, tiles, own in plan:
            tiles = {**tiles, **self.fixed}
            key = (case.name, *tiles.items())
            if key not in seen and key not in made:
                made[key] = trials.trial(self.exercise, case, tiles, own)
        return list(made.values())

    def _keep(self, run: Run) -> None:
        self.runs.append(run)
        self._timeouts += run.result.status == "timeout"
        self._tell(run)

    def _tell(self, run: Run) -> None:
        self._done = getattr(self, "_done", 0) + 1
        if self.on_run:
            self.on_run(run)
        if self.progress:
            self.progress(self._done, max(self.total, self._done), run.result.name)


def run_trials(
    exercise: Exercise, answer: Answer, many: Sequence[Trial]
) -> Iterator[tuple[int, Run]]:
    """Run a text on trials side by side; (number, run) as each ends."""
    jobs = [job(exercise, answer, trial, number) for number, trial in enumerate(many)]
    for done, reply in pool.default().run(jobs):
        number, trial = done.tag
        yield number, verdict.judge(exercise, trial, reply)


def run_texts(exercise: Exercise, wanted: Sequence[tuple[str, Trial]], filename: str) -> list[Run]:
    """Run several texts, each on a trial; runs in order."""
    jobs = [job(exercise, Answer(text, filename), t, n) for n, (text, t) in enumerate(wanted)]
    found: dict[int, Run] = {}
    for done, reply in pool.default().run(jobs):
        number, trial = done.tag
        found[number] = verdict.judge(exercise, trial, reply)
    return [found[number] for number in range(len(jobs))]


def job(
    exercise: Exercise,
    answer: Answer,
    trial: Trial,
    number: int = 0,
) -> pool.Job:
    """The request that runs ``answer`` on ``trial``, tagged (number, trial)."""
    outputs = sum(getattr(r, "nbytes", 0) for r in trial.reference.values())
    request = {
        "run": number,
        "text": answer.text,
        "filename": answer.filename,
        "function": exercise.called(trial.case),
        "harness": exercise.harness,
        "ranks": exercise.ranks,
        "torch_allowed": exercise.kind in ("torch", "python"),
        "constants": trial.tiles if exercise.tiles_as == "constants" else {},
        "arguments": {
            n: "tensor" if n in trial.sent else {"value": v} for n, v in trial.arguments.items()
        },
        "again": ["reversed"] if _has_programs(exercise) and both_orders(trial) else [],
        "device": "cpu",
        "reply_limit": 2 * outputs + (1 << 20),
    }
    return pool.Job(request, trial.sent, answer.limits, tag=(number, trial))


def _has_programs(exercise: Exercise) -> bool:
    return exercise.kind != "python" and not exercise.ranks


def both_orders(trial: Trial) -> bool:
    """Whether a trial also runs its programs in reversed order."""
    return trial.case.group in ("core", "hostile")
