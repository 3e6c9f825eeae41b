"""One run of an answer in its own process: inputs in; raw outputs, tally and what went wrong out.

It decides nothing: the grader judges the bytes. A class sandbox mounts only torch, Triton, numpy,
``flashlab.iocount`` without ``bounds`` (it answers io_cost), ``flashlab.pipeline``,
``flashlab.loading`` and what this file imports here; for exercises with ranks, ``flashlab.ring``
without ``local`` and ``flashlab.grader.ring`` too.
"""

import dataclasses
import functools
import importlib
import os
import sys
import time
import traceback
import zlib
from collections.abc import Callable
from typing import Any

import torch
import triton

from flashlab import iocount
from flashlab.grader import arguments, audit, guard, protocol
from flashlab.loading import load_module

try:
    from flashlab import aot
except ImportError:  # not in a sandbox
    aot = None

PRINTED_LIMIT = 64 << 10
KERNELS = 16  # that a check compiles at most
FILLING = {2: (torch.int16, 0x7FB7), 4: (torch.int32, 0x7FB75EAD)}  # NaNs that nobody computes
MOVES = ("load", "store", "atomic")
OWN = (  # files that ask torch on nobody's behalf, and call nothing that an answer hands in
    __file__,
    os.path.join(os.path.dirname(triton.__file__), "testing.py"),  # times configurations
    *(
        os.path.join(os.path.dirname(iocount.__file__), *name.split("/"))
        for name in "argument.py registry.py storage.py tally.py _triton/host.py "
        "_triton/repairs.py".split()
    ),
)


def prepare() -> None:
    """Settings that every fork inherits: one thread, NaN in fresh memory. No torch operation."""
    torch.set_num_threads(1)
    torch._C._set_deterministic_algorithms(True, warn_only=True)  # public setter: imports inductor
    torch._C._set_deterministic_fill_uninitialized_memory(True)
    with iocount.count_io():
        pass  # imports what the recorder imports on first use


def main(request: dict[str, Any], payload: bytearray, reply_fd: int) -> None:
    """Run one request and write its one reply frame."""
    header, arrays = Run(request, payload).reply()
    if sum(map(len, arrays)) > request["reply_limit"]:
        header["arrays"], arrays = [], []
    try:
        chunks = protocol.frame(header, arrays)
    except ValueError as error:  # a number that JSON writes out no more
        failed = describe(error, request["filename"])
        chunks = protocol.frame({"run": request["run"], "arrays": [], "error": failed})
    protocol.write(reply_fd, chunks)


def serve(fd: int) -> None:
    """Run requests of a socket one after the other in this process, until it closes."""
    torch._C._set_deterministic_algorithms(True, warn_only=True)
    torch._C._set_deterministic_fill_uninitialized_memory(True)
    while True:
        try:
            request, payload = protocol.read(fd, 1 << 32)
        except EOFError:
            return
        main(request, payload, fd)


