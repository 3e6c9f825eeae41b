"""Stands in for Triton's compiled part where there is none: what the interpreter needs of it.

Imported as ``triton._C.libtriton``, by ``flashlab.compiler`` alone. Names that choose something
are enumerations with the members that Triton 3.6 to 3.9 have; what describes arguments, loads,
stores and updates memory works as compiled does; everything else is the compiler's, and says when
it is called that there is none.
"""

import ctypes
import enum
import os
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from flashlab.compiler import NONE_HERE

_IR = """
ATOMIC_OP: ADD FADD AND OR XOR XCHG MAX MIN UMIN UMAX
CACHE_MODIFIER: NONE CA CG WB CS WT CV
DESCRIPTOR_REDUCE_KIND: ADD AND OR XOR MAX MIN INC DEC
EVICTION_POLICY: NORMAL EVICT_FIRST EVICT_LAST
INPUT_PRECISION: TF32 TF32x3 IEEE BF16x3 BF16x6
MEM_SEMANTIC: ACQUIRE_RELEASE ACQUIRE RELEASE RELAXED
MEM_SYNC_SCOPE: GPU CTA SYSTEM
PADDING_OPTION: PAD_ZERO PAD_NAN
PROPAGATE_NAN: NONE ALL
ROUNDING_MODE: RTZ RTNE
ScaleDotElemTypeTY: E4M3 E5M2 E2M3 E3M2 E2M1 BF16 FP16
"""
_INTERPRETER = """
MEM_SEMANTIC: ACQUIRE_RELEASE ACQUIRE RELEASE RELAXED
RMW_OP: ADD FADD AND OR XOR XCHG MAX MIN UMIN UMAX
"""
_GLUON = "TMEM_LOAD_REDUCE_MODIFIER: MIN MAX"


class NoCompiler(RuntimeError):
    """Something needs the compiler."""


class _Absent(type):
    """A class of the compiler's: it can be named, not made; what it holds cannot be called."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        raise NoCompiler(f"{cls.__name__}: {NONE_HERE}")

    def __getattr__(cls, name: str) -> Any:
        return _absent(name)


def _absent(name: str) -> Any:
    if name.startswith("__"):  # asked for by the import system, copy and inspect
        raise AttributeError(name)
    return _Absent(name, (), {})


class _Part(ModuleType):
    """A submodule of the compiled part; names that are not set are the compiler's."""

    def __init__(self, name: str, choices: str = "", **known: Any) -> None:
        super().__init__(f"{__name__}.{name}")
        self.__path__: list[str] = []
        sys.modules[self.__name__] = self
        for line in choices.split("\n"):
            title, _, members = line.partition(": ")
            if members:
                setattr(self, title, enum.Enum(title, members, module=self.__name__))
        vars(self).update(known)

    def __getattr__(self, name: str) -> Any:
        made = _absent(name)
        setattr(self, name, made)
        return made


# ---- settings and what a launch says of its arguments
def getenv(name: str, default: str | None = None) -> str | None:
    """An environment variable."""
    return os.environ.get(name, default)


def getenv_bool(name: str, default: Any = None) -> Any:
    """An environment variable that says yes or no."""
    value = os.environ.get(name)
    return default if value is None else value.lower() in ("1", "true", "on", "yes", "y")


def get_cache_invalidating_env_vars() -> dict[str, str]:
    """Settings that change compiled code: none, as nothing is compiled."""
    return {}


def native_specialize_impl(
    backend: Any, arg: Any, is_const: bool, specialize: bool, align: bool
) -> tuple[Any, Any]:
    """An argument's type as Triton spells it, and what is known of its value."""
    if arg is None:
        return "constexpr", None
    if isinstance(arg, bool):
        return "u1", None
    if isinstance(arg, int):
        if specialize and arg == 1:
            return "constexpr", 1
        narrow, wide = -(1 << 31) <= arg < 1 << 31, -(1 << 63) <= arg < 1 << 63
        kind = "i32" if narrow else "i64" if wide else "u64"
        return kind, _divisible(arg, specialize, align)
    if isinstance(arg, float):
        return "fp32", None
    if isinstance(arg, tuple):
        parts = [native_specialize_impl(backend, part, False, True, True) for part in arg]
        return tuple(kind for kind, _ in parts), tuple(known for _, known in parts)
    return _specialize_object(arg, is_const, specialize, align)


def _specialize_object(arg: Any, is_const: bool, specialize: bool, align: bool) -> tuple[Any, Any]:
    from triton._utils import canonicalize_dtype

    kind = type(arg).__name__
    if hasattr(arg, "data_ptr"):
        address = arg.data_ptr()
        mark = "*k" if is_const else "*"
        return mark + canonicalize_dtype(arg.dtype), _divisible(address, specialize, align)
    if kind == "constexpr":
        return kind, arg
    if hasattr(arg, "cache_key"):
        return "constexpr", arg.cache_key
    if kind == "TensorDescriptor":
        layout = f",{arg.layout!r}" if hasattr(arg, "layout") else ""
        block = [*arg.block_shape]
        return f"tensordesc<{canonicalize_dtype(arg.base.dtype)}{block}{layout}>", None
    raise TypeError(f"failed to specialize argument of type: {kind}")


def _divisible(value: int, specialize: bool, align: bool) -> str | None:
    if not specialize:
        return None
    return "D" if align and value % 16 == 0 else ""


