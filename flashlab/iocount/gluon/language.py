"""Gluon's names for a program on the CPU: ``gl``, ``tma``, ``mbarrier``, ``warpgroup_mma``."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import triton.experimental.gluon.language as gl
from triton.experimental.gluon.language.nvidia import hopper

from flashlab.iocount._triton.language import StaticAssertion
from flashlab.iocount.gluon.shared import Machine
from flashlab.iocount.gluon.tile import Int, Tile, apply, strange

LAYOUTS = (
    "AutoLayout BlockedLayout CoalescedLayout DistributedLinearLayout DotOperandLayout "
    "NVMMADistributedLayout NVMMASharedLayout PaddedSharedLayout SharedLinearLayout SliceLayout "
    "SwizzledSharedLayout MBarrierLayout"
).split()
FUNCTIONS = "exp exp2 log log2 sqrt floor ceil sin cos".split()
DTYPES = "float16 bfloat16 float32 int1 int32 int64".split()
HINTS = "assume multiple_of max_contiguous max_constancy static_print device_print".split()


class Layout:
    """Any layout: where values lie is the compiler's to check."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.parent = args[1] if len(args) > 1 else kwargs.get("parent")

    @classmethod
    def get_default_for(cls, *args: Any, **kwargs: Any) -> "Layout":
        return cls()


def _unary(function: Callable) -> Callable:
    return lambda x: apply(function, x if isinstance(x, Tile) else float(x))


def _reduce(function: Callable) -> Callable:
    def call(x: Tile, axis: int | None = None, keep_dims: bool = False) -> Any:
        data = function(x.data, axis=axis, keepdims=keep_dims)
        if not isinstance(data, np.ndarray) or data.ndim == 0:
            return Int(data) if x.data.dtype.kind == "i" else float(data)
        return Tile(data, x.dtype)

    return call


def _choose(function: Callable) -> Callable:
    """Of numbers the one, of tiles element by element; NaN is passed over, as the GPU does."""
    plain = {np.fmax: max, np.fmin: min}[function]
    return lambda a, b: apply(
        function if isinstance(a, Tile) or isinstance(b, Tile) else plain, a, b
    )


def _where(condition: Any, a: Any, b: Any) -> Any:
    values = [v for v in (a, b) if isinstance(v, Tile)]
    if not values and not isinstance(condition, Tile):
        return a if condition else b
    lay = max([v for v in (condition, a, b) if isinstance(v, Tile)], key=lambda t: t.data.ndim)
    dtype = values[0].dtype if values else (gl.float32 if float in map(type, (a, b)) else gl.int32)
    plain = [v.data if isinstance(v, Tile) else v for v in (condition, a, b)]
    return Tile(np.where(*plain), dtype, lay.layout)


