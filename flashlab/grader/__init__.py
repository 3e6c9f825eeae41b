"""Grades an answer: isolated runs, verdicts, diagnosis, a report as data. Floor: course.

Importing this package imports nothing: workers import their own files from it.
"""

from typing import Any

__all__ = ["check"]


def __getattr__(name: str) -> Any:
    if name == "check":
        from flashlab.grader.run import check

        return check
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
