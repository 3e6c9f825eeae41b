"""Memory that PyTorch holds: what autograd keeps for later, and the most at once. Floor: core."""

import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode


def kept_by_autograd(fn: Callable[[], Any], besides: tuple[Tensor, ...] = ()) -> list[Tensor]:
    """The tensors that ``fn()`` leaves with autograd for a backward pass, each memory once.

    Args:
        fn: Runs a differentiable forward pass; there can be no backward pass after it.
        besides: Tensors that live anyway, such as the inputs; their memory is left out.
    """
    seen, found = {x.untyped_storage().data_ptr() for x in besides}, []

    def pack(x: Tensor) -> None:
        pointer = x.untyped_storage().data_ptr()
        if pointer not in seen:
            seen.add(pointer)
            found.append(x.detach())
        # Not x: an output that its own graph holds would never be freed

    def unpack(_: None) -> Tensor:
        raise RuntimeError("what autograd keeps was only looked at: no backward pass can follow")

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        fn()
    return found


def peak_bytes(fn: Callable[[], Any]) -> int:
    """The most bytes that tensors made by ``fn()`` hold at one time, its result among them."""
    with _Watch() as watch:
        fn()
    return watch.peak


class _Watch(TorchDispatchMode):
    """Adds up the memory of every tensor that an operator returns, for as long as it lives."""

    def __init__(self) -> None:
        super().__init__()
        self.known: set[int] = set()
        self.now = self.peak = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        for x in _tensors((args, *(kwargs or {}).values())):
            self.known.add(x.untyped_storage()._cdata)
        out = func(*args, **(kwargs or {}))
        for x in _tensors((out,)):
            self._note(x.untyped_storage())
        return out

    def _note(self, storage: torch.UntypedStorage) -> None:
        name, size = storage._cdata, storage.nbytes()
        if name not in self.known:
            self.known.add(name)
            self.now += size
            self.peak = max(self.peak, self.now)
            weakref.finalize(storage, self._gone, name, size).atexit = False

    def _gone(self, name: int, size: int) -> None:
        self.known.discard(name)
        self.now -= size


def _tensors(values: Any) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from _tensors(value)
