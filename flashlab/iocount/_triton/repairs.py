"""What the plain interpreter gets silently wrong or does slowly, put right: bf16, fp8, types.

Tiles of bf16 are kept as fp32 arrays whose values are bf16 numbers; only in memory are they
16 bits.
"""

from typing import Any

import numpy as np
import torch
import triton.language as tl
import triton.runtime.interpreter as interp
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

from flashlab.iocount._triton.patch import Patches

_FP8 = {"fp8e4nv": (torch.float8_e4m3fn, 448.0), "fp8e5": (torch.float8_e5m2, 57344.0)}
_FLOATS = ("fp16", "bf16", "fp32", "fp64")


def round_off(x: np.ndarray, bits: int) -> np.ndarray:
    """fp32 rounded to nearest even, without the last ``bits`` mantissa bits (16: bf16)."""
    x = np.ascontiguousarray(x, np.float32)
    raw = x.view(np.uint32)
    half = np.uint32((1 << (bits - 1)) - 1)
    up = raw + ((raw >> np.uint32(bits)) & np.uint32(1)) + half
    out = (up & np.uint32(~((1 << bits) - 1) & 0xFFFFFFFF)).view(np.float32)
    return out if np.isfinite(x).all() else np.where(np.isfinite(x), out, x)


def to_bf16(x: np.ndarray) -> np.ndarray:
    """Float array -> the values that bf16 holds, as fp32."""
    if x.dtype == np.float64:  # through torch: double rounding otherwise
        return torch.from_numpy(np.ascontiguousarray(x)).bfloat16().float().numpy()
    return round_off(x, 16)


