"""`count_io`: the context in which kernels run on the CPU and are counted."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from torch import Tensor

from flashlab.iocount._triton.activate import activate
from flashlab.iocount.recorder import Recorder
from flashlab.iocount.tally import Tally

_active: list[Recorder] = []


@contextmanager
def count_io(
    outputs: Sequence[str | Tensor] = (),
    strict: bool = True,
    order: str | int = "forward",
    races: bool = True,
    poison: bool = True,
    sram_bytes: int | None = None,
    tf32: bool = False,
    sparse: bool | None = None,
    sectors: bool = False,
    on_launch: Callable[..., None] | None = None,
) -> Iterator[Tally]:
    """Run Triton kernels on the CPU and count every byte that they move.

    Inside, ``kernel[grid](...)`` of a plain ``@triton.jit`` kernel is interpreted, whatever device
    its tensors are on. Within another ``count_io`` it changes nothing and yields the outer tally.

    Args:
        outputs: Tensors, or names of kernel arguments, that start unwritten: reading them first
            is an error, and `Tally.unwritten` tells what was never stored.
        strict: Raise at the first fault; False: keep all but addresses out of bounds in
            `Tally.findings`.
        order: ``"forward"``, ``"reversed"`` or a seed: the order in which programs run.
        races: Look for races between programs.
        poison: Fill masked-off lanes of a load without ``other`` with NaN (integers: 127) and
            report where they are used; False: fill them with 0.
        sram_bytes: On-chip memory that live tiles are compared with in the report.
        tf32: Drop the last 13 bits of fp32 operands of `tl.dot`, as a tensor core does.
        sparse: Force shadow memory in pages (True) or dense (False); None decides by size.
        sectors: Count the 32-byte sectors that each instruction touches too, for
            `Tally.sector_bytes`; slower.
        on_launch: Called as ``on_launch(jit_function, grid, arguments, options)`` before each
            launch, with the arguments by name, constexprs included.
    Yields:
        The `Tally`; complete when the block ends.
    Raises:
        KernelError: From a launch, of the class that says what went wrong.
        ValueError: ``order`` is none of the above, or no kernel has an argument of ``outputs``.
    """
    if order not in ("forward", "reversed") and not isinstance(order, int):
        raise ValueError(f"order must be 'forward', 'reversed' or an integer seed, not {order!r}")
    if _active:
        yield _active[-1].tally
        return
    tally = Tally(sram_bytes)
    recorder = Recorder(
        tally,
        outputs=tuple(outputs),
        strict=strict,
        races=races,
        poison=poison,
        sparse=sparse,
        sectors=sectors,
    )
    tally.recorder = recorder
    _active.append(recorder)
    try:
        with activate(recorder, order=order, tf32=tf32, on_launch=on_launch):
            yield tally
        if tally.launches:
            recorder.tensors.check_names()
    finally:
        _active.pop()


def expect_output(tensor: Tensor, name: str | None = None) -> None:
    """Declare ``tensor`` an output of the active recording; without one, do nothing."""
    if _active:
        _active[-1].expect_output(tensor, name)


def active() -> Tally | None:
    """The tally of the recording that runs, or None."""
    return _active[-1].tally if _active else None
