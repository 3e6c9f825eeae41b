"""Whether Triton can compile here, and a stand-in where it has no compiled part. Floor: core.

Triton has no build for macOS. Its Python files interpret kernels anywhere, given a few functions
of the compiled part, ``triton._C.libtriton``: those are in ``iocount/_triton/libtriton.py``.
Touches that one private name of Triton's.
"""

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

NONE_HERE = (
    "no compiler here: this machine's Triton lacks its compiled part, so kernels run on the CPU "
    "alone"
)
FOLDER, PART = "triton._C", "triton._C.libtriton"
STAND_IN = Path(__file__).parent / "iocount" / "_triton" / "libtriton.py"


class _Finder:
    """Finds the stand-in where the compiled part is missing, never in place of one."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: object = None
    ) -> ModuleSpec | None:
        if name not in (PART, FOLDER):
            return None
        found = PathFinder.find_spec(name, path)
        if name == FOLDER:
            return found or ModuleSpec(name, None, is_package=True)
        if found is not None and found.loader is not None:  # else the folder of its type stubs
            return None
        return importlib.util.spec_from_file_location(
            name, STAND_IN, submodule_search_locations=[]
        )


def allow_missing() -> None:
    """From here on Triton can be imported without its compiled part. Changes nothing otherwise."""
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)


def here() -> bool:
    """True if Triton can compile on this machine."""
    part = importlib.import_module(PART)
    return part.__spec__.origin != str(STAND_IN)
