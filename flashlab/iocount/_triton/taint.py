"""Lanes that a masked load without ``other`` left undefined, followed through the data flow.

A handle with such lanes carries ``_taint``, a boolean array of its data's shape, and ``_origin``,
the load. Selecting with a clean condition, and-ing with False and multiplying an integer by 0
clear a lane; every other operation passes it on. Only tainted lanes that reach memory, an
address, a mask or a branch are a fault.

``wrapped`` follows int32 overflow in the same way, where an offset may pass 2^31.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime.interpreter import TensorHandle

_STRUCTURAL = frozenset(
    f"create_{n}"
    for n in "expand_dims broadcast trans reshape splat unsplat join split cat".split()
)


def of(handle: Any) -> np.ndarray | None:
    """The tainted lanes of a handle, or None."""
    return getattr(handle, "_taint", None)


def mark(handle: Any, lanes: np.ndarray, origin: Any) -> None:
    """Mark lanes of a handle, when there are any."""
    if lanes.any():
        handle._taint, handle._origin = lanes, origin


def _tainted(args: Sequence[Any]) -> list[Any]:
    return [h for h in args if type(h) is TensorHandle and of(h) is not None]


def propagate(name: str, original: Callable, builder: Any, args: tuple, result: Any) -> None:
    """The result's tainted lanes from the arguments'."""
    dirty = _tainted(args)
    if not dirty:
        return
    origin = dirty[0]._origin
    if name in _STRUCTURAL:
        moved = original(builder, *(_flags(h) if type(h) is TensorHandle else h for h in args))
        pairs = zip(moved, result, strict=True) if isinstance(moved, tuple) else [(moved, result)]
        for flags, made in pairs:
            mark(made, np.asarray(flags.data, bool), origin)
    elif name == "create_select":
        condition, yes, no = args
        lanes = np.where(condition.data, _lanes(yes), _lanes(no)) | _lanes(condition)
        mark(result, np.broadcast_to(lanes, result.data.shape), origin)
    elif name in ("create_and", "create_mul"):
        _masked_by_zero(args[0], args[1], result, origin)
    elif name == "create_or" and result.data.dtype == bool:
        a, b = args
        lanes = (_lanes(a) & (~b.data | _lanes(b))) | (_lanes(b) & (~a.data | _lanes(a)))
        mark(result, np.broadcast_to(lanes, result.data.shape), origin)
    elif name == "create_gather":
        lanes = np.take_along_axis(_lanes(args[0]), args[1].data, axis=args[2]) | _lanes(args[1])
        mark(result, lanes, origin)
    elif name == "create_histogram":
        anything(args, result)
    else:
        lanes = np.zeros(result.data.shape, bool)
        for handle in dirty:
            lanes = lanes | of(handle)
        mark(result, np.broadcast_to(lanes, result.data.shape), origin)


def _masked_by_zero(a: Any, b: Any, result: Any, origin: Any) -> None:
    """Integers: x & 0 and x * 0 do not depend on x."""
    lanes = (_lanes(a) & ((b.data != 0) | _lanes(b))) | (_lanes(b) & ((a.data != 0) | _lanes(a)))
    mark(result, np.broadcast_to(lanes, result.data.shape), origin)


def _lanes(handle: Any) -> np.ndarray:
    found = of(handle)
    return np.zeros(handle.data.shape, bool) if found is None else found


def _flags(handle: TensorHandle) -> TensorHandle:
    return TensorHandle(np.array(_lanes(handle)), tl.int1)


def anything(args: tuple, result: Any) -> None:
    """Any tainted lane spoils the whole result."""
    dirty = _tainted(args)
    if dirty:
        mark(result, np.ones(result.data.shape, bool), dirty[0]._origin)


def product(a: Any, b: Any, d: Any, result: Any) -> None:
    """A product: a bad element spoils its row (left) or column (right), as 0 * NaN is NaN."""
    dirty = _tainted((a, b, d))
    if dirty:
        lanes = _lanes(a).any(-1)[..., :, None] | _lanes(b).any(-2)[..., None, :] | _lanes(d)
        mark(result, lanes, dirty[0]._origin)


def reduced(op: Any, inputs: list[Any], made: list[Any], reduces: bool) -> None:
    """A reduction or scan: every result that a bad lane goes into is bad."""
    dirty = _tainted(inputs)
    if not dirty:
        return
    lanes = np.zeros(inputs[0].data.shape, bool)
    for handle in dirty:
        lanes = lanes | of(handle)
    if reduces:
        lanes = lanes.any(axis=op.axis, keepdims=op.keep_dims)
    elif op.reverse:
        lanes = np.flip(np.logical_or.accumulate(np.flip(lanes, op.axis), op.axis), op.axis)
    else:
        lanes = np.logical_or.accumulate(lanes, op.axis)
    for handle in made:
        mark(handle, np.broadcast_to(np.asarray(lanes), handle.data.shape), dirty[0]._origin)


# ---- int32 overflow of an offset
_CARRIES = frozenset(
    f"create_{n}"
    for n in (
        "add sub mul shl expand_dims broadcast trans reshape splat int_cast select addptr".split()
    )
)
_EXACT = {
    "create_add": np.add,
    "create_sub": np.subtract,
    "create_mul": np.multiply,
    "create_shl": np.left_shift,
}


def wrapped(rec: Any, name: str, args: tuple, result: Any, arithmetic: bool) -> None:
    """Remember the line at which an int32 value that may become an offset overflowed."""
    if name not in _CARRIES:
        return
    for handle in args:
        at = getattr(handle, "_wrapped", None) if type(handle) is TensorHandle else None
        if at is not None:
            result._wrapped = at
            return
    if arithmetic and result.data.dtype == np.int32:
        exact = _EXACT[name](args[0].data.astype(np.int64), args[1].data.astype(np.int64))
        if (exact != result.data).any():
            result._wrapped = rec.where()
