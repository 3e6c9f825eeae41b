"""What a recording counted, as numbers: bytes by tensor, program, line and step; FLOPs; tiles."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor

from flashlab.iocount.errors import KernelError, UnwrittenOutput
from flashlab.iocount.heat import Touch, span_elements
from flashlab.iocount.report import Bound, Report
from flashlab.iocount.steps import KINDS, Launch, Program, Step, flops_of, row_of, spread
from flashlab.iocount.storage import Output


class Tally:
    """The result of `count_io`. Complete when no launch runs.

    Attributes:
        launches: Every `Launch`, in order.
        findings: Errors that ``strict=False`` let pass.
        peak_tile_bytes: Most bytes of float tiles that program (0, 0, 0) of a launch held at once.
        peak_tile_line: (file, line) of the tile that made it so.
        sram_bytes: On-chip memory to compare it with, or None.
    """

    def __init__(self, sram_bytes: int | None = None) -> None:
        self.sram_bytes = sram_bytes
        self.launches: list[Launch] = []
        self.findings: list[KernelError] = []
        self.peak_tile_bytes = 0
        self.peak_tile_line: tuple[str, int] | None = None
        self.steps_raw: dict[tuple, dict[Any, int]] = {}
        self.touches: list[Touch] = []
        self.outputs: list[Output] = []
        self.sources: dict[tuple[str, int], str] = {}
        self._totals: Counter | None = None
        self.recorder: Any = None

    def changed(self) -> None:
        """Forget sums that were made before."""
        self._totals = None

    # ---- sums
    def _sums(self) -> Counter:
        total = self._totals
        if total is None or self.recorder is not None and self.recorder.running:
            total = Counter()
            for counters in self.steps_raw.values():
                for key, n in counters.items():
                    total[key] += n
            self._totals = total
        return total

    @property
    def traffic(self) -> dict[str, dict[str, int]]:
        """Argument -> {"load", "store", "atomic": bytes moved; "asked_load", ...: all lanes}."""
        out: dict[str, dict[str, int]] = {}
        for key, n in self._sums().items():
            if type(key) is tuple and key[0] != "sectors":
                masked = key[0] == "masked"
                kind, name = key[1:3] if masked else key[:2]
                row = out.setdefault(name, {f"{a}{k}": 0 for a in ("", "asked_") for k in KINDS})
                row[f"asked_{kind}"] += n
                row[kind] += 0 if masked else n
        return out

    def load_bytes(self, arg: str | None = None) -> int:
        """Bytes loaded from one argument, or from all."""
        return self._moved("load", arg)

    def store_bytes(self, arg: str | None = None) -> int:
        """Bytes stored to one argument, or to all; atomic updates are counted apart."""
        return self._moved("store", arg)

    def atomic_bytes(self, arg: str | None = None) -> int:
        """Bytes updated atomically in one argument, or in all."""
        return self._moved("atomic", arg)

    def sector_bytes(self, arg: str | None = None) -> int:
        """Bytes of the 32-byte sectors that each instruction touches, with ``sectors=True``."""
        return sum(
            n
            for key, n in self._sums().items()
            if key[0] == "sectors" and arg in (None, key[2]) and type(key) is tuple
        )

    def _moved(self, kind: str, arg: str | None) -> int:
        return sum(row[kind] for name, row in self.traffic.items() if arg in (None, name))

    @property
    def bytes(self) -> int:
        """All bytes moved: loads, stores and atomic updates."""
        return sum(self._moved(kind, None) for kind in KINDS)

    @property
    def unique_bytes(self) -> dict[str, dict[str, int]]:
        """Argument -> {"load", "store": bytes of distinct elements}; atomics are stores."""
        out: dict[str, dict[str, int]] = defaultdict(lambda: {"load": 0, "store": 0})
        for touch in self.touches:
            for kind in ("load", "store"):
                out[touch.name][kind] += touch.unique_bytes(kind)
        return dict(out)

    @property
    def operations(self) -> dict[str, int]:
        """Elements computed by kind: matmul and exp as in `flops`, elementwise, divide, reduce,
        special (log, sqrt, sin, ...), and outside `flops`: compare, convert, integer."""
        return {key: n for key, n in self._sums().items() if type(key) is str}

    @property
    def flops(self) -> dict[str, int]:
        """{"matmul": 2 a multiply-add, "exp": exponentials, "other": float operations besides}."""
        return flops_of(self._sums())

    @property
    def intensity(self) -> float:
        """FLOPs per byte moved."""
        return sum(self.flops.values()) / max(1, self.bytes)

    # ---- finer views
    @property
    def per_step(self) -> list[Step]:
        """Every step that moved a byte or computed something, in the order in which they began."""
        out = []
        for (launch, program, loops), counters in self.steps_raw.items():
            step = Step(launch, program, loops, flops=flops_of(counters))
            spread(step.__dict__, counters)
            if step.load or step.store or step.atomic or any(step.flops.values()):
                out.append(step)
        return out

    @property
    def per_loop(self) -> dict[int, dict[str, int]]:
        """Source line of a loop -> {"passes": how often its body ran, all programs together, and
        the `operations` of its body by kind; what a loop inside it does is that loop's own}."""
        out: dict[int, Counter] = {}
        for (_, _, loops), counters in self.steps_raw.items():
            if loops:
                row = out.setdefault(loops[-1][0], Counter())
                row["passes"] += 1
                row.update({kind: n for kind, n in counters.items() if type(kind) is str})
        return {line: dict(row) for line, row in sorted(out.items())}

    @property
    def per_program(self) -> dict[Program, dict[str, dict[str, int]]]:
        """Program -> {"load", "store", "atomic": {argument: bytes}, "flops"}, of all launches."""
        sums: dict[Program, Counter] = {}
        for (_, program, _), counters in self.steps_raw.items():
            sums.setdefault(program, Counter()).update(counters)
        return {program: row_of(counters) for program, counters in sums.items()}

    @property
    def per_line(self) -> dict[tuple[str, int], dict[str, Any]]:
        """(file, line) -> {"load", "store", "atomic": {argument: bytes}, "source"}."""
        lines: dict[tuple[str, int], dict[str, Any]] = {}
        for key, n in self._sums().items():
            if type(key) is tuple and key[0] in KINDS:
                kind, name, *where = key
                row = lines.setdefault(tuple(where), {k: {} for k in KINDS})
                row[kind][name] = row[kind].get(name, 0) + n
        for where, row in lines.items():
            row["source"] = self.sources.get(where, "").strip()
        return dict(sorted(lines.items()))

    def by_tensor(self, tensors: Mapping[str, Tensor]) -> dict[str, tuple[int, int]]:
        """Bytes (loaded, stored) of each of ``tensors``, by memory, and of "scratch", the rest.

        Atomic updates count as stored. Views of one storage are told apart by their first element,
        else by which of them holds it.
        """
        return {
            name: (
                sum(t.bytes["load"] for t in touches),
                sum(t.bytes["store"] + t.bytes["atomic"] for t in touches),
            )
            for name, touches in self.touches_by_tensor(tensors).items()
        }

    def touches_by_tensor(self, tensors: Mapping[str, Tensor]) -> dict[str, list[Touch]]:
        """The counts of each of ``tensors``, and of "scratch" where something was moved."""
        out: dict[str, list[Touch]] = {name: [] for name in tensors}
        for touch in self.touches:
            name = _owner(touch, tensors)
            if name is not None or any(touch.bytes.values()):
                out.setdefault("scratch" if name is None else name, []).append(touch)
        return out

    def heat(self, arg: str, kind: str = "load") -> np.ndarray:
        """How often each element of a tensor was loaded (or stored): int32, in its shape.

        Of several tensors under one argument name, the last one seen. KeyError when there is none.
        """
        for touch in reversed(self.touches):
            if touch.name == arg:
                return touch.heat(kind)
        known = ", ".join(sorted({t.name for t in self.touches})) or "none"
        raise KeyError(f"no tensor argument {arg!r} was recorded; recorded: {known}")

    # ---- outputs
    @property
    def unwritten(self) -> dict[str, int]:
        """Declared output -> elements that were never stored (only outputs with such elements)."""
        out: Counter[str] = Counter()
        for output in self.outputs:
            out[output.name] += output.gap()[0]
        return {name: n for name, n in out.items() if n}

    def gap(self, tensor: Tensor) -> tuple[int, list[int] | None] | None:
        """(elements of ``tensor`` never stored, index of the first, where known).

        None where its memory is of no declared output: then all of it counts as written.
        """
        pointer = tensor.untyped_storage().data_ptr()
        for output in self.outputs:
            storage = output.storage
            if storage.pointer == pointer and not storage.expired:
                return storage.output("", tensor).gap()
        return None

    def require_written(self) -> None:
        """Raise `UnwrittenOutput` for the first declared output with elements never stored."""
        for output in self.outputs:
            name, (n, first) = output.name, output.gap()
            if not n:
                continue
            at = f" (first at {first})" if first is not None else ""
            raise UnwrittenOutput(
                f"{n} element{'s' if n != 1 else ''} of output '{name}' were never stored{at}",
                "Does the grid cover every tile, and the mask of the store the last one?",
                argument=name,
                lanes=n,
            )

    @property
    def races(self) -> list[KernelError]:
        """The findings that are races."""
        return [e for e in self.findings if e.kind == "race"]

    # ---- words
    def to_json(self) -> dict[str, Any]:
        """Everything as plain JSON values (steps and heat maps apart: see `per_step`, `heat`)."""
        return {
            "launches": [{"kernel": x.kernel, "grid": list(x.grid)} for x in self.launches],
            "traffic": self.traffic,
            "unique_bytes": self.unique_bytes,
            "flops": self.flops,
            "operations": self.operations,
            "intensity": self.intensity,
            "peak_tile_bytes": self.peak_tile_bytes,
            "sram_bytes": self.sram_bytes,
            "per_line": [
                {"filename": file, "line": line, **row}
                for (file, line), row in self.per_line.items()
            ],
            "unwritten": self.unwritten,
            "findings": [e.to_json() for e in self.findings],
        }

    def report(
        self, bound: Bound | None = None, tensors: Mapping[str, Tensor] | None = None
    ) -> Report:
        """The tally in words: one screen of text, one table where a notebook displays it.

        Args:
            bound: Tensor -> (loaded, stored) bytes of a closed form, shown beside the count; a
                kernel argument ``q_ptr`` is matched by ``q`` too.
            tensors: Host tensors by name; the rows are then these (and "scratch"), not arguments.
        """
        return Report(self, bound, tensors)

    def _repr_html_(self) -> str:
        return self.report()._repr_html_()


def _owner(touch: Touch, tensors: Mapping[str, Tensor]) -> str | None:
    """Name of the tensor whose memory a touched argument is."""
    if touch.storage.expired:
        return None
    same = {
        name: t
        for name, t in tensors.items()
        if t.untyped_storage().data_ptr() == touch.storage.pointer and t.numel()
    }
    for name, t in same.items():
        if t.data_ptr() == touch.pointer:
            return name
    for name, t in same.items():
        if 0 <= touch.pointer - t.data_ptr() < span_elements(t) * t.element_size():
            return name
    return next(iter(same), None)
