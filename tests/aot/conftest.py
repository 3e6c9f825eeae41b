"""What the tests of the offline compiler share: a kernel's text and rows for it."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch

from flashlab import aot
from flashlab.loading import load_module

KERNELS = Path(__file__).parent / "kernels"


@pytest.fixture
def flash_text() -> str:
    """Text of kernels/flash.py."""
    return (KERNELS / "flash.py").read_text()


@pytest.fixture
def launches(flash_text: str) -> list[aot.Launch]:
    """One launch of the flash kernel on a [64, 64] fp16 tensor."""
    module = load_module(flash_text, "flash.py")
    return aot.capture(lambda: module.flash(torch.empty(64, 64, dtype=torch.float16)))


@pytest.fixture
def rows(flash_text: str) -> Callable[..., list[aot.Compiled]]:
    """Compiled rows of the flash kernel at sizes, targets and module settings (``WARPS=8``)."""

    def compile_flash(n=1024, d=64, archs: Sequence[int] = (80,), text="", options=(), **settings):
        q = torch.empty(n, d, dtype=torch.float16)

        def call(module):
            vars(module).update(settings)
            module.flash(q, **dict(options))

        return aot.inspect(text or flash_text, "flash.py", call, archs)

    return compile_flash
