"""How ``@triton.jit`` decorates while a text loads: always for the compiler."""

import contextlib
from collections.abc import Iterator

import triton


@contextlib.contextmanager
def compilable_kernels() -> Iterator[None]:
    """Kernels that are decorated here can be compiled, even where TRITON_INTERPRET is set.

    The recorder interprets them all the same. The knob's scope restores what was set before.
    """
    with triton.knobs.runtime.scope():
        triton.knobs.runtime.interpret = False
        yield