# ---- memory
class _Memory:
    """Real memory as numpy sees it, without a copy."""

    def __init__(self, address: int, count: int, dtype: np.dtype) -> None:
        self.__array_interface__ = {
            "data": (address, False), "shape": (count,), "typestr": dtype.str, "version": 3,
        }  # fmt: skip


_lock = threading.Lock()


def _at(addresses: np.ndarray, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Elements of real memory from the lowest of the addresses on, and which of them are meant."""
    low = int(addresses.min())
    steps, odd = np.divmod((addresses - np.uint64(low)).astype(np.int64), dtype.itemsize)
    if odd.any():
        raise ValueError(f"addresses are not whole elements of {dtype} apart")
    return np.asarray(_Memory(low, int(steps.max()) + 1, dtype)), steps


def _lanes(mask: Any, shape: tuple[int, ...]) -> np.ndarray:
    return np.broadcast_to(np.asarray(mask, bool), shape)


def _load(addresses: np.ndarray, mask: Any, other: Any, dtype: Any) -> np.ndarray:
    dtype, lanes = np.dtype(dtype), _lanes(mask, addresses.shape)
    out = np.array(np.broadcast_to(other, addresses.shape), dtype)
    if lanes.any():
        memory, steps = _at(addresses[lanes], dtype)
        out[lanes] = memory[steps]
    return out


def _store(addresses: np.ndarray, value: np.ndarray, mask: Any) -> None:
    lanes = _lanes(mask, addresses.shape)
    if lanes.any():
        memory, steps = _at(addresses[lanes], value.dtype)
        memory[steps] = np.broadcast_to(value, addresses.shape)[lanes]


_SIGNED, _UNSIGNED = ("int32", "int64"), ("uint32", "uint64")
_WHOLE = _SIGNED + _UNSIGNED
_RMW: dict[str, tuple[Callable, tuple[str, ...]]] = {  # what is done, on which types
    "ADD": (np.add, _WHOLE), "FADD": (np.add, ("float16", "float32", "float64")),
    "AND": (np.bitwise_and, _WHOLE), "OR": (np.bitwise_or, _WHOLE),
    "XOR": (np.bitwise_xor, _WHOLE), "XCHG": (lambda _, new: new, _WHOLE),
    "MAX": (np.maximum, _SIGNED), "MIN": (np.minimum, _SIGNED),
    "UMAX": (np.maximum, _UNSIGNED), "UMIN": (np.minimum, _UNSIGNED),
}  # fmt: skip


def _update(
    addresses: np.ndarray, lanes: np.ndarray, dtype: np.dtype, new: Callable[[Any, Any], Any]
) -> np.ndarray:
    """Set each lane's element to ``new(old, lane)``, lane after lane; what was there before."""
    before = np.zeros(addresses.shape, dtype)
    flat = before.reshape(-1)
    with _lock, np.errstate(all="ignore"):
        for lane in np.flatnonzero(lanes):
            memory, _ = _at(addresses.reshape(-1)[lane : lane + 1], dtype)
            flat[lane] = memory[0]
            memory[0] = new(flat[lane], lane)
    return before


def _atomic_rmw(op: Any, addresses: np.ndarray, value: Any, mask: Any, sem: Any) -> np.ndarray:
    values = np.broadcast_to(value, addresses.shape).reshape(-1)
    (work, types), lanes = _RMW[op.name], _lanes(mask, addresses.shape)
    if value.dtype.name not in types:
        raise ValueError("Unsupported data type")
    return _update(addresses, lanes, value.dtype, lambda old, lane: work(old, values[lane]))


def _atomic_cas(addresses: np.ndarray, expected: Any, value: Any, sem: Any) -> np.ndarray:
    olds = np.broadcast_to(expected, addresses.shape).reshape(-1)
    news = np.broadcast_to(value, addresses.shape).reshape(-1)
    return _update(
        addresses,
        np.ones(addresses.shape, bool),
        expected.dtype,
        lambda old, lane: news[lane] if old.tobytes() == olds[lane].tobytes() else old,
    )


# ---- a product and a sum, rounded once
def _fma_fp32(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """In fp64 the product is exact; the sum is rounded to odd, so that fp32 rounds it rightly."""
    with np.errstate(all="ignore"):
        product, addend = x.astype(np.float64) * y, z.astype(np.float64)
        total = product + addend
        part = total - product
        error = (product - (total - part)) + (addend - part)
        bits = total.view(np.int64)
        even = np.isfinite(total) & (error != 0) & (bits & 1 == 0)
        away = np.where((error > 0) == (total > 0), 1, -1)
        return (bits + np.where(even, away, 0)).view(np.float64).astype(np.float32)


def _fma_fp64(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """One by one, by the C library."""
    fma = ctypes.CDLL(None).fma
    fma.restype, fma.argtypes = ctypes.c_double, [ctypes.c_double] * 3
    return np.vectorize(fma, otypes=[np.float64])(x, y, z)


ir = _Part("ir", _IR)
interpreter = _Part(
    "interpreter", _INTERPRETER, load=_load, store=_store, atomic_rmw=_atomic_rmw,
    atomic_cas=_atomic_cas, fma_fp32=_fma_fp32, fma_fp64=_fma_fp64,
)  # fmt: skip
gluon_ir = _Part("gluon_ir", _GLUON)
for _name in ("passes", "llvm", "nvidia", "amd", "proton", "linear_layout"):
    globals()[_name] = _Part(_name)
gsan_testing = _Part("gsan_testing", PER_DEVICE_STATE_STRIDE_BYTES=0, GLOBAL_STATE_SIZE_BYTES=0)


def __getattr__(name: str) -> Any:
    return _absent(name)
