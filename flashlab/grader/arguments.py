"""What a launch hands to a kernel: tensors and plain values, or Python that no GPU runs.

Runs beside learners' code: imports torch and Triton alone.
"""

from typing import Any

import torch
import triton
import triton.language as tl

PLAIN = (int, float, str, tuple)  # with names for their values, as in an enumeration


def is_python(value: Any, module: str, filename: str) -> bool:
    """Whether an argument brings Python along: a function, or a class with methods of its own.

    Args:
        value: The argument.
        module, filename: Of the answer.
    """
    if isinstance(value, tuple) and any(is_python(item, module, filename) for item in value):
        return True
    if isinstance(value, tl.constexpr):
        return type(value) is not tl.constexpr or is_python(value.value, module, filename)
    if isinstance(value, torch.Tensor | triton.JITFunction):
        return False
    if callable(value):
        return not hasattr(value, "__triton_builtin__")
    own = [cls for cls in type(value).__mro__ if cls.__module__ == module]
    parts = [item for cls in own for item in vars(cls).items()]
    methods = [name for name, part in parts if callable(part) and not name.startswith("_")]
    methods += [name for name, part in parts if _file(part) == filename]
    return bool(methods or (own and not isinstance(value, PLAIN)))


def _file(part: Any) -> str:
    part = getattr(part, "fget", getattr(part, "__func__", part))
    return getattr(getattr(part, "__code__", None), "co_filename", "")
