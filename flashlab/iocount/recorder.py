"""The running count: binds tensors, follows programs and loops, checks and counts accesses.

Knows numpy arrays of virtual addresses, not Triton; `_triton/` feeds it.
"""

import itertools
import sys
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
from torch import Tensor

from flashlab.iocount import checks
from flashlab.iocount.argument import WINDOW_BITS, Argument
from flashlab.iocount.errors import KernelError, OutOfBounds
from flashlab.iocount.liveness import Liveness
from flashlab.iocount.registry import Registry
from flashlab.iocount.shadow import Key
from flashlab.iocount.steps import Launch
from flashlab.iocount.tally import Tally

_ARANGE = np.arange(1 << 14)
_MAX_STEPS = 200_000


class Recorder:
    """One active recording. Options as `count_io` documents them."""

    def __init__(
        self,
        tally: Tally,
        *,
        outputs: tuple[Any, ...] = (),
        strict: bool = True,
        races: bool = True,
        poison: bool = True,
        sparse: bool | None = None,
        sectors: bool = False,
    ) -> None:
        self.tally = tally
        self.strict, self.races, self.poison, self.sectors = strict, races, poison, sectors
        self.tensors = Registry(tally, {o for o in outputs if isinstance(o, str)}, sparse)
        self.files: set[str] = set()  # files whose frames are kernel code
        self.arguments: list[Argument | None] = [None]
        self.pids: list[tuple[int, int, int]] = [(0, 0, 0)]
        self.pid, self.label = (0, 0, 0), 0
        self.flops: dict[Any, int] = defaultdict(int)  # counters of the current step
        self.live: Liveness | None = None
        self.tainted = False  # did this program load without `other`
        self.has_other = False  # was the load under way given one
        self.large = False  # may an offset of this launch pass 2^31
        self.kernel, self.running = "", False
        self._loops: list[tuple[int, int]] = []
        for tensor in outputs:
            if not isinstance(tensor, str):
                self.expect_output(tensor)

    def expect_output(self, tensor: Tensor, name: str | None = None) -> None:
        """Declare ``tensor`` an output: reading it unwritten is an error, a gap is told."""
        self.tensors.expect_output(tensor, name)

    def bind(self, tensors: list[tuple[str, Tensor, Tensor]]) -> list[Argument]:
        """The (name, tensor, host tensor) of a launch as arguments with windows."""
        arguments = self.tensors.bind(tensors)
        self.arguments = [None, *arguments]
        self.large = any(a.elements > 1 << 31 for a in arguments)
        return arguments

    # ---- launches, programs, loops
    def start_launch(self, kernel: str, grid: tuple[int, int, int]) -> None:
        """A kernel starts."""
        self.kernel, self.running = kernel, True
        self.tally.launches.append(Launch(kernel, grid))
        self.tally.changed()
        self.pids = [(0, 0, 0)]

    def end_launch(self) -> None:
        """A kernel ended, well or not."""
        self.running = False
        self.arguments = [None]
        self.flops = defaultdict(int)
        self.live, self.tainted = None, False
        self.tensors.sweep()
        self.tally.changed()

    def start_program(self, pid: tuple[int, int, int]) -> None:
        """The next program runs."""
        self._end_liveness()
        self.pid = pid
        self.pids.append(pid)
        self.label = len(self.pids) - 1
        self.tainted = False
        self._loops = []
        self.live = Liveness() if pid == (0, 0, 0) else None
        self._enter_step()

    def end_programs(self) -> None:
        """All programs of the launch ran."""
        self._end_liveness()

    def _end_liveness(self) -> None:
        if self.live is not None:
            peak, where = self.live.peak()
            if peak > self.tally.peak_tile_bytes:
                self.tally.peak_tile_bytes, self.tally.peak_tile_line = peak, where
            self.live = None

    def _enter_step(self) -> None:
        steps = self.tally.steps_raw
        key = (len(self.tally.launches) - 1, self.pid, tuple(self._loops))
        counters = steps.get(key)
        if counters is None:
            if len(steps) >= _MAX_STEPS:
                key = (key[0], self.pid, ())
                counters = steps.get(key)
            if counters is None:
                counters = steps[key] = defaultdict(int)
        self.flops = counters

    def loop(self, iterable: Any, line: int) -> Iterator[Any]:
        """Iterate as a kernel's loop at ``line`` (None: for ever); each pass is a step."""
        loops, depth = self._loops, len(self._loops)
        loops.append((line, 0))
        try:
            for number, item in enumerate(itertools.repeat(0) if iterable is None else iterable):
                del loops[depth:]
                loops.append((line, number))
                self._enter_step()
                yield item
        finally:
            if loops is self._loops:  # else the program ended in an error, and another one runs
                del loops[depth:]
                self._enter_step()

    # ---- where are we
    def where(self, frame: Any = None) -> tuple[str, int]:
        """(file, line) of the innermost frame that is kernel code."""
        frame = frame or sys._getframe(1)
        files = self.files
        while frame is not None:
            name = frame.f_code.co_filename
            if name in files:
                return name, frame.f_lineno
            frame = frame.f_back
        return "?", 0

    def source(self, where: tuple[str, int]) -> str:
        """The text of a kernel's line, as it was when the kernel was made."""
        return self.tally.sources.get(where, "")

    def error(
        self, cls: type[KernelError], what: str, hint: str = "", where=None, **known
    ) -> KernelError:
        """An error of the running program at ``where`` (default: the line that runs)."""
        file, line = where or self.where()
        known.setdefault("program", self.pid)
        return cls(
            what,
            hint,
            filename=file,
            line=line,
            source=self.source((file, line)) or None,
            kernel=self.kernel,
            **known,
        )

    def report(self, error: KernelError) -> None:
        """Raise it when strict, else keep the first of its kind, argument and line."""
        if self.strict or isinstance(error, OutOfBounds):
            raise error from None
        key = (error.kind, error.argument, error.filename, error.line)
        if all(key != (e.kind, e.argument, e.filename, e.line) for e in self.tally.findings):
            self.tally.findings.append(error)

    # ---- memory
    def access(
        self, kind: str, pointers: np.ndarray, mask: np.ndarray, item: int
    ) -> tuple[Argument | None, Key, bool]:
        """Check and count one load, store or atomic.

        Args:
            kind: ``"load"``, ``"store"`` or ``"atomic"``.
            pointers, mask: Virtual addresses and active lanes, of one shape.
            item: Bytes per lane.
        Returns:
            (argument, elements, full): ``elements`` are the active lanes' indices in units of
            ``item`` bytes from the argument's first element, in lane order, a slice where they
            are one run; ``full`` when no lane is masked off. The argument is None when no lane is
            active.
        """
        full = bool(mask.all())
        active = pointers.ravel() if full else pointers[mask]
        where = self.where(sys._getframe(1))
        first = active if active.size else pointers.ravel()
        number = int(first[0] >> np.uint64(WINDOW_BITS)) if first.size else 0
        if not 0 < number < len(self.arguments):
            if active.size == 0:
                return None, slice(0, 0), full
            raise self.error(
                OutOfBounds,
                f"tl.{kind}: address {int(first[0]):#x} does not come from a tensor argument",
                "Was an integer used as a pointer?",
                where,
            )
        arg = self.arguments[number]
        counters = self.flops
        if not full:
            counters["masked", kind, arg.name, *where] += (mask.size - active.size) * item
        if active.size == 0:
            return None, slice(0, 0), full
        counters[kind, arg.name, *where] += active.size * item
        arg.touch.bytes[kind] += active.size * item
        if self.sectors:
            touched = np.unique((active + arg.delta) >> np.uint64(5)).size
            counters["sectors", kind, arg.name, *where] += 32 * touched
        offset = (active - arg.virtual).view(np.int64)
        low, high = int(offset.min()), int(offset.max())
        if low < 0 or high + item > arg.span:
            raise checks.out_of_bounds(self, kind, arg, offset, item, pointers.shape, mask, where)
        elements = _run(offset, low, high, item)
        own = elements if item == arg.item else checks.own_elements(elements, item, arg.item)
        bad = arg.in_hole(own)
        if bad is not None:
            raise checks.in_padding(self, kind, arg, own, bad, where)
        arg.touch.add(kind, own)
        checks.shadow(self, kind, arg, own, where)
        return arg, elements, full


def _run(offset: np.ndarray, low: int, high: int, item: int) -> Key:
    """Byte offsets -> element indices, as a slice when they are consecutive."""
    n = offset.size
    if high - low == (n - 1) * item and offset[0] == low and offset[-1] == high:
        first = low // item
        if low == first * item and n <= _ARANGE.size:
            elements = offset // item - first if item > 1 else offset - first
            if (elements == _ARANGE[:n]).all():
                return slice(first, first + n)
            return elements + first
    if item == 1:
        return offset
    return offset >> (item.bit_length() - 1)