class Run:
    """One answer, one call: module, inputs, recorder, reply."""

    def __init__(self, request: dict[str, Any], payload: bytearray) -> None:
        self.request = request
        self.on_cpu = request["device"] == "cpu"
        place = "cpu" if request["ranks"] else request["device"]  # ranks are forked: no CUDA here
        self.inputs = protocol.views(request["tensors"], payload, place)
        self.watch = guard.Watch(request["filename"], request["torch_allowed"], OWN, fresh)
        self.launches: list[dict[str, Any]] = []
        self.module = ""  # name of the answer's
        self.described: set[str] = set()  # kernels of which the compiler has a launch
        self.arrays: list[bytes] = []
        self.bound: dict[str, int] = {}  # kernel argument -> address of its storage
        self.header: dict[str, Any] = {"run": request["run"], "arrays": []}

    def reply(self) -> tuple[dict[str, Any], list[bytes]]:
        """Run everything asked for; header and the bytes of the returned arrays."""
        sys.stdout = sys.stderr = _Printed()
        sums = {name: _checksum(t) for name, t in self.inputs.items()}
        start = time.monotonic()
        try:
            self._run(sums)
        except BaseException as error:  # SystemExit and KeyboardInterrupt too: said which
            self.header["error"] = describe(error, self.request["filename"])
        self.header |= {
            "seconds": time.monotonic() - start,
            "breaches": self.watch.breaches,
            "copies": self.watch.copies,
            "shapes": self.watch.shapes,
            "launches": self.launches,
        }
        return self.header, self.arrays

    def _modified(self, sums: dict[str, int]) -> list[str]:
        """Inputs whose bytes are not what they were."""
        try:
            return [n for n, t in self.inputs.items() if _checksum(t) != sums[n]]
        except RuntimeError:  # after an illegal access a GPU answers nothing more
            return []

    def _run(self, sums: dict[str, int]) -> None:
        """Call and call again; under watch until the answer's tensors have become bytes."""
        request = self.request
        if self.on_cpu:  # a compiler writes files and starts programs
            audit.Audit(self.watch)
        with self.watch:
            module = load_module(request["text"], request["filename"])
            self.module = module.__name__
            for name, value in request["constants"].items():
                setattr(module, name, value)
            function = called(module, request["function"], request["harness"])
            returned, tally = self._call(function, "forward")
            self.header["returned"], arrays = contents(returned)
            self.header["arrays"] = [protocol.spec(str(i), a) for i, a in enumerate(arrays)]
            if tally is not None:
                self.header |= self._counted(returned, tally)
            for order in request["again"]:
                self.header["phase"] = order
                calls = (returned, self._call(function, order)[0])
                made = [{t.data_ptr() for t in arrays_of(r) if t.numel()} for r in calls]
                if made[0] & made[1] - {0, *(t.data_ptr() for t in self.inputs.values())}:
                    self.watch.breach("kept", "", 0)
                again = contents(calls[1])[1]
                same = self.header.setdefault("same", [True] * len(arrays))
                for i, (a, b) in enumerate(zip(arrays, again, strict=False)):
                    same[i] &= a.shape == b.shape and _checksum(a) == _checksum(b)
            self.header["modified"] = self._modified(sums)
            self.arrays = [protocol.storage_bytes(a) for a in arrays]

    def _call(self, function: Any, order: str) -> tuple[Any, iocount.Tally | None]:
        arguments = {
            name: self.inputs[name] if kind == "tensor" else kind["value"]
            for name, kind in self.request["arguments"].items()
        }
        if not self.on_cpu:
            returned = function(**arguments)
            if not self.request["ranks"]:
                torch.cuda.synchronize()
            return returned, None
        on_launch = self._on_launch if order == "forward" else None
        with iocount.count_io(order=order, on_launch=on_launch) as tally:
            return function(**arguments), tally

    def _counted(self, returned: Any, tally: iocount.Tally) -> dict[str, Any]:
        """Bytes by tensor, lines that moved them, and elements of outputs that nothing stored."""
        outputs = {f"#{i}": t for i, t in enumerate(arrays_of(returned))}
        gaps = {name: tally.gap(t) for name, t in outputs.items()}
        if self.request["torch_allowed"]:
            gaps = {name: self._untouched(t) for name, t in outputs.items()}
        unwritten = {name: gap for name, gap in gaps.items() if gap is not None}
        return {
            "io": tally.by_tensor(self.inputs | outputs),
            "unwritten": unwritten,
            "lines": self._lines(outputs, tally),
        }

    def _untouched(self, t: torch.Tensor) -> tuple[int, list[int] | None] | None:
        """Elements of a tensor that still hold the filling of fresh memory, and the first one."""
        kind, value = FILLING.get(t.element_size(), (None, 0))
        if kind is None or not t.is_floating_point():
            return None
        at = torch.nonzero(t.contiguous().view(kind) == value)
        return len(at), at[0].tolist() if len(at) else None

    def _lines(
        self, outputs: dict[str, torch.Tensor], tally: iocount.Tally
    ) -> list[tuple[int, str, int]]:
        """(line of the answer, tensor, bytes moved there), by the names of inputs and outputs."""
        names = {
            t.untyped_storage().data_ptr(): name for name, t in (self.inputs | outputs).items()
        }
        found: dict[tuple[int, str], int] = {}
        for (file, line), row in tally.per_line.items():
            for argument, moved in (item for kind in MOVES for item in row[kind].items()):
                name = names.get(self.bound.get(argument, 0), "scratch")
                if file == self.request["filename"]:
                    found[line, name] = found.get((line, name), 0) + moved
        return [(line, name, moved) for (line, name), moved in found.items()]

    def _on_launch(self, kernel: Any, grid: Any, bound: dict[str, Any], options: Any) -> None:
        tensors = []
        for name, value in bound.items():
            tensor = getattr(value, "base", value)  # of a descriptor
            if isinstance(tensor, torch.Tensor):
                tensors.append(tensor)
                self.bound[name] = tensor.untyped_storage().data_ptr()
            elif arguments.is_python(value, self.module, self.request["filename"]):
                self.watch.breach("argument", name, self.watch.line())
        given = {t.untyped_storage().data_ptr() for t in self.inputs.values()}
        self.watch.launched(tensors, given)
        tiles = {k: v for k, v in bound.items() if k.isupper() and type(v) is int}
        name = getattr(kernel, "__name__", "?")
        launch = {"kernel": name, "tiles": tiles, "grid": list(grid)}
        if aot is not None and name not in self.described:
            if len(self.described) == KERNELS:
                self.watch.breach("kernels", str(KERNELS), self.watch.line())
            try:
                described = aot.describe_launch(kernel, grid, bound, options)
                launch["described"] = dataclasses.asdict(described)
                self.described.add(name)
            except Exception as error:
                launch["undescribed"] = str(error)
        self.launches.append(launch)


