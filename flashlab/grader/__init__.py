"""Grades an answer: isolated runs, verdicts, diagnosis, a report as data. Floor: course.

Importing this package imports nothing: workers import their own files from it.
"""

import importlib
from typing import Any

_PUBLIC = {
    "check": "run",
    "warm": "run",
    "debug": "inprocess",
    "compile_for": "offline",
    "trivial_answers": "trivial",
    "Limits": "pool",
    "Report": "report",
}
__all__ = list(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_PUBLIC[name]}"), name)
