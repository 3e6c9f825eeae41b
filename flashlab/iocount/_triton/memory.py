"""Hooks on loads, stores and atomics: checked and counted, then done on the tensor's memory."""

from typing import Any

import numpy as np
import triton.language as tl
import triton.runtime.interpreter as interp
from triton.language.semantic import TritonSemantic
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

from flashlab.iocount._triton import taint
from flashlab.iocount._triton.arithmetic import make
from flashlab.iocount._triton.patch import Patches
from flashlab.iocount._triton.repairs import bf16_bits, bf16_values, to_bf16
from flashlab.iocount.errors import KernelError, MissingOther, OutOfBounds
from flashlab.iocount.recorder import Recorder

_FILL = 0x7F  # what masked-off integer lanes hold: NaN in fp8, a visible number elsewhere


def install(patches: Patches, rec: Recorder) -> None:
    """Send every memory operation through ``rec``."""
    hooks = {
        "create_masked_load": _load(rec),
        "create_masked_store": _store(rec),
        "create_atomic_rmw": _rmw(rec),
        "create_atomic_cas": _cas(rec),
    }
    for name, hook in hooks.items():
        patches.put(InterpreterBuilder, name, hook)
    patches.put(TritonSemantic, "load", _semantic_load(rec, TritonSemantic.load))


def _semantic_load(rec: Recorder, original: Any) -> Any:
    """``tl.load``, which passes on no ``other`` that is a single 0: `rec` is told of it."""

    def load(self: Any, ptr: Any, mask: Any, other: Any, *rest: Any, **more: Any) -> Any:
        rec.has_other = other is not None
        try:
            return original(self, ptr, mask, other, *rest, **more)
        finally:
            rec.has_other = False

    return load


def _mask(mask: Any, shape: tuple[int, ...]) -> np.ndarray:
    data = np.asarray(mask.data if isinstance(mask, TensorHandle) else mask)
    if data.dtype != bool:
        data = data != 0
    return data if data.shape == shape else np.broadcast_to(data, shape)


def _load(rec: Recorder) -> Any:
    def load(self: Any, ptrs: Any, mask: Any, other: Any, *_: Any, **__: Any) -> TensorHandle:
        lanes = _mask(mask, ptrs.data.shape)
        dtype = ptrs.get_element_ty()
        if other is None and rec.has_other:
            other = TensorHandle(np.zeros(1, interp._get_np_dtype(dtype)), dtype)
        memory_type = _memory_type(dtype)
        _check_inputs(rec, "load", ptrs, mask, lanes)
        arg, at, full = rec.access("load", ptrs.data, lanes, memory_type.itemsize)
        if full and arg is not None:
            data = arg.memory(memory_type)[at]
            data = (data.copy() if isinstance(at, slice) else data).reshape(ptrs.data.shape)
            if dtype == tl.bfloat16:
                data = bf16_values(data)
        else:
            data = _fill(rec, other, dtype, ptrs.data.shape)
            if arg is not None:
                values = arg.memory(memory_type)[at]
                data[lanes] = bf16_values(values) if dtype == tl.bfloat16 else values
        result = TensorHandle(data, dtype)
        if not full:
            if other is None and rec.poison:
                rec.tainted = True
                taint.mark(result, ~lanes, _origin(rec, ptrs, lanes))
            elif other is not None and rec.tainted and taint.of(other) is not None:
                taint.mark(result, taint.of(other) & ~lanes, other._origin)
        if rec.live is not None and not rec.live.full:
            make(rec, result, rec.live.use(()))
        return result

    return load


def _memory_type(dtype: Any) -> np.dtype:
    return np.dtype(np.uint16) if dtype == tl.bfloat16 else interp._get_np_dtype(dtype)


