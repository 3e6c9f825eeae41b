"""A text as a fresh module, without a file, bytecode or reload. Floor: core.

Whose text it is and when it is loaded is decided by kernels.py and the grader.
"""

import hashlib
import linecache
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

import triton

from flashlab.iocount._triton.decorate import compilable_kernels


def load_module(text: str, filename: str) -> ModuleType:
    """``text`` compiled into a fresh module; tracebacks and ``inspect`` show ``filename``.

    No file is read and no bytecode kept. The newest module of a file name stands in
    ``sys.modules`` under a name of its own, where dataclasses, inspect and Triton look for it.

    Raises:
        SyntaxError: ``text`` is not Python.
        Exception: whatever its top level raises.
    """
    digest = hashlib.sha256(filename.encode()).hexdigest()[:8]
    module = ModuleType(f"flashlab_answer_{Path(filename).stem}_{digest}")
    module.__file__ = filename
    lines = text.splitlines(keepends=True)
    linecache.cache[filename] = (len(text), None, lines, filename)  # None: never read from disk
    code = compile(text, filename, "exec", dont_inherit=True)
    before = sys.modules.get(module.__name__)
    sys.modules[module.__name__] = module
    try:
        with compilable_kernels():
            exec(code, module.__dict__)
    except BaseException:
        sys.modules[module.__name__] = before or module
        raise
    return module


def fault(error: BaseException, filename: str) -> tuple[int | None, str]:
    """Line of ``filename`` that made it fail to load (None: unknown), and what is wrong there."""
    if isinstance(error, SyntaxError) and error.filename == filename:
        line, problem = error.lineno, error.msg
    else:
        frames = traceback.extract_tb(error.__traceback__)
        line = next((f.lineno for f in reversed(frames) if f.filename == filename), None)
        problem = f"{type(error).__name__}: {error}"
    source = linecache.getline(filename, line).strip() if line else ""
    return line, f"{problem} (`{source}`)" if source else problem


def jit_function(kernel: Any) -> Any:
    """The function below ``@triton.autotune`` and ``@triton.heuristics``."""
    while not isinstance(kernel, triton.JITFunction) and hasattr(kernel, "fn"):
        kernel = kernel.fn
    return kernel


def kernels_of(module: ModuleType) -> dict[str, Any]:
    """The kernels that a module defines itself, by name; imported ones are left out."""
    return {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, triton.KernelInterface)
        and getattr(jit_function(value), "__module__", None) == module.__name__
    }
