"""Hooks on every operation that computes: FLOPs by kind, tile lifetimes, taint, bf16."""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
import triton.runtime.interpreter as interp
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

from flashlab.iocount._triton import taint
from flashlab.iocount._triton.patch import Patches
from flashlab.iocount._triton.repairs import fp8_values, round_off, tf32
from flashlab.iocount.recorder import Recorder


def _names(words: str) -> set[str]:
    return {f"create_{word}" for word in words.split()}


VIEWS = _names("expand_dims broadcast trans reshape splat unsplat bitcast")
_EXP = _names("exp exp2")
_SPECIAL = _names("log log2 sin cos sqrt rsqrt precise_sqrt erf")
_DIVIDE = _names("fdiv precise_divf approx_divf")
_FLOAT = _names(
    "fadd fsub fmul frem fneg fma fabs floor ceil clampf minimumf maximumf minnumf maxnumf"
)
_COMPARE = _names("select") | {n for n in dir(InterpreterBuilder) if n.startswith("create_fcmp")}
_CONVERT = _names("fp_ext fp_trunc fp_to_fp si_to_fp ui_to_fp fp_to_si fp_to_ui")
_MEMORY = _names("masked_load masked_store atomic_rmw atomic_cas")
_INNER = _names(  # these call the ones above, or compute nothing
    "load store idiv tensor_pointer_load tensor_pointer_store descriptor_load descriptor_store "
    "descriptor_gather descriptor_scatter atomic_load atomic_store atomic_poll "
    "make_tensor_descriptor make_block_ptr advance print assert barrier assume "
    "get_program_id get_num_programs inline_asm extern_elementwise make_range"
)


def kind_of(name: str) -> str | None:
    """Which count an operation goes to; None for views and the like."""
    for names, kind in (
        (_EXP, "exp"),
        (_SPECIAL, "special"),
        (_DIVIDE, "divide"),
        (_FLOAT, "elementwise"),
        (_COMPARE, "compare"),
        (_CONVERT, "convert"),
        (VIEWS | _names("join split cat gather"), None),
    ):
        if name in names:
            return kind
    return "integer"


def install(patches: Patches, rec: Recorder, use_tf32: bool) -> None:
    """Count every operation into ``rec``."""
    for name in dir(InterpreterBuilder):
        if name.startswith("create_") and name not in _MEMORY | _INNER:
            original = getattr(InterpreterBuilder, name)
            if name == "create_dot":
                hook = _dot(original, rec, use_tf32)
            elif name == "create_dot_scaled":
                hook = _scaled_dot(original, rec)
            else:
                hook = _operation(name, original, rec)
            patches.put(InterpreterBuilder, name, hook)
    for cls in (interp.ReduceOps, interp.ScanOps):
        patches.put(cls, "apply_impl", _reduction(cls, rec))


