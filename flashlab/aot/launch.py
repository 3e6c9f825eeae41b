"""What a kernel launch asks of the compiler, as data. Floor: core.

Touches Triton's private names: the binder that a launch uses to describe its arguments.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Mapping
from typing import Any

import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import make_backend
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITCallable, JITFunction, create_function_from_signature

NOT_OPTIONS = ("grid", "warmup")


@dataclasses.dataclass(frozen=True)
class Launch:
    """One kernel launch, reduced to what decides the compiled code; survives JSON.

    Args:
        kernel: Name of the jitted function.
        grid: Programs along three axes; does not change the code.
        signature: Parameter -> type as Triton spells it (``"*fp16"``, ``"i32"``, ``"constexpr"``,
            ``"tensordesc<fp16[64, 64]>"``; a list for a tuple argument).
        constexprs: ``(path, value)`` pairs; a path is ``(parameter number, ...)`` and a value is
            what ``encode`` makes of it. Holds None pointers and ints equal to 1, as a launch does.
        divisible: Paths of arguments known to be multiples of 16.
        constants: Parameters declared ``tl.constexpr``, by name (tile sizes, switches).
        options: Launch options that were given (``num_warps``, ``num_stages``, ...).
    """

    kernel: str
    grid: tuple[int, int, int]
    signature: Mapping[str, Any]
    constexprs: tuple[tuple[tuple[int, ...], Any], ...]
    divisible: tuple[tuple[int, ...], ...]
    constants: Mapping[str, Any]
    options: Mapping[str, Any]

    @property
    def num_warps(self) -> int:
        """Warps of one program (Triton's default: 4)."""
        return self.options.get("num_warps", 4)

    @property
    def num_stages(self) -> int:
        """Stages of software pipelining asked for (Triton's default: 3)."""
        return self.options.get("num_stages", 3)

    def to_json(self) -> dict[str, Any]:
        """Plain dictionaries and lists."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Launch":
        """The launch that ``to_json`` wrote, also after a trip through JSON text."""
        return cls(
            data["kernel"],
            tuple(data["grid"]),
            data["signature"],
            tuple((tuple(path), value) for path, value in data["constexprs"]),
            tuple(tuple(path) for path in data["divisible"]),
            data["constants"],
            data["options"],
        )


def encode(value: Any) -> Any:
    """A constexpr as JSON: plain values as they are, the rest as a tagged dictionary.

    Raises:
        TypeError: for a value that cannot be named in another process.
    """
    if isinstance(value, tl.constexpr):
        return encode(value.value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tl.dtype):
        return {"dtype": value.name}
    if isinstance(value, JITCallable):
        return {"function": value.fn.__name__}
    if isinstance(value, list | tuple):
        return {"list" if isinstance(value, list) else "tuple": [encode(v) for v in value]}
    if dataclasses.is_dataclass(value):  # Gluon's layouts
        fields = {
            f.name: encode(getattr(value, f.name)) for f in dataclasses.fields(value) if f.init
        }
        return {"layout": type(value).__name__, "fields": fields}
    if hasattr(value, "__index__"):
        return int(value)
    raise TypeError(
        "a constexpr must be a number, a string, a tl.dtype, a kernel function or a tuple of "
        f"them, not {type(value).__name__}"
    )


def decode(value: Any, namespace: Mapping[str, Any]) -> Any:
    """What ``encode`` was given; functions are looked up in ``namespace``."""
    if not isinstance(value, dict):
        return value
    if "dtype" in value:
        return tl.dtype(value["dtype"])
    if "function" in value:
        return namespace[value["function"]]
    if "layout" in value:
        from triton.experimental.gluon import language as gl

        fields = {name: decode(v, namespace) for name, v in value["fields"].items()}
        return getattr(gl, value["layout"])(**fields)
    (kind, parts), *_ = value.items()
    return {"list": list, "tuple": tuple}[kind](decode(v, namespace) for v in parts)


def describe_launch(
    jit_fn: Any, grid: Any, bound_args: Mapping[str, Any], options: Mapping[str, Any]
) -> Launch:
    """Describe a launch by Triton's own binder, without a GPU.

    Integers count as multiples of 16 by their value. Pointers always do: the padded views that
    tests use start anywhere, real tensors start at a multiple of 16.

    Args:
        jit_fn: ``@triton.jit`` or ``@gluon.jit`` function, or what wraps one.
        grid: Tuple of ints, or a function of the bound arguments.
        bound_args: Value of every parameter by name; tensors may live on any device.
        options: Keyword arguments that are no parameters.

    Raises:
        TypeError: if an argument is missing or of a kind that no kernel takes.
    """
    fn = unwrap(jit_fn)
    binder = create_function_from_signature(fn.signature, fn.params, _backend())
    bound, specialization, _ = binder(**bound_args)
    _, signature, constexprs, attrs = fn._pack_args(_backend(), {}, bound, specialization, {})
    if callable(grid):
        grid = grid(dict(bound))
    marked = {path for path, attr in attrs.items() if attr}
    marked |= {p for p in _pointers(signature) if not _alignment_unused(fn.params[p[0]])}
    return Launch(
        fn.fn.__name__,
        tuple(int(n) for n in (*grid, 1, 1)[:3]),
        {name: _listed(entry) for name, entry in signature.items()},
        tuple((path, encode(value)) for path, value in constexprs.items()),
        tuple(sorted(marked)),
        {p.name: encode(bound[p.name]) for p in fn.params if p.is_constexpr},
        {name: value for name, value in options.items() if name not in NOT_OPTIONS},
    )


def unwrap(fn: Any) -> JITFunction:
    """The jitted function inside autotune, heuristics or an interpreted twin."""
    while not isinstance(fn, JITFunction):
        if not hasattr(fn, "fn"):
            raise TypeError(f"{fn!r} is not a kernel: decorate it with @triton.jit")
        inner = fn.fn
        fn = (
            inner if hasattr(inner, "fn") or isinstance(inner, JITFunction) else JITFunction(inner)
        )
    return fn


@functools.cache
def _backend() -> Any:
    return make_backend(GPUTarget("cuda", 90, 32))


def _pointers(signature: Mapping[str, Any]) -> list[tuple[int, ...]]:
    def walk(path: tuple[int, ...], entry: Any):
        if isinstance(entry, str):
            return [path] if entry.startswith("*") else []
        return itertools.chain.from_iterable(walk((*path, i), e) for i, e in enumerate(entry))

    return [p for i, entry in enumerate(signature.values()) for p in walk((i,), entry)]


def _listed(entry: Any) -> Any:
    return entry if isinstance(entry, str) else [_listed(e) for e in entry]


def _alignment_unused(param: Any) -> bool:
    return param.do_not_specialize or param.do_not_specialize_on_alignment


def capture(call: Callable[[], Any]) -> list[Launch]:
    """The launches that ``call()`` makes, in order, without running any kernel.

    Needs no GPU: each launch is described instead, so outputs keep what they held. Of an
    autotuned kernel the first configuration is taken. For launches of a run under the recorder,
    pass ``count_io(on_launch=...)`` a function that calls ``describe_launch``.
    """
    launches: list[Launch] = []

    def run(self: JITFunction, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> None:
        names = [p.name for p in self.params]
        options = {k: v for k, v in kwargs.items() if k not in names}
        inputs = {k: v for k, v in kwargs.items() if k in names}
        bound = self.signature.bind(*args, **inputs)
        bound.apply_defaults()
        launches.append(describe_launch(self, grid, bound.arguments, options))

    def first_config(self: Autotuner, *args: Any, **kwargs: Any) -> None:
        self.fn.run(*args, **{**kwargs, **self.configs[0].all_kwargs()})

    saved = JITFunction.run, Autotuner.run
    JITFunction.run, Autotuner.run = run, first_config
    try:
        call()
    finally:
        JITFunction.run, Autotuner.run = saved
    return launches
