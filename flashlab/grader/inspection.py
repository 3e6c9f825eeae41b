"""What the report says of a kernel that this machine cannot run, and of its instructions.

Floor: course.
"""

from flashlab.exercise import Exercise
from flashlab.grader.cpu import Cpu
from flashlab.grader.report import Report, Stage

MODEL = (
    "Gluon has no interpreter: on the CPU the cases ran in the course's model of one SM. "
    "It knows barriers, TMA, products and roles, in several orders; it knows no layouts, no "
    "registers and no speed."
)
NAMES = {"wgmma": "warpgroup_mma", "tma": "tma_load and tma_store", "mbarrier": "mbarrier",
         "setmaxnreg": "gl.warp_specialize"}  # fmt: skip
UNKNOWN = "unknown"  # kind of the error that a name unknown to the model raises


def tell(stage: Cpu, report: Report) -> None:
    """Say how Gluon cases ran; drop those that the model does not understand: nothing is known."""
    strange = [run for run in stage.runs if run.raw.kind == UNKNOWN]
    if not strange:
        report.notes.append(MODEL)
        return
    stage.runs, stage.not_run = [], []
    report.not_run.append(f"cases: {strange[0].result.detail}; a Hopper GPU runs them")


def inspect(exercise: Exercise, report: Report) -> None:
    """Fail a kernel that lacks an instruction it is about; say what was found of the others."""
    rows = [row for row in report.resources if row.get("ok")]
    if not exercise.needs or not rows:
        return
    lacks = [n for n in exercise.needs if not all(row["counts"].get(n) for row in rows)]
    if lacks and report.status == "pass":
        detail = f"the compiled kernel has no {lacks[0]} instruction; use {NAMES[lacks[0]]}"
        report.stages.append(Stage("instructions", "fail", detail))
        report.status = "contract"
        report.headline = f"{exercise.slug} does not keep to its contract: {detail}."
    elif not lacks:
        report.stages.append(Stage("instructions", "pass"))
        report.notes.append(f"Compiled {len(rows)} launches for sm_90: {_found(exercise, rows)}.")


def _found(exercise: Exercise, rows: list[dict]) -> str:
    """Instructions, spills, serialised products and shared memory, from the least to the most."""
    parts = [f"{name} {_span([row['counts'][name] for row in rows])}" for name in exercise.needs]
    spills = max(row["spill_bytes"] for row in rows)
    parts.append(f"{spills} B spilled" if spills else "nothing spilled")
    serial = any("serialised" in note for row in rows for note in row["notes"])
    parts.append("products serialised" if serial else "no product serialised")
    return ", ".join([*parts, f"{_span([row['shared_bytes'] >> 10 for row in rows])} KB shared"])


def _span(values: list[int]) -> str:
    low, high = min(values), max(values)
    return f"{low}" if low == high else f"{low} to {high}"
