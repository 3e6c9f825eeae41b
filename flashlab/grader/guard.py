"""Watches an answer while it runs in a worker: torch and Python doing what is meant for a kernel.

It explains; the separate process protects. Files, programs and hidden code are ``audit``'s part.
Runs beside learners' code: imports torch and the standard library alone.
"""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

_ALLOCATE = frozenset(
    "empty empty_like empty_strided empty_permuted new_empty new_empty_strided zeros zeros_like "
    "new_zeros ones ones_like new_ones full full_like new_full zero_ fill_ scalar_tensor "
    "arange _efficientzerotensor".split()
)
_COPY = frozenset("clone _to_copy copy_ contiguous _copy_from".split())
_FREE = frozenset(
    "is_same_size sym_size sym_stride sym_numel resize_ set_ "
    "lift_fresh is_pinned _has_compatible_shallow_copy_type".split()
)
_VALUES = frozenset(
    "tolist item numpy __array__ __float__ __int__ __index__ __complex__ __format__ __iter__ "
    "from_numpy frombuffer apply_ map_ map2_ untyped_storage storage _typed_storage "
    "__dlpack__".split()
)
_SHARED = frozenset("numpy __array__ __dlpack__ from_numpy frombuffer".split())  # memory
_LISTS = _SHARED | {"tolist"}  # where torch may compute
_READS = frozenset("_local_scalar_dense item equal is_nonzero".split())
_READING = frozenset("fill_".split())  # of those that allocate
_PASSED_ON = (os.path.dirname(torch.__file__) + os.sep, __file__)
NO_LINE = -1
_ATTENTION = ("scaled_dot_product", "_flash_attention", "_efficient_attention", "flex_attention",
              "multi_head_attention", "transformer_encoder")  # fmt: skip


class Watch:
    """What one answer did outside its kernels.

    Args:
        filename: Name under which the answer's code runs.
        torch_allowed: The exercise is written in torch: only ready-made attention is a breach.
        own: Files that compute in torch themselves, such as the recorder's; they call nothing
            that an answer hands in.
        on_fresh: Called with every tensor that the answer's ``empty`` calls make.
    """

    def __init__(
        self,
        filename: str,
        torch_allowed: bool,
        own: tuple[str, ...],
        on_fresh: Callable[[torch.Tensor], None],
    ) -> None:
        self.filename, self.torch_allowed, self.own = filename, torch_allowed, own
        self.on_fresh = on_fresh
        self.breaches: list[dict[str, Any]] = []
        self.copies: list[dict[str, Any]] = []
        self.fresh: list[torch.Tensor] = []  # what empty() made, kept alive
        self.shapes: dict[str, int] = {}  # "2 x 4 x 16" of torch results -> first line
        self.bits: set[int] = set()  # addresses of memory of whole numbers that may hold real ones
        self.armed = False
        self._modes = (_Dispatch(self), _Function(self))

    def __enter__(self) -> "Watch":
        for mode in self._modes:
            mode.__enter__()
        self.armed = True
        _active.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        self.armed = False
        _active.remove(self)
        for mode in reversed(self._modes):
            mode.__exit__(*error)

    def line(self, depth: int = 2) -> int:
        """Line of the answer that called into torch; 0 if nobody did, or a file of our own.

        What is called below Python, such as a grid that the recorder asks for, is the answer's;
        so is what a thread of autograd's does, which has no Python below and no line.
        """
        try:
            at = sys._getframe(depth)
        except ValueError:
            return NO_LINE
        caller = True  # not found yet: torch passes calls on
        while at is not None:
            name = at.f_code.co_filename
            if name == self.filename:
                return at.f_lineno
            if caller and not name.startswith(_PASSED_ON):
                if name in self.own:
                    return 0
                caller = False
            at = at.f_back
        return 0

    def launched(self, tensors: list[torch.Tensor], inputs: set[int]) -> None:
        """A kernel may have written real numbers into whole ones, which Python could read."""
        self.bits |= {_address(t) for t in tensors if not _is_float(t)} - inputs

    def real(self, args: Any, kwargs: Any) -> bool:
        """Whether there are tensors with real numbers among some arguments."""
        tensors = _tensors(args, kwargs)
        if any(map(_is_float, tensors)):
            return True
        return bool(self.bits) and any(_address(t) in self.bits for t in tensors)

    def follow(self, name: str, args: Any, kwargs: Any, result: Any) -> None:
        """Where real numbers lie in memory of whole ones, after an operation."""
        if not isinstance(result, torch.Tensor):
            return
        whole = [t for t in _tensors(args, kwargs) if not _is_float(t)]
        if _is_float(result):
            if whole and whole[0] is args[0]:
                self.bits |= {_address(result)} & {_address(t) for t in whole}
        elif name in _COPY and self.bits and any(_address(t) in self.bits for t in whole):
            self.bits.add(_address(result))
        elif _address(result) not in {_address(t) for t in whole}:
            self.bits.discard(_address(result))

    def breach(self, rule: str, what: str, line: int) -> None:
        """Note that the answer did ``what``, which ``rule`` forbids."""
        if len(self.breaches) < 20:
            self.breaches.append({"rule": rule, "what": what, "line": max(line, 0)})


