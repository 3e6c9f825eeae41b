"""Which public names of Python, torch and Triton an answer may use; everything else is refused.

A list of what is allowed, since torch alone has many ways to run other code, to write files,
and to take the watch off. Names are followed to the module that owns them, so that a module which
imports another one is no way into it. Floor: course.
"""

import builtins
import contextlib
import importlib
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch

PLAIN_DUNDERS = frozenset("__name__ __doc__ __all__ __version__ __slots__".split())
METHODS = frozenset(
    "__init__ __call__ __post_init__ __enter__ __exit__ __iter__ __next__ __len__ __getitem__ "
    "__setitem__ __contains__ __repr__ __str__ __eq__ __lt__ __hash__ __add__ __sub__ __mul__ "
    "__bool__".split()
)
BUILTINS = frozenset(
    "abs all any ascii bin bool bytes bytearray callable chr classmethod complex dict divmod "
    "enumerate filter float format frozenset hasattr hash hex id input int isinstance issubclass "
    "iter len list map max min next object oct ord pow print property range repr reversed round "
    "set slice sorted staticmethod str sum super tuple type zip Ellipsis NotImplemented "
    "copyright credits license".split()
)
TORCH_MODULES = frozenset(
    "torch torch.autograd torch.autograd.function torch.backends torch.backends.cuda torch.cuda "
    "torch.linalg torch.nn torch.nn.functional torch.random torch.special torch.version".split()
)
TORCH = frozenset(  # beside its operations and dtypes
    "BoolTensor ByteTensor CharTensor DoubleTensor Event FloatTensor Generator HalfTensor "
    "IntTensor LongTensor OutOfMemoryError ShortTensor Size Stream Tensor BFloat16Tensor "
    "broadcast_shapes device dtype enable_grad finfo get_default_dtype get_num_threads iinfo "
    "inference_mode is_grad_enabled is_tensor layout manual_seed memory_format newaxis no_grad "
    "promote_types set_grad_enabled typename unique unravel_index".split()
)
NO_OPERATIONS = frozenset("from_file frombuffer from_numpy from_dlpack to_dlpack asarray".split())
TORCH_CUDA = frozenset(
    "Event Stream current_device current_stream default_stream device device_count "
    "get_device_capability get_device_name get_device_properties is_available is_bf16_supported "
    "mem_get_info synchronize".split()
)
TRITON_MODULES = frozenset(
    "triton triton.experimental triton.language triton.language.math triton.tools "
    "triton.tools.tensor_descriptor".split()
)
TRITON_BELOW = ("triton.language.extra", "triton.experimental.gluon")
TRITON = frozenset(
    "CompilationError Config OutOfResources autotune cdiv constexpr_function heuristics jit "
    "next_power_of_2 set_allocator".split()
)
STANDARD = {  # module -> names; None is all
    "math": None,
    "cmath": None,
    "itertools": None,
    "numbers": None,
    "__future__": None,
    "collections": "ChainMap Counter OrderedDict abc defaultdict deque namedtuple".split(),
    "collections.abc": None,
    "dataclasses": "asdict astuple dataclass field replace".split(),
    "enum": "Enum Flag IntEnum IntFlag StrEnum auto unique".split(),
    "functools": "cache cached_property cmp_to_key lru_cache partial reduce".split(),
    "textwrap": "dedent fill indent".split(),
    "time": "monotonic monotonic_ns perf_counter perf_counter_ns process_time sleep time".split(),
    "typing": "Any Callable ClassVar Dict Final Generic Iterable Iterator List Literal Mapping "
    "NamedTuple Optional Protocol Self Sequence Set TYPE_CHECKING Tuple Type TypeAlias TypeVar "
    "Union cast overload".split(),
    "typing_extensions": "Any Literal NamedTuple Optional Self TypeAlias".split(),
    "warnings": "filterwarnings simplefilter warn".split(),
    "numpy.linalg": None,
    "numpy.random": None,
}
NOT_OF_NUMPY = frozenset(
    "load save savez savez_compressed loadtxt savetxt genfromtxt fromfile memmap frombuffer "
    "fromregex DataSource vectorize frompyfunc apply_along_axis apply_over_axes piecewise "
    "fromfunction fromiter show_config get_include info source asmatrix bmat".split()
)
OWNED = (torch.Tensor, torch.Size, torch.device, torch.dtype, torch.Generator)
LIBRARIES = ("torch", "triton", "numpy")
TOPS = frozenset(name.split(".")[0] for name in STANDARD) | set(LIBRARIES)