def _operation(name: str, original: Callable, rec: Recorder) -> Callable:
    kind, weight = kind_of(name), 2 if name == "create_fma" else 1
    view = name in VIEWS

    def hook(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        if kind is not None:
            rec.flops[kind] += result.data.size * weight
            if result.dtype is tl.bfloat16 and kind != "compare":
                result.data = round_off(result.data, 16)
        if rec.tainted:
            taint.propagate(name, original, self, args, result)
        if rec.live is not None:
            _live(rec, args, result, view)
        if rec.large:
            taint.wrapped(rec, name, original, self, args, result)
        return result

    return hook


def _live(rec: Recorder, args: tuple, result: Any, view: bool) -> None:
    """Tell the liveness of the first program about an operation."""
    live = rec.live
    if live.full:
        return
    handles = [h for h in args if type(h) is TensorHandle]
    now = live.use(handles)
    for made in result if type(result) is tuple else (result,):
        tile = getattr(handles[0], "_tile", None) if view and handles else None
        if tile is not None:
            made._tile = tile
        elif type(made) is TensorHandle:
            make(rec, made, now)


def make(rec: Recorder, handle: TensorHandle, now: int) -> None:
    """A float tile was made at ``now``."""
    dtype = handle.dtype.scalar
    if handle.data.size > 1 and dtype.is_floating():
        size = handle.data.size * dtype.primitive_bitwidth // 8
        rec.live.make(handle, size, rec.where(), now)


def _dot(original: Callable, rec: Recorder, use_tf32: bool) -> Callable:
    def hook(self: Any, a: Any, b: Any, d: Any, precision: Any, *rest: Any) -> Any:
        x, y = _operand(a), _operand(b)
        if use_tf32 and a.dtype.scalar == tl.float32:
            text = str(precision)
            if "TF32" in text and "x3" not in text:
                x, y = tf32(x), tf32(y)
        result = original(self, x, y, d, precision, *rest)
        if result.dtype is tl.bfloat16:
            result.data = round_off(result.data, 16)
        rec.flops["matmul"] += 2 * a.data.shape[-1] * result.data.size
        if rec.tainted:
            taint.product(a, b, d, result)
        _live_product(rec, (a, b, d), d, result)
        return result

    return hook


def _operand(handle: TensorHandle) -> TensorHandle:
    """fp8 as the fp32 numbers it stands for (upstream's conversion loses NaN)."""
    name = handle.dtype.scalar.name
    if name in ("fp8e4nv", "fp8e5"):
        return TensorHandle(fp8_values(handle.data, name), tl.float32)
    return handle


def _scaled_dot(original: Callable, rec: Recorder) -> Callable:
    def hook(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        accumulator = args[9] if len(args) > 9 else kwargs.get("acc_handle")
        k = args[0].data.shape[-1] * (2 if args[0].dtype == tl.uint8 else 1)
        rec.flops["matmul"] += 2 * k * result.data.size
        if rec.tainted:
            taint.anything(args, result)
        _live_product(rec, args, accumulator, result)
        return result

    return hook


def _live_product(rec: Recorder, inputs: tuple, accumulator: Any, result: Any) -> None:
    if rec.live is not None and not rec.live.full:
        now = rec.live.use(inputs, keeps=True, accumulator=accumulator)
        make(rec, result, now)


def _reduction(cls: type, rec: Recorder) -> Callable:
    original, reduces = cls.apply_impl, cls is interp.ReduceOps
    highest, lowest = tl.standard._elementwise_max, tl.standard._elementwise_min

    def apply_impl(self: Any, inputs: Any) -> Any:
        first = inputs[0] if isinstance(inputs, tuple) else inputs
        counters, rec.flops = (
            rec.flops,
            defaultdict(int),
        )  # a combine function's own work is not counted
        try:
            if reduces and (self.combine_fn is highest or self.combine_fn is lowest):
                ufunc = np.fmax if self.combine_fn is highest else np.fmin
                data = ufunc.reduce(first.handle.data, axis=self.axis, keepdims=self.keep_dims)
                result = self.to_tensor(data, first.dtype)
            else:
                result = original(self, inputs)
        finally:
            rec.flops = counters
        made = result if isinstance(result, (list, tuple)) else (result,)
        for tensor in made:
            if tensor.handle.dtype is tl.bfloat16:
                tensor.handle.data = round_off(tensor.handle.data, 16)
        if first.handle.dtype.scalar.is_floating():
            size = first.handle.data.size
            rec.flops["reduce"] += size - (made[0].handle.data.size if reduces else 0)
        handles = [t.handle for t in (inputs if isinstance(inputs, tuple) else (inputs,))]
        if rec.tainted:
            taint.reduced(self, handles, [t.handle for t in made], reduces)
        if rec.live is not None and not rec.live.full:
            now = rec.live.use(handles, keeps=True)
            for tensor in made:
                make(rec, tensor.handle, now)
        return result

    return apply_impl