def bf16_bits(x: np.ndarray) -> np.ndarray:
    """Values that are bf16 numbers -> their 16 bits."""
    return (np.ascontiguousarray(x, np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)


def bf16_values(bits: np.ndarray) -> np.ndarray:
    """16 bits of bf16 -> fp32 values."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def fp8_values(bits: np.ndarray, name: str) -> np.ndarray:
    """8 bits of an fp8 format that torch has -> fp32 values."""
    raw = torch.from_numpy(np.ascontiguousarray(bits).view(np.uint8))
    return raw.view(_FP8[name][0]).float().numpy()


def to_fp8(x: np.ndarray, name: str) -> np.ndarray:
    """Float array -> 8 bits, rounded to nearest even, saturating as the hardware does."""
    dtype, top = _FP8[name]
    value = torch.from_numpy(np.ascontiguousarray(x, np.float32)).clamp(-top, top)
    return value.to(dtype).view(torch.uint8).numpy()


def tf32(handle: TensorHandle) -> TensorHandle:
    """An fp32 operand as a tf32 matrix unit reads it: the last 13 bits dropped."""
    raw = np.ascontiguousarray(handle.data).view(np.uint32) & np.uint32(0xFFFFE000)
    return TensorHandle(raw.view(np.float32), handle.dtype)


def _is_bf16(dtype: Any) -> bool:
    return dtype.scalar == tl.bfloat16


def install(patches: Patches) -> None:
    """Repair the interpreter until ``patches.undo()``."""
    _types(patches)
    _casts(patches)
    _fast_types(patches)
    builder = interp.interpreter_builder
    known = {
        "debug": True,
        "sanitize_overflow": False,
    }  # device_assert on; int32 checks: see arithmetic
    known = {k: v for k, v in known.items() if hasattr(builder.options, k)}
    patches.put(builder, "options", interp.InterpreterOptions(**known))


def _types(patches: Patches) -> None:
    """numpy types of Triton types, remembered (upstream builds a table at each call)."""
    original, memo = interp._get_np_dtype, {}
    pointer, single = np.dtype(np.uint64), np.dtype(np.float32)

    def np_dtype(dtype: Any) -> np.dtype:
        if isinstance(dtype, tl.block_type):
            dtype = dtype.element_ty
        if isinstance(dtype, tl.pointer_type):
            return pointer
        found = memo.get(dtype.name)
        if found is None:
            found = single if dtype == tl.bfloat16 else original(dtype)
            memo[dtype.name] = found
        return found

    patches.put(interp, "_get_np_dtype", np_dtype)
    if hasattr(interp, "_validate_np_data_size"):
        validate, sizes = interp._validate_np_data_size, {}

        def valid(array: np.ndarray, dtype: Any) -> bool:
            if isinstance(dtype, tl.pointer_type):
                return True
            dtype = dtype.scalar
            key = (array.dtype.char, dtype.name)
            found = sizes.get(key)
            if found is None:
                bf16 = dtype == tl.bfloat16 and array.itemsize <= 4
                found = sizes[key] = bf16 or validate(array, dtype)
            return found

        patches.put(interp, "_validate_np_data_size", valid)


def _casts(patches: Patches) -> None:
    """Casts to and from bf16 and fp8, rounded as torch and the hardware round."""
    cast_impl, fp_to_fp = InterpreterBuilder.cast_impl, InterpreterBuilder.create_fp_to_fp
    bitcast, fabs = InterpreterBuilder.create_bitcast, InterpreterBuilder.create_fabs

    def new_bitcast(self: Any, src: TensorHandle, dst: Any) -> TensorHandle:
        if _is_bf16(src.dtype) and not _is_bf16(dst):
            src = TensorHandle(bf16_bits(src.data), tl.uint16)
        elif _is_bf16(dst) and not _is_bf16(src.dtype):
            return TensorHandle(bf16_values(src.data.view(np.uint16)), tl.bfloat16)
        return bitcast(self, src, dst)

    new = {
        "cast_impl": lambda self, src, dst: _cast(src, dst, lambda s, d: cast_impl(self, s, d)),
        "create_fp_to_fp": lambda self, src, dst, mode: _cast(
            src, dst, lambda s, d: fp_to_fp(self, s, d, mode)
        ),
        "create_bitcast": new_bitcast,
        "create_fabs": lambda self, a: (
            TensorHandle(np.abs(a.data), tl.bfloat16) if _is_bf16(a.dtype) else fabs(self, a)
        ),
        "get_bf16": lambda self, v: TensorHandle(round_off(np.array([v]), 16), tl.bfloat16),
    }
    for name, function in new.items():
        patches.put(InterpreterBuilder, name, function)


def _cast(src: TensorHandle, dst: Any, fallback: Any) -> TensorHandle:
    """``src`` as ``dst``; ``fallback(src, dst)`` is upstream's cast."""
    source, target = src.dtype.scalar, dst.scalar
    if source.name in _FP8:
        src, source = TensorHandle(fp8_values(src.data, source.name), tl.float32), tl.float32
    if target.name in _FP8 and source.name in _FLOATS:
        return TensorHandle(to_fp8(src.data, target.name), target)
    if target == tl.bfloat16 and not source.name.startswith("fp8"):
        return TensorHandle(to_bf16(src.data), target)
    if source == tl.bfloat16 and target.name.startswith("fp8"):
        return fallback(TensorHandle(src.data, tl.float32), dst)
    if source == tl.bfloat16 or (source.name in _FLOATS and target.name in _FLOATS):
        return TensorHandle(src.data.astype(interp._get_np_dtype(target)), target)
    return fallback(src, dst)


def _fast_types(patches: Patches) -> None:
    """Types and tensors are made anew for every operation: remember the parts that repeat."""
    block, tensor = tl.core.block_type, tl.core.tensor
    block_init, tensor_init = block.__init__, tensor.__init__
    blocks: dict[tuple, dict] = {}
    tensors: dict[str, dict] = {}

    def init_block(self: Any, element_ty: Any, shape: Any) -> None:
        key = (element_ty.name, *[getattr(s, "value", s) for s in shape])
        parts = blocks.get(key)
        if parts is None:
            block_init(self, element_ty, shape)
            parts = {k: v for k, v in self.__dict__.items() if k != "element_ty"}
            blocks[key] = parts
        self.__dict__.update(parts)
        self.element_ty = element_ty

    def init_tensor(self: Any, handle: Any, type: Any) -> None:
        key = type.name if type.is_block() else ""
        parts = tensors.get(key)
        if parts is None:
            tensor_init(self, handle, type)
            own = ("handle", "type", "dtype")
            parts = tensors[key] = {k: v for k, v in self.__dict__.items() if k not in own}
        self.__dict__.update(parts)
        self.handle, self.type, self.dtype = handle, type, type.scalar

    patches.put(block, "__init__", init_block)
    patches.put(tensor, "__init__", init_tensor)
