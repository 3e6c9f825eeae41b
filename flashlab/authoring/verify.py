"""``flashlab verify``: the author's check of an exercise, and CI's. Floor: front.

The stub fails with its first step's sentence, the solution passes and compiles, every mistake
gets its status and its name, correct variants pass, no case accepts a trivial answer, hints are
complete.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from flashlab import compiler, exercises, grader, sources
from flashlab.exercise import Exercise, Mistake

NAMED_SHARE = 0.95  # of the mistakes must be named in the first sentence; none by another's name


@dataclass
class Verdict:
    """What was verified of one exercise."""

    slug: str
    tier: str
    faults: list[str] = field(default_factory=list)
    mistakes: int = 0
    named: int = 0
    not_here: int = 0  # mistakes that only a higher tier can see
    variants: int = 0
    cases: int = 0

    @property
    def line(self) -> str:
        """One line for the terminal."""
        verdict = "ok" if not self.faults else "FAILED"
        skipped = f", {self.not_here} not seen on this tier" if self.not_here else ""
        return (
            f"{verdict:6s} {self.slug:24s} {self.cases} cases, {self.mistakes} mistakes fail, "
            f"{self.named} named{skipped}, {self.variants} variants pass ({self.tier})"
        )


def main(slugs: Sequence[str] = (), tier: str | None = None) -> int:
    """Verify ``slugs`` (default: all) and print a line each and a total; returns the exit code."""
    from flashlab import device

    tier = tier or device.detect().tier
    verdicts = []
    for slug in slugs or exercises.SYLLABUS:
        verdict = verify(slug, tier)
        verdicts.append(verdict)
        print(verdict.line, flush=True)
        for fault in verdict.faults:
            print(f"       - {fault}", flush=True)
    good = sum(not v.faults for v in verdicts)
    print(
        f"{good} of {len(verdicts)} exercises verified on tier {tier}: "
        f"{sum(v.mistakes for v in verdicts)} mistakes fail, "
        f"{sum(v.named for v in verdicts)} are named"
    )
    return 0 if good == len(verdicts) else 1


def verify(slug: str, tier: str = "cpu") -> Verdict:
    """Everything that must hold of one exercise on ``tier``."""
    exercise = exercises.get(slug)
    verdict = Verdict(slug, tier, cases=len(exercise.cases))
    for part in (_stub, _solution, _mistakes, _variants, _trivial, _hints):
        part(exercise, verdict)
    return verdict


def _stub(exercise: Exercise, verdict: Verdict) -> None:
    report = grader.check(exercise.slug, sources.stub_text(exercise.slug), tier=verdict.tier)
    hole = sources.holes(sources.solution_text(exercise.slug))[0]
    if report.status != "unfilled" or hole.sentence not in report.headline:
        verdict.faults.append(f"the untouched stub gets {report.status}: {report.headline}")


def _solution(exercise: Exercise, verdict: Verdict) -> None:
    report = grader.check(
        exercise.slug, sources.solution_text(exercise.slug), tier=verdict.tier, all_cases=True
    )
    if not report.passed:
        verdict.faults.append(f"the solution gets {report.status}: {report.headline}")
    elif report.points < 100:
        parts = ", ".join(f"{k} {got:g}/{of:g}" for k, (got, of) in report.points_by_part.items())
        verdict.faults.append(f"the solution gets {report.points:g} points: {parts}")
    compiled = {row["arch"] for row in report.resources if not row.get("error")}
    if exercise.kind in ("triton", "gluon") and compiler.here():
        for arch in sorted(set(exercise.archs) - compiled):
            verdict.faults.append(f"the solution does not compile for sm_{arch}")


def _mistakes(exercise: Exercise, verdict: Verdict) -> None:
    solution = sources.solution_text(exercise.slug)
    tiers = ("cpu", "gpu", "hopper")
    misnamed = []
    names = [case.name for case in exercise.cases]  # named, they run without being compiled
    for mistake in exercise.mistakes:
        if tiers.index(mistake.tier) > tiers.index(verdict.tier):
            verdict.not_here += 1
            continue
        report = grader.check(
            exercise.slug,
            sources.mutant(solution, mistake),
            tier=verdict.tier,
            all_cases=True,
            cases=None if mistake.expect == "compile" else names,
        )
        verdict.mistakes += 1
        _mistake_fault(mistake, report, verdict)
        if mistake.says in report.headline:
            verdict.named += 1
        elif report.mistake and report.mistake["slug"] != mistake.slug:
            misnamed.append(f"{mistake.slug} is called {report.mistake['slug']}")
    verdict.faults += misnamed
    if verdict.named < NAMED_SHARE * verdict.mistakes:
        verdict.faults.append(f"only {verdict.named} of {verdict.mistakes} mistakes are named")


def _mistake_fault(mistake: Mistake, report: grader.Report, verdict: Verdict) -> None:
    failing = [c for c in report.cases if c.status != "pass"]
    # A check stops after a few cases without an end; which come first depends on the machine
    stopped = mistake.expect == "timeout" and mistake.breaks not in {c.name for c in report.cases}
    if report.passed:
        verdict.faults.append(f"mistake {mistake.slug} passes")
    elif report.status != mistake.expect:
        verdict.faults.append(f"mistake {mistake.slug} gets {report.status}, not {mistake.expect}")
    elif report.cases and not stopped and mistake.breaks not in {c.name for c in failing}:
        broken = ", ".join(sorted({c.name for c in failing}))
        verdict.faults.append(f"mistake {mistake.slug} breaks {broken}, not {mistake.breaks}")


def variants(slug: str) -> Iterable[tuple[str, str]]:
    """Correct kernels in other styles, (name, text); kept with the tests, none in a wheel."""
    folder = sources.course_dir() / "tests" / "variants" / slug
    return [(p.stem, p.read_text(encoding="utf-8")) for p in sorted(folder.glob("*.py"))]


def _variants(exercise: Exercise, verdict: Verdict) -> None:
    for name, text in variants(exercise.slug):
        report = grader.check(exercise.slug, text, tier=verdict.tier, all_cases=True)
        if report.passed:
            verdict.variants += 1
        else:
            verdict.faults.append(f"variant {name} gets {report.status}: {report.headline}")


def _trivial(exercise: Exercise, verdict: Verdict) -> None:
    for case, answer, ratio in grader.trivial_answers(exercise):
        if ratio < 10:
            verdict.faults.append(
                f"case {case} accepts {answer}: its error is {ratio:.1f} x the limit, 10 wanted"
            )


def _hints(exercise: Exercise, verdict: Verdict) -> None:
    if not 3 <= len(exercise.hints) <= 4 or not all(h.strip() for h in exercise.hints):
        verdict.faults.append(f"{len(exercise.hints)} hints, 3 or 4 are wanted, none empty")
    holes = sources.holes(sources.solution_text(exercise.slug))
    if len(exercise.steps) != len(holes):
        verdict.faults.append(f"{len(exercise.steps)} step headings for {len(holes)} holes")
