"""``python -m flashlab.website``: build the site; ``make site`` runs it."""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from flashlab import sources


def main(arguments: Sequence[str] | None = None) -> int:
    """Execute what changed, write the pages, render them. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m flashlab.website", description=__doc__)
    parser.add_argument("--out", type=Path, help="default: build/site")
    parser.add_argument("--only", nargs="*", help="chapters to execute, such as 03; for tests")
    parser.add_argument("--jobs", type=int, default=2, help="chapters at a time")
    options = parser.parse_args(arguments)
    try:
        from flashlab.website import execute, pages, render
    except ImportError as error:
        print(f"flashlab: {error.name} is missing: run `make site`", file=sys.stderr)
        return 2
    out = options.out or sources.course_dir() / "build" / "site"
    started = time.monotonic()
    chapters = execute.chapters(options.only)
    try:
        executed = execute.run_all(chapters, out / "executed", options.jobs, say)
    except RuntimeError as error:
        print(f"flashlab: {error}", file=sys.stderr)
        return 1
    source = out / "source"
    pages.write(source, executed, execute.tables(out / "executed", say))
    say("rendering")
    problems = render.html(source, out / "html", out / "doctrees")
    for problem in problems:
        print(f"flashlab: {problem}", file=sys.stderr)
    if problems:
        return 1
    say(f"the site is {out / 'html' / 'index.html'} ({time.monotonic() - started:.0f} s)")
    return 0


def say(text: str) -> None:
    """One line of progress."""
    print(f"flashlab: {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