@dataclass(frozen=True)
class Part:
    """One step of a dotted name: the module or the name that it leads to, by its owner's name."""

    name: str
    is_module: bool
    owner: str = ""  # module in which it was found
    home: str = ""  # module in which it was made, where known
    makes_classes: bool = False


def follow(path: str) -> list[Part]:
    """Where a dotted name leads, step by step; only modules that may be used are imported."""
    parts = path.split(".")
    if parts[0] not in TOPS:
        return [Part(path, True)]
    thing: Any = importlib.import_module(parts[0])
    found = [Part(parts[0], True)]
    for part in parts[1:]:
        owner = found[-1].name
        if isinstance(thing, ModuleType) and not hasattr(thing, part) and module(owner):
            with contextlib.suppress(ImportError):
                importlib.import_module(f"{owner}.{part}")
        thing = getattr(thing, part, None)
        if isinstance(thing, ModuleType):
            found.append(Part(thing.__name__, True, owner))
        else:
            home = getattr(thing, "__module__", "") if callable(thing) else ""
            meta = isinstance(thing, type) and issubclass(thing, type)
            found.append(Part(f"{owner}.{part}", False, owner, home or "", meta))
    return found


def allowed(part: Part, ranks: frozenset[str] = frozenset()) -> bool:
    """Whether an answer may use it; ``ranks`` are further names of torch.distributed."""
    if part.name in ranks or any(one.startswith(part.name + ".") for one in ranks):
        return True
    if part.is_module:
        return module(part.name)
    if part.makes_classes:
        return False
    last = part.name.rpartition(".")[2]
    owner, top = part.owner, part.owner.split(".")[0]
    if top in LIBRARIES:
        home = part.home.split(".")[0]
        if home and home not in (*LIBRARIES, "builtins"):  # such as functools.wraps in Triton
            return module(part.home) and _standard(part.home, last)
        return _library(owner, last)
    return _standard(owner, last)


def module(name: str) -> bool:
    """Whether an answer may use a module."""
    known = name in TORCH_MODULES or name in TRITON_MODULES or name in STANDARD
    return known or name == "numpy" or name.startswith(TRITON_BELOW)


def _standard(owner: str, last: str) -> bool:
    names = STANDARD.get(owner, ())
    return names is None or last in names


def _library(owner: str, last: str) -> bool:
    """A name of torch, Triton or numpy, or of a class of theirs."""
    if owner == "torch":
        kinds = (torch.dtype, torch.layout, torch.memory_format, int, float)
        operation = hasattr(torch._C._VariableFunctions, last) and last not in NO_OPERATIONS
        return operation or last in TORCH or isinstance(getattr(torch, last, None), kinds)
    if owner in ("torch.cuda", "triton", "numpy"):
        known = {"torch.cuda": TORCH_CUDA, "triton": TRITON}
        return last in known[owner] if owner in known else last not in NOT_OF_NUMPY
    return True


def builtin(name: str) -> bool:
    """Whether a bare name is one of Python's own that an answer may use, or none of those."""
    thing = getattr(builtins, name, None)
    is_error = isinstance(thing, type) and issubclass(thing, BaseException)
    known = name in BUILTINS or name in PLAIN_DUNDERS
    return known or is_error or not hasattr(builtins, name)


def owned(name: str) -> bool:
    """Whether torch or Triton has an attribute of this name, which an answer may not set."""
    import triton

    return any(
        hasattr(kind, name) for kind in (*OWNED, triton.JITFunction, triton.language.tensor)
    )