def _fill(rec: Recorder, other: Any, dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
    """What the lanes that a mask keeps off hold."""
    if other is not None:
        return np.array(np.broadcast_to(other.data, shape))
    np_dtype = interp._get_np_dtype(dtype)
    if not rec.poison:
        return np.zeros(shape, np_dtype)
    return np.full(shape, np.nan if np_dtype.kind == "f" else _FILL, np_dtype)


def _origin(rec: Recorder, ptrs: Any, lanes: np.ndarray) -> tuple:
    """(argument, where, lanes kept off, shape) of a masked load without ``other``."""
    number = int(ptrs.data.flat[0] >> np.uint64(40))
    name = rec.arguments[number].name if 0 < number < len(rec.arguments) else None
    return name, rec.where(), int(lanes.size - np.count_nonzero(lanes)), lanes.shape


def missing_other(rec: Recorder, handle: Any, use: str) -> MissingOther:
    """The error for a handle whose tainted lanes are used."""
    name, where, off, shape = handle._origin
    line = rec.where()[1]
    what = (
        f"tl.load of argument '{name}' has a mask and no other=, and {off} lanes are masked "
        f"off (tile {list(shape)}): on a GPU these hold anything, and they reach {use} at line "
        f"{line}"
    )
    hint = "Add other=0.0 (or the value that changes nothing), or remove the lanes with tl.where"
    return rec.error(MissingOther, what, hint, where, argument=name, lanes=off)


def _check_inputs(rec: Recorder, kind: str, ptrs: Any, mask: Any, lanes: np.ndarray) -> None:
    """Addresses and masks must not depend on undefined lanes, nor on an int32 that overflowed."""
    if rec.tainted:
        bad = taint.of(mask)
        if bad is not None and bad.any():
            rec.report(missing_other(rec, mask, f"the mask of a tl.{kind}"))
        bad = taint.of(ptrs)
        if bad is not None and (bad & lanes).any():
            rec.report(missing_other(rec, ptrs, f"the address of a tl.{kind}"))
    if rec.large:
        over, where = getattr(ptrs, "_wrapped", (None, None))
        if over is not None and (over & lanes).any():
            number = int(ptrs.data.flat[0] >> np.uint64(40))
            name = rec.arguments[number].name if 0 < number < len(rec.arguments) else None
            raise rec.error(
                OutOfBounds,
                f"tl.{kind} of argument '{name}' uses an int32 offset that overflowed at line "
                f"{where[1]} ({rec.source(where).strip()})",
                "Make the factor int64 before multiplying, as in tl.program_id(0).to(tl.int64)",
                argument=name,
                lanes=int(np.count_nonzero(over & lanes)),
            )


def _store(rec: Recorder) -> Any:
    def store(self: Any, ptrs: Any, value: Any, mask: Any, *_: Any, **__: Any) -> None:
        lanes = _mask(mask, ptrs.data.shape)
        memory_type = _memory_type(ptrs.get_element_ty())
        _check_inputs(rec, "store", ptrs, mask, lanes)
        if rec.tainted:
            bad = taint.of(value)
            if bad is not None and (bad & lanes).any():
                rec.report(missing_other(rec, value, "a tl.store"))
        arg, at, full = rec.access("store", ptrs.data, lanes, memory_type.itemsize)
        if rec.live is not None and not rec.live.full:
            rec.live.use((value,))
        if arg is not None:
            data = np.broadcast_to(value.data, ptrs.data.shape)
            data = data.ravel() if full else data[lanes]
            if value.dtype.scalar == tl.bfloat16:
                data = bf16_bits(to_bf16(data))
            arg.memory(memory_type)[at] = data

    return store


def _rmw(rec: Recorder) -> Any:
    original = InterpreterBuilder.create_atomic_rmw

    def atomic_rmw(self: Any, op: Any, ptr: Any, val: Any, mask: Any, *rest: Any) -> TensorHandle:
        return _atomic(
            rec, ptr, val, mask, lambda real, lanes: original(self, op, real, val, lanes, *rest)
        )

    return atomic_rmw


def _cas(rec: Recorder) -> Any:
    original = InterpreterBuilder.create_atomic_cas

    def atomic_cas(self: Any, ptr: Any, cmp: Any, val: Any, *rest: Any) -> TensorHandle:
        mask = np.ones(ptr.data.shape, bool)
        return _atomic(
            rec, ptr, val, mask, lambda real, lanes: original(self, real, cmp, val, *rest)
        )

    return atomic_cas


def _atomic(rec: Recorder, ptr: Any, val: Any, mask: Any, run: Any) -> TensorHandle:
    if val.dtype.scalar == tl.bfloat16:
        raise rec.error(
            KernelError,
            "atomic updates of bf16 are not available on the CPU",
            "Accumulate in an fp32 tensor and convert it afterwards",
            kind="compile",
        )
    lanes = _mask(mask, ptr.data.shape)
    _check_inputs(rec, "atomic", ptr, mask, lanes)
    if rec.tainted:
        bad = taint.of(val)
        if bad is not None and (bad & lanes).any():
            rec.report(missing_other(rec, val, "an atomic update"))
    item = max(1, ptr.get_element_ty().primitive_bitwidth // 8)
    arg, _, _ = rec.access("atomic", ptr.data, lanes, item)
    if rec.live is not None and not rec.live.full:
        rec.live.use((val,))
    real = ptr.data + arg.delta if arg is not None else np.zeros_like(ptr.data)
    result = run(TensorHandle(real, ptr.dtype), TensorHandle(np.ascontiguousarray(lanes), tl.int1))
    return result