def _cdiv(a: Any, b: Any) -> Any:
    return Int((a + b - 1) // b) if isinstance(a, int) else (a + b - 1) // b


def _static_assert(condition: Any, message: str = "") -> None:
    if not condition:
        raise StaticAssertion(message)


def _full(shape: Any, value: Any, dtype: Any, layout: Any = None) -> Tile:
    return Tile(np.full([int(n) for n in shape], value), dtype, layout)


def names(machine: Machine) -> dict[str, Any]:
    """Every emulated name by its own name; modules are namespaces."""
    language = {name: type(name, (Layout,), {}) for name in LAYOUTS}
    language |= {name: getattr(gl, name) for name in DTYPES}
    language |= {name: _unary(getattr(np, name)) for name in FUNCTIONS}
    language |= {
        "abs": _unary(np.abs), "rsqrt": _unary(lambda x: 1 / np.sqrt(x)),
        "fma": lambda x, y, z: x * y + z, "permute": lambda x, *order: x.permute(*order),
        "reshape": lambda x, *shape: x.reshape(*shape),
        **{name: (lambda x=None, *rest, **how: x) for name in HINTS},
        "max": _reduce(np.fmax.reduce), "min": _reduce(np.fmin.reduce),
        "sum": _reduce(np.add.reduce),
        "maximum": _choose(np.fmax), "minimum": _choose(np.fmin),
        "where": _where, "cdiv": _cdiv, "full": _full, "static_assert": _static_assert,
        "zeros_like": lambda x: Tile(np.zeros_like(x.data), x.dtype, x.layout),
        "zeros": lambda shape, dtype, layout=None: _full(shape, 0, dtype, layout),
        "arange": lambda a, b, layout=None: Tile(np.arange(a, b), gl.int32, layout),
        "static_range": range, "range": range, "constexpr": lambda value: value,
        "convert_layout": lambda x, layout, assert_trivial=False: _laid(x, layout),
        "expand_dims": lambda x, axis: Tile(np.expand_dims(x.data, axis), x.dtype, x.layout),
        "program_id": lambda axis: Int(machine.pid[axis]),
        "num_programs": lambda axis: Int(machine.grid[axis]),
        "load": lambda p, mask=True, other=None, **how: p.argument.load(p.offset, mask, other),
        "store": lambda p, x, mask=True, **how: p.argument.store(p.offset, x, mask),
        "atomic_add": lambda p, x, mask=True, **how: p.argument.store(p.offset, x, mask, add=True),
        "barrier": lambda *a, **k: None, "thread_barrier": lambda *a, **k: None,
    }  # fmt: skip
    return language | _hopper(machine)


def _laid(x: Any, layout: Any) -> Any:
    """The same values, also for a product that is not done (it says so when it is used)."""
    return Tile(x.data, x.dtype, layout)


def _hopper(machine: Machine) -> dict[str, Any]:
    def allocate(element_ty: Any, shape: Any, layout: Any = None, value: Any = None) -> Any:
        if element_ty.name == "int64":
            return machine.barriers(shape)
        buffer = machine.allocate(element_ty, [int(n) for n in shape])
        if value is not None:
            buffer.store(value)
        return buffer

    def mma(a, b, acc, *, use_acc=True, precision=None, max_num_imprecise_acc=None,
            is_async=False):  # fmt: skip
        return machine.product(a, b, acc, use_acc, is_async)

    def mma_wait(num_outstanding: int = 0, deps: Any = None) -> Any:
        if deps is None:
            raise ValueError("warpgroup_mma_wait deps must be given")
        return machine.product_wait(num_outstanding, deps)

    def specialize(functions_and_args, worker_num_warps, worker_num_regs=None) -> Any:
        workers = len(functions_and_args) - 1
        if {len(worker_num_warps), len(worker_num_regs or worker_num_warps)} != {workers}:
            raise TypeError("warp_specialize: warps and registers are those of all parts but one")
        return machine.specialize(functions_and_args)

    tma, mbarrier = _tma(machine), _mbarrier(machine)
    return {
        "tma": Known(hopper.tma, tma), "tma_add": tma["async_atomic_add"], **tma,
        "mbarrier": Known(hopper.mbarrier, mbarrier), **mbarrier,
        "allocate_shared_memory": allocate, "warp_specialize": specialize,
        "fence_async_shared": lambda *a, **k: machine.fence(),
        "warpgroup_mma": mma, "warpgroup_mma_wait": mma_wait,
    }  # fmt: skip


def _tma(machine: Machine) -> dict[str, Any]:
    def load(tensor_desc, coord, barrier, result, pred=True, **how: Any) -> None:
        machine.load(tensor_desc, coord, barrier, result, pred)

    def store(tensor_desc, coord, src, **how: Any) -> None:
        machine.store(tensor_desc, coord, src)

    return {
        "async_load": load,
        "async_copy_global_to_shared": load,
        "async_store": store,
        "async_copy_shared_to_global": store,
        "async_atomic_add": lambda desc, coord, src: machine.store(desc, coord, src, add=True),
        "store_wait": lambda pendings, **how: machine.store_wait(pendings),
    }


def _mbarrier(machine: Machine) -> dict[str, Any]:
    def arrive(mbarrier, *, count=1, pred=True) -> Any:
        return machine.arrive(mbarrier, count) if pred else None

    def expect(mbarrier, bytes_per_cta=None, pred=True, *, bytes=None) -> Any:
        nbytes = bytes if bytes_per_cta is None else bytes_per_cta  # Triton 3.6 calls it bytes
        return machine.arrive(mbarrier, 1, nbytes) if pred else None

    def wait(mbarrier, phase, pred=True, deps=()) -> Any:
        return machine.wait(mbarrier, phase) if pred else None

    return {
        "MBarrierLayout": Layout,
        "allocate_mbarrier": lambda batch=None: machine.barriers([batch, 1] if batch else [1]),
        "init": lambda mbarrier, count: mbarrier.init(count),
        "expect": expect,
        "wait": wait,
        "arrive": arrive,
        "invalidate": lambda mbarrier: mbarrier.init(0),
    }


class Known(SimpleNamespace):
    """A module's names that are known here; of its others it says that they are not."""

    def __init__(self, module: Any, known: dict[str, Any]) -> None:
        super().__init__(**known)
        self._module = module

    def __getattr__(self, name: str) -> Any:
        raise strange(self._module, name)
