"""A launch's arguments as kernel code sees them: tensors in host memory, typed scalars."""

import dataclasses
from typing import Any

import numpy as np
import torch
import triton.language as tl
import triton.runtime.interpreter as interp
from triton.runtime.interpreter import TensorHandle
from triton.runtime.jit import TensorWrapper
from triton.tools.tensor_descriptor import TensorDescriptor

from flashlab.iocount._triton.repairs import to_bf16
from flashlab.iocount.argument import Argument


class Host:
    """Tensors of a launch in host memory; a CUDA storage is copied, and given back at the end."""

    def __init__(self) -> None:
        self.tensors: list[tuple[str, torch.Tensor, torch.Tensor]] = []
        self._copies: dict[int, tuple[Any, Any]] = {}

    def take(self, name: str, value: Any) -> Any:
        """The value with its tensors on the host; every tensor is noted."""
        if isinstance(value, TensorDescriptor):
            base = self.take(name, value.base)
            return dataclasses.replace(value, base=base)
        if isinstance(value, TensorWrapper):
            raw = self._move(value.base)
            self.tensors.append((name, value.base, raw))
            return TensorWrapper(raw, value.dtype)
        if isinstance(value, torch.Tensor):
            raw = self._move(value)
            self.tensors.append((name, value, raw))
            return raw
        if isinstance(value, tuple):
            items = [self.take(f"{name}[{i}]", v) for i, v in enumerate(value)]
            return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
        return value

    def _move(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.device.type == "cpu":
            return tensor.detach()
        device = tensor.untyped_storage()
        if device.data_ptr() not in self._copies:
            self._copies[device.data_ptr()] = (device, device.cpu())
        host = self._copies[device.data_ptr()][1]
        out = torch.empty(0, dtype=tensor.dtype)
        return out.set_(host, tensor.storage_offset(), tensor.size(), tensor.stride())

    def give_back(self, arguments: list[Argument]) -> None:
        """Copy the storages that the kernel wrote back to the device."""
        for (_, tensor, _), argument in zip(self.tensors, arguments, strict=True):
            copy = self._copies.pop(tensor.untyped_storage().data_ptr(), None)
            if copy is not None and argument.shadow.stored:
                copy[0].copy_(copy[1])


def convert(value: Any, made: Any, typed: Any = None) -> Any:
    """An argument as compiled code sees it; tensors become pointers into their windows.

    Args:
        value: What the launch passed.
        made: The launch's arguments, in order.
        typed: The Triton type that the signature gives to a scalar, or None.
    """
    if isinstance(value, (bool, int, float)) and typed is not None:
        return _scalar(value, typed)
    if isinstance(value, bool):
        return _scalar(value, tl.int1)
    if isinstance(value, float):  # upstream leaves a Python number, which adapts to a half tile
        return _scalar(value, tl.float32)
    if isinstance(value, (torch.Tensor, TensorWrapper)):
        argument: Argument = next(made)
        pointer = interp._implicit_cvt(value)
        pointer.handle.data = np.array([argument.virtual], np.uint64)
        return pointer
    if isinstance(value, TensorDescriptor):
        return _descriptor(value, made)
    if isinstance(value, tuple):
        items = [convert(v, made) for v in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    return interp._implicit_cvt(value)


def _scalar(value: float, dtype: Any) -> Any:
    handle = TensorHandle(np.array([value]).astype(interp._get_np_dtype(dtype)), dtype)
    if dtype == tl.bfloat16:
        handle.data = to_bf16(handle.data)
    return tl.tensor(handle, dtype)


def _descriptor(value: TensorDescriptor, made: Any) -> Any:
    base = convert(value.base, made)
    strides = [interp._implicit_cvt(s) for s in value.strides[:-1]] + [tl.constexpr(1)]
    described = interp.interpreter_semantic.make_tensor_descriptor(
        base=base,
        shape=[interp._implicit_cvt(s) for s in value.shape],
        strides=strides,
        block_shape=[tl.constexpr(b) for b in value.block_shape],
        padding_option=value.padding,
    )
    if hasattr(described.handle, "round_f32_to_tf32"):
        described.handle.round_f32_to_tf32 = value.round_f32_to_tf32
    return described
