"""``flashlab bench grading``: how long a learner waits for a verdict, by exercise.

The server is warm: one check of the smallest exercise runs first. Figures are wall seconds on this
machine, and the number of its cores is printed with them.
"""

import os
import time

from flashlab import exercises, grader, sources

FIRST_LIMIT_S, WHOLE_LIMIT_S = 3.0, 20.0  # what the course promises, on two cores without a GPU


def measure(slug: str) -> tuple[float, float, int]:
    """Seconds to the first case's verdict and to the whole report, and how many runs it had."""
    start, first = time.monotonic(), []

    def progress(done: int, total: int, text: str) -> None:
        if done and not first:
            first.append(time.monotonic() - start)

    report = grader.check(slug, sources.solution_text(slug), progress=progress)
    whole = time.monotonic() - start
    return first[0] if first else whole, whole, len(report.cases)


def main() -> int:
    """Print one line an exercise; exit code 1 if a promise is not kept."""
    grader.check("vector_scale", sources.solution_text("vector_scale"))
    print(f"{os.cpu_count()} cores; seconds: first verdict (warm), whole check of the solution")
    kept = True
    for slug in exercises.SYLLABUS:
        first, whole, runs = measure(slug)
        late = first > FIRST_LIMIT_S or whole > WHOLE_LIMIT_S
        kept = kept and not late
        print(f"{slug:22s} {first:6.1f} {whole:6.1f}  {runs:3d} runs{'  LATE' if late else ''}")
    return 0 if kept else 1