_active: list[Watch] = []


def active() -> Watch | None:
    """The watch that is on in this process; None outside of a worker."""
    return _active[-1] if _active else None


@contextlib.contextmanager
def armed(watch: Watch | None, on: bool) -> Iterator[None]:
    """For a harness: off while it starts processes, on in those that run the answer."""
    if watch is None:
        yield
        return
    before, watch.armed = watch.armed, on
    try:
        yield
    finally:
        watch.armed = before


class _Dispatch(TorchDispatchMode):
    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self.watch = watch

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else the first operation imports torch._dynamo: 0.6 s a worker

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        line = self.watch.line()
        if line:
            self._note(func, args, kwargs or {}, result, line)
        return result

    def _note(self, func: Any, args: Any, kwargs: Any, result: Any, line: int) -> None:
        watch, name = self.watch, func._schema.name.split("::")[-1]
        if name.startswith(("empty", "new_empty")) and isinstance(result, torch.Tensor):
            watch.fresh.append(result)
            watch.on_fresh(result)
        if any(word in name for word in _ATTENTION):
            watch.breach("attention", name, line)
        elif watch.torch_allowed:
            if isinstance(result, torch.Tensor) and result.dim() > 1 and len(watch.shapes) < 4096:
                watch.shapes.setdefault(" x ".join(map(str, result.shape)), max(line, 0))
        elif _disguised(name, args, kwargs, result) or (
            name in _READS and watch.real(args, kwargs)
        ):
            watch.breach("values", name, line)
        elif name in _COPY:
            watch.copies.append({"op": name, "line": max(line, 0), "nbytes": _nbytes(result)})
        elif name not in _ALLOCATE | _FREE and not _is_view(func) and watch.real(args, kwargs):
            watch.breach("torch", name, line)
        watch.follow(name, args, kwargs, result)


class _Function(TorchFunctionMode):
    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self.watch = watch

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, watch = getattr(func, "__name__", ""), self.watch
        if name in (_LISTS if watch.torch_allowed else _VALUES) and (line := watch.line()):
            if name in _SHARED or watch.real(args, kwargs or {}):
                watch.breach("outside" if watch.torch_allowed else "values", name, line)
        return func(*args, **(kwargs or {}))


def _is_view(func: Any) -> bool:
    returns = func._schema.returns
    return bool(returns) and all(
        r.alias_info is not None and not r.alias_info.is_write for r in returns
    )


def _tensors(args: Any, kwargs: Any) -> list[torch.Tensor]:
    found = [a for a in (*args, *kwargs.values()) if isinstance(a, torch.Tensor)]
    return found + [a for many in args if isinstance(many, list | tuple) for a in many
                    if isinstance(a, torch.Tensor)]  # fmt: skip


def _is_float(t: torch.Tensor) -> bool:
    return t.is_floating_point() or t.is_complex()


def _address(t: torch.Tensor) -> int:
    """Of its memory; 0 where it has none."""
    if t.layout is not torch.strided:
        return 0
    with torch._C.DisableTorchFunction():
        return t.untyped_storage().data_ptr()


def _disguised(name: str, args: Any, kwargs: Any, result: Any) -> bool:
    """Whether real numbers came out as something else: their bits, or parts of complex ones."""
    if not isinstance(result, torch.Tensor) or result.is_floating_point():
        return False
    reads = name not in _ALLOCATE or name in _READING
    return reads and any(t.is_floating_point() for t in _tensors(args, kwargs))


def _nbytes(result: Any) -> int:
    return result.nbytes if isinstance(result, torch.Tensor) else 0
