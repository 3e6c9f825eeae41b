"""Watches an answer while it runs in a worker: torch and Python doing what is meant for a kernel.

It explains; the separate process protects. Files, programs and hidden code are ``audit``'s part.
Runs beside learners' code: imports torch and the standard library alone.
"""

import contextlib
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
_READS = frozenset("_local_scalar_dense item equal is_nonzero".split())
_ATTENTION = ("scaled_dot_product", "_flash_attention", "_efficient_attention", "flex_attention")


class Watch:
    """What one answer did outside its kernels.

    Args:
        filename: Name under which the answer's code runs.
        torch_allowed: The exercise is written in torch: only ready-made attention is a breach.
        foreign: Folders whose code works on the answer's behalf (recorder, Triton).
        on_fresh: Called with every tensor that the answer's ``empty`` calls make.
    """

    def __init__(
        self,
        filename: str,
        torch_allowed: bool,
        foreign: tuple[str, ...],
        on_fresh: Callable[[torch.Tensor], None],
    ) -> None:
        self.filename, self.torch_allowed, self.foreign = filename, torch_allowed, foreign
        self.on_fresh = on_fresh
        self.breaches: list[dict[str, Any]] = []
        self.copies: list[dict[str, Any]] = []
        self.fresh: list[torch.Tensor] = []  # what empty() made, kept alive
        self.shapes: dict[str, int] = {}  # "rows x columns" of torch results -> first line
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
        """Line of the answer that called into torch; 0 if nobody did, or its kernel's recorder."""
        try:
            at = sys._getframe(depth)
        except ValueError:  # called by a thread of autograd's, which has no Python below
            return 0
        while at is not None:
            name = at.f_code.co_filename
            if name == self.filename:
                return at.f_lineno
            if name.startswith(self.foreign):
                return 0
            at = at.f_back
        return 0

    def breach(self, rule: str, what: str, line: int) -> None:
        """Note that the answer did ``what``, which ``rule`` forbids."""
        if len(self.breaches) < 20:
            self.breaches.append({"rule": rule, "what": what, "line": line})


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
                watch.shapes.setdefault("{} x {}".format(*result.shape[-2:]), line)
        elif _disguised(args, result) or (name in _READS and _floats(args, kwargs)):
            watch.breach("values", name, line)
        elif name in _COPY:
            watch.copies.append({"op": name, "line": line, "nbytes": _nbytes(result)})
        elif name not in _ALLOCATE | _FREE and not _is_view(func) and _floats(args, kwargs):
            watch.breach("torch", name, line)


class _Function(TorchFunctionMode):
    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self.watch = watch

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name in _VALUES and not self.watch.torch_allowed and (line := self.watch.line()):
            if name in ("from_numpy", "frombuffer") or _floats(args, kwargs or {}):
                self.watch.breach("values", name, line)
        return func(*args, **(kwargs or {}))


def _is_view(func: Any) -> bool:
    returns = func._schema.returns
    return bool(returns) and all(
        r.alias_info is not None and not r.alias_info.is_write for r in returns
    )


def _floats(args: Any, kwargs: Any) -> bool:
    tensors = [a for a in (*args, *kwargs.values()) if isinstance(a, torch.Tensor)]
    tensors += [a for many in args if isinstance(many, list | tuple) for a in many
                if isinstance(a, torch.Tensor)]  # fmt: skip
    return any(t.is_floating_point() or t.is_complex() for t in tensors)


def _disguised(args: Any, result: Any) -> bool:
    """Whether real numbers came out as something else: their bits, or parts of complex ones."""
    source = args[0] if args else None
    if not (isinstance(source, torch.Tensor) and isinstance(result, torch.Tensor)):
        return False
    return source.is_floating_point() and not result.is_floating_point()


def _nbytes(result: Any) -> int:
    return result.nbytes if isinstance(result, torch.Tensor) else 0