def called(module: Any, function: str, harness: str = "") -> Callable[..., Any]:
    """What a run calls: a function of the answer, or the harness that runs several of them."""
    if not harness:
        return getattr(module, function)
    owner, name = harness.split(":")
    return functools.partial(getattr(importlib.import_module(owner), name), module)


def fresh(t: torch.Tensor) -> None:
    """Fill what ``empty`` made, and let the recorder know that nothing is written yet."""
    kind, value = FILLING.get(t.element_size(), (None, 0))
    if kind is not None and t.is_floating_point() and t.numel():
        t.view(kind).fill_(value)
    iocount.expect_output(t)


def arrays_of(returned: Any) -> list[torch.Tensor]:
    """The plain tensors among what a function returned."""
    items = returned if isinstance(returned, tuple) else (returned,)
    return [t for t in items if type(t) is torch.Tensor]


def contents(
    returned: Any,
) -> tuple[dict[str, Any], list[torch.Tensor]]:
    """What came back, in words, and compact copies of its plain tensors."""
    items = returned if isinstance(returned, tuple) else (returned,)
    said, arrays = [], []
    for item in items[:16]:
        one: dict[str, Any] = {"type": type(item).__name__}
        if type(item) is torch.Tensor:
            one |= {
                "dtype": str(item.dtype).removeprefix("torch."),
                "shape": list(item.shape),
                "device": item.device.type,
            }
            if item.device.type in ("cpu", "cuda") and one["dtype"] in protocol.DTYPES:
                one["array"] = len(arrays)
                arrays.append(torch.empty(item.shape, dtype=item.dtype).copy_(item.detach()))
        elif isinstance(item, torch.Tensor):
            one["subclass"] = True
        else:
            one["value"] = plain(item)
        said.append(one)
    return {"type": type(returned).__name__, "count": len(items), "items": said}, arrays


def plain(value: Any, depth: int = 0) -> Any:
    """A number, text, list or dictionary as JSON holds it; anything else by its type's name."""
    if isinstance(value, bool | int | float | str | None):
        return value
    if depth < 6 and isinstance(value, list | tuple):
        return [plain(v, depth + 1) for v in value[:4096]]
    if depth < 6 and isinstance(value, dict):
        return {str(k): plain(v, depth + 1) for k, v in list(value.items())[:4096]}
    return {"type": type(value).__name__}


def describe(error: BaseException, filename: str) -> dict[str, Any]:
    """An exception as data: class names, text, and the answer's line where one is on the stack."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == filename]
    said = {
        "types": [c.__name__ for c in type(error).__mro__],
        "message": _text(error)[:4000],
        "line": frames[-1].lineno if frames else 0,
        "source": (frames[-1].line or "") if frames else "",
        "traceback": _trace(error, frames),
    }
    for name in ("kind", "argument", "line", "source"):
        value = _given(error, name)
        if isinstance(value, str | int) and value:
            said[name] = value
    if isinstance(error, SyntaxError):
        said["line"], said["source"] = error.lineno or 0, (error.text or "").strip()
    if isinstance(error, SystemExit):
        said["code"] = _text(error.code)
    return said


def _given(error: BaseException, name: str) -> Any:
    try:
        return getattr(error, name, None)
    except Exception:  # a property of the answer's
        return None


def _text(thing: Any) -> str:
    """What an object says of itself; an answer's may fail at it."""
    try:
        return str(thing)
    except Exception:
        return f"a {type(thing).__name__} that cannot be shown"


def _trace(error: BaseException, frames: list[traceback.FrameSummary]) -> str:
    """The answer's own lines on the stack, then the exception; no file of the course or Triton."""
    lines = traceback.format_list(frames[-12:])
    return "".join([*lines, *traceback.format_exception_only(error)])[-6000:]


def _checksum(tensor: torch.Tensor) -> int:
    return zlib.crc32(protocol.storage_bytes(tensor))


class _Printed:
    """Standard output of the answer, cut off at a limit; what is written survives a crash."""

    encoding = "utf-8"

    def __init__(self) -> None:
        self.left = PRINTED_LIMIT

    def write(self, text: str) -> int:
        data = text.encode("utf-8", "replace")[: self.left]
        self.left -= len(data)
        if data:
            os.write(1, data)
        return len(text)

    def flush(self) -> None:
        """Nothing is kept back."""

    def isatty(self) -> bool:
        return False
