"""How far grading is: a bar with the time left, or a line now and then. Floor: front."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

LINES = 20  # of a whole run, where there is no terminal


@contextlib.contextmanager
def shown(total: int) -> Iterator[Callable[[str], None]]:
    """A function to call after each of ``total`` submissions, with its name."""
    if not total:
        yield lambda name: None
    elif sys.stdout.isatty():
        with _bar(total) as advance:
            yield advance
    else:
        yield _lines(total)


@contextlib.contextmanager
def _bar(total: int) -> Iterator[Callable[[str], None]]:
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = ("grading", BarColumn(), MofNCompleteColumn(), "left", TimeRemainingColumn())
    with Progress(*columns, "{task.description}", speed_estimate_period=600) as bar:
        task = bar.add_task("", total=total)
        yield lambda name: bar.update(task, advance=1, description=escape(name))


def _lines(total: int) -> Callable[[str], None]:
    start, done = time.monotonic(), 0
    step = max(1, total // LINES)

    def advance(name: str) -> None:
        nonlocal done
        done += 1
        if done % step == 0 or done == total:
            spent = time.monotonic() - start
            left = spent / done * (total - done)
            print(f"{done} of {total} graded, {spent:.0f} s, about {left:.0f} s left", flush=True)

    return advance
