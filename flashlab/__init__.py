"""flashlab: understand FlashAttention by writing it. Floor: front.

The public names are loaded on first use, so that ``import flashlab`` stays quick and needs neither
torch nor Triton.
"""

import importlib
import os
from typing import Any

from flashlab import compiler

__version__ = "0.1.0"

compiler.allow_missing()  # before anybody imports Triton
os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")  # Triton 3.9 warns when it is unset

_HOME_OF = {
    "attention": "flashlab.routes",
    "check": "flashlab.learner",
    "hint": "flashlab.learner",
    "stub": "flashlab.learner",
    "solution": "flashlab.learner",
    "reset": "flashlab.learner",
    "progress": "flashlab.learner",
    "debug": "flashlab.learner",
    "count_io": "flashlab.iocount",
    "inspect": "flashlab.learner",
    "quiz": "flashlab.quizzes",
}

_SUBMODULES = ("kernels",)  # ``flashlab.kernels.flash_forward`` works after ``import flashlab``

__all__ = [
    "attention",
    "check",
    "count_io",
    "debug",
    "hint",
    "inspect",
    "progress",
    "quiz",
    "reset",
    "solution",
    "stub",
]


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"flashlab.{name}")
    if name in _HOME_OF:
        value = getattr(importlib.import_module(_HOME_OF[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'flashlab' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME_OF, *_SUBMODULES])
