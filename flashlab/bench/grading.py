"""``flashlab bench grading``: how long a learner waits for a verdict, and what it costs.

The server is warm: one check of the smallest exercise runs first. Seconds are those of the wall;
core-seconds count the processor time of this process and of all below it, whoever used it: for a
check of the solution, and for one of a wrong kernel with its diagnosis.
"""

import os
import time
from pathlib import Path

from flashlab import exercises, grader, sources
from flashlab.exercise import Exercise

# What the course promises, on two cores without a GPU
FIRST_LIMIT_S, WHOLE_LIMIT_S = 3.0, 20.0
RIGHT_LIMIT_CORE_S, WRONG_LIMIT_CORE_S = 12.0, 20.0


def measure(slug: str, text: str) -> tuple[float, float, float, grader.Report]:
    """Seconds to the first case's verdict and to the report, core-seconds, and the report."""
    start, used, first = time.monotonic(), core_seconds(), []

    def progress(done: int, total: int, text: str) -> None:
        if done and not first:
            first.append(time.monotonic() - start)

    report = grader.check(slug, text, progress=progress)
    whole = time.monotonic() - start
    return first[0] if first else whole, whole, core_seconds() - used, report


def core_seconds() -> float:
    """Processor time of this process, of those below it, and of those that they waited for."""
    return time.process_time() + sum(map(_used, _below(os.getpid())))


def _used(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:  # it just ended; whoever started it counts it
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")  # own and waited for


def _below(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    except OSError:
        return found
    return found + [lower for child in found for lower in _below(child)]


def wrong(exercise: Exercise) -> str:
    """The solution with the first mistake that gives wrong numbers in a core case."""
    core = {case.name for case in exercise.cases if case.group == "core"}
    fits = [m for m in exercise.mistakes if m.breaks in core and m.expect == "wrong"]
    return sources.mutant(sources.solution_text(exercise.slug), (fits or exercise.mistakes)[0])


def main() -> int:
    """Print one line an exercise; exit code 1 if a promise is not kept."""
    grader.check("vector_scale", sources.solution_text("vector_scale"))
    print(
        f"{os.cpu_count()} cores; seconds to the first verdict (warm) and to the whole report of"
    )
    print("the solution; core-seconds of that check, and of a wrong kernel's with its diagnosis")
    kept = True
    for slug in exercises.SYLLABUS:
        first, whole, right, report = measure(slug, sources.solution_text(slug))
        *_, cost, failed = measure(slug, wrong(exercises.get(slug)))
        late = first > FIRST_LIMIT_S or whole > WHOLE_LIMIT_S
        late = late or right > RIGHT_LIMIT_CORE_S or cost > WRONG_LIMIT_CORE_S
        kept = kept and not late
        named = "named" if failed.mistake else "not named"
        print(
            f"{slug:22s} {first:6.1f} {whole:6.1f}  {len(report.cases):3d} runs"
            f"{right:7.1f} {cost:6.1f} core-s ({named}){'  LATE' if late else ''}",
            flush=True,
        )
    return 0 if kept else 1
