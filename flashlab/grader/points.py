"""Points of a check, part by part (design: section 4). Floor: course."""

from collections.abc import Mapping, Sequence

from flashlab import compiler
from flashlab.exercise import Exercise
from flashlab.grader.report import CaseResult, Report
from flashlab.grader.trials import Run

HALF_UP_TO = 1.25  # times the budget
NO_POINTS = ("unfilled", "contract", "forbidden", "compile", "grader_error")


def award(exercise: Exercise, report: Report, runs: Sequence[Run], barred: bool = False) -> None:
    """Fill ``points`` and ``points_by_part``; IO and resources count only if core passes.

    A text that is ``barred`` gets none: what was counted beside it may be its own doing.
    """
    of = exercise.points(compiled=compiler.here())
    got = dict.fromkeys(of, 0.0)
    if report.status not in NO_POINTS and not barred:
        got["core"] = of["core"] * _share(exercise, report.cases, core=True)
        core = got["core"] == of["core"]
        if core and "edges" in of:
            got["edges"] = of["edges"] * _share(exercise, report.cases, core=False)
        if core and "io" in of:
            got["io"] = of["io"] * io_share(exercise, report, runs)
        if core and "resources" in of:
            got["resources"] = of["resources"] * _resources(exercise, report)
    report.points_by_part = {part: [round(got[part], 1), of[part]] for part in of}
    report.points = round(sum(got.values()), 1)


def _share(exercise: Exercise, results: Sequence[CaseResult], core: bool) -> float:
    """Share of the cases of a part whose every run passed; precision counts half."""
    names = [c.name for c in exercise.cases if (c.group == "core") == core]
    worth = {"pass": 1.0, "precision": 0.5}
    total = 0.0
    for name in names:
        mine = [r for r in results if r.name.split(" ")[0] == name]
        total += min((worth.get(r.status, 0.0) for r in mine), default=0.0)
    return total / len(names) if names else 1.0


def io_share(exercise: Exercise, report: Report, runs: Sequence[Run]) -> float:
    """1 within the budget, a half up to 1.25 of it, else 0 with a note that names the tensor."""
    worst = 0.0
    said = ""
    for run in runs:
        result = run.result
        tiles = {**run.trial.tiles, **result.observed_tiles}
        itemsize = next(iter(run.trial.sent.values())).element_size()
        budget = exercise.budget(run.trial.sizes, tiles, itemsize)
        result.budget = {name: list(pair) for name, pair in budget.items()}
        if result.status != "pass":
            continue
        allowed = sum(map(sum, budget.values()))
        moved = sum(map(sum, result.io.values()))
        ratio = moved / allowed if allowed else float(moved > 0) * 2
        if ratio > worst:
            worst, said = ratio, _excess(exercise, run, budget, ratio)
    if worst <= 1:
        return 1.0
    report.notes.append(said)
    return 0.5 if worst <= HALF_UP_TO else 0.0


def _excess(
    exercise: Exercise, run: Run, budget: Mapping[str, tuple[int, int]], ratio: float
) -> str:
    """Which tensor moves most above its budget, and on which line, in one sentence."""
    result = run.result
    over = {name: sum(moved) - sum(budget.get(name, (0, 0))) for name, moved in result.io.items()}
    name = max(over, key=over.__getitem__)
    allowed, moved = sum(budget.get(name, (0, 0))), sum(result.io[name])
    return (
        f"Case {result.name} moves {ratio:.2f} times the bytes of its budget: "
        f"{name} {moved:,} bytes, budget {allowed:,}{_busiest(exercise, run, name)}."
    )


def _busiest(exercise: Exercise, run: Run, tensor: str) -> str:
    """The line that moves most of a tensor's bytes."""
    names = {f"#{i}": output.name for i, output in enumerate(exercise.returns(run.trial.case))}
    lines = (run.reply.header or {}).get("lines") or []
    mine = [(moved, line) for line, name, moved in lines if names.get(name, name) == tensor]
    return f"; most of it on line {max(mine)[1]}" if mine else ""


def _resources(exercise: Exercise, report: Report) -> float:
    """1 if every target compiles, fits and spills nothing; each that does not costs its share.

    Where instructions are asked for, products that wait for each other cost it too.
    """
    rows = report.resources
    slow = "notes" if exercise.kind == "gluon" else "spill_bytes"
    good = sum(bool(row.get("ok")) and not row.get(slow) for row in rows)
    return good / len(rows) if rows else 0.0
