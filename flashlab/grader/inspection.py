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
IN_TRITON = {"tma": "tl.make_tensor_descriptor"}
SHUNNED = {
    "half": "the compiled kernel multiplies tiles that are not FP8: both products take e4m3 "
    "numbers as they are"
}
HOPPER = 90  # the first compute capability with the instructions that exercises need
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
    detail = _unlike(exercise, rows)
    if detail and report.status == "pass":
        report.stages.append(Stage("instructions", "fail", detail))
        report.status = "contract"
        report.headline = f"{exercise.slug} does not keep to its contract: {detail}."
    elif not detail and exercise.kind == "gluon" and rows:
        report.stages.append(Stage("instructions", "pass"))
        report.notes.append(f"Compiled {len(rows)} launches for sm_90: {_found(exercise, rows)}.")


def _unlike(exercise: Exercise, rows: list[dict]) -> str:
    """What kernels hold that they should not, or lack; empty where nothing is known or wrong."""
    held = {kind for row in rows for kind, count in row["counts"].items() if count}
    shunned = [kind for kind in exercise.shuns if kind in held]
    if shunned:
        return SHUNNED[shunned[0]]
    rows = [row for row in rows if row["arch"] >= HOPPER]
    enough, names = (all, NAMES) if exercise.kind == "gluon" else (any, IN_TRITON)
    for kind in exercise.needs if rows else ():
        if not enough(row["counts"].get(kind) for row in rows):
            return f"the compiled kernel has no {kind} instruction; use {names[kind]}"
    return ""


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
