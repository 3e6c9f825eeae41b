"""One kernel compiled for one target: sizes, registers and what the code is made of. Floor: core.

Runs in a process of its own (see worker.py): the learner's module is executed here and some code
ends the compiler with a signal. Touches Triton's private names.
"""

import contextlib
import dataclasses
import difflib
import io
import re
import types
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import CUDAOptions
from triton.compiler.compiler import ASTSource
from triton.experimental.gluon._runtime import GluonASTSource

from flashlab.aot import refusals
from flashlab.aot.launch import Launch, decode
from flashlab.loading import jit_function, load_module

# What is counted in the PTX of a kernel. wgmma and tcgen05 stand for their multiply instructions.
_HALF = "(?:b?f16|tf32)"  # factors of products that are not FP8
INSTRUCTIONS = {
    "mma": r"\bmma\.sync\b",
    "wgmma": r"\bwgmma\.mma_async\b",
    "tcgen05": r"\btcgen05\.mma\b",
    "half": rf"\b(?:mma|wgmma|tcgen05)\.\S*(?:\.{_HALF}\.{_HALF}|kind::{_HALF})\b",
    "cp_async": r"\bcp\.async\.c[ag]\b",
    "tma": r"\bcp\.async\.bulk\.tensor\b",
    "ldmatrix": r"\bldmatrix\b",
    "mbarrier": r"\bmbarrier\.",
    "setmaxnreg": r"\bsetmaxnreg\b",
    "exp": r"\bex2\.approx\b",
    "ld_global": r"\bld\.global\b",
    "st_global": r"\bst\.global\b",
}


def build(text: str, filename: str, launch: Launch, arch: int) -> dict[str, Any]:
    """Compile ``launch`` for ``arch``: the fields of ``Compiled`` that are known here."""
    try:
        module = load_module(text, filename)
    except BaseException as error:
        return refusals.not_loaded(error, filename)
    try:
        fn = _kernel(module, launch)
        compiled, log = _compile(module, fn, launch, arch)
    except Exception as error:
        return refusals.explain(error, filename, arch)
    meta = compiled.metadata
    return {
        "shared_bytes": meta.shared,
        "tensor_memory_columns": getattr(meta, "tmem_size", None) or 0,
        "threads": 32 * (getattr(meta, "num_warps", None) or launch.num_warps),
        "counts": count(compiled.asm["ptx"]),
        **read_log(log),
    }


def _kernel(module: types.ModuleType, launch: Launch) -> Any:
    for value in list(vars(module).values()):
        fn = jit_function(value)
        if isinstance(fn, triton.JITFunction) and fn.fn.__name__ == launch.kernel:
            return fn
    raise refusals.Refused(
        f"kernel {launch.kernel} is not at module level of the file: kernels made inside a "
        "function cannot be compiled offline"
    )


def _compile(module: types.ModuleType, fn: Any, launch: Launch, arch: int) -> tuple[Any, str]:
    _check_options(fn, launch)
    signature = {name: _tupled(entry) for name, entry in launch.signature.items()}
    constexprs = {path: decode(value, vars(module)) for path, value in launch.constexprs}
    attrs = {path: [["tt.divisibility", 16]] for path in launch.divisible}
    source = (GluonASTSource if fn.is_gluon() else ASTSource)(fn, signature, constexprs, attrs)
    log = io.StringIO()
    with triton.knobs.nvidia.scope(), contextlib.redirect_stdout(log):
        triton.knobs.nvidia.dump_ptxas_log = True
        target = GPUTarget("cuda", arch, 32)
        compiled = triton.compile(source, target=target, options=dict(launch.options))
    return compiled, log.getvalue()


def _check_options(fn: Any, launch: Launch) -> None:
    known = {f.name for f in dataclasses.fields(CUDAOptions)}
    for name in launch.options:
        if name not in known:
            candidates = [*launch.signature, "num_warps", "num_stages", "num_ctas", "maxnreg"]
            near = difflib.get_close_matches(name, candidates, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise refusals.Refused(
                f"{launch.kernel} was launched with {name}=, which is neither one of its "
                f"parameters nor a launch option{hint}"
            )


def _tupled(entry: Any) -> Any:
    return entry if isinstance(entry, str) else tuple(_tupled(e) for e in entry)


def count(ptx: str) -> dict[str, int]:
    """How often each kind of ``INSTRUCTIONS`` stands in the PTX (not how often it runs)."""
    return {kind: len(re.findall(pattern, ptx)) for kind, pattern in INSTRUCTIONS.items()}


def read_log(log: str) -> dict[str, Any]:
    """Registers a thread, stack, spills and warnings from what ptxas -v prints."""

    def number(pattern: str) -> int:
        return max((int(n) for n in re.findall(pattern, log)), default=0)

    return {
        "registers": number(r"Used (\d+) registers"),
        "stack_bytes": number(r"(\d+) bytes stack frame"),
        "spill_bytes": number(r"(\d+) bytes spill stores") + number(r"(\d+) bytes spill loads"),
        "serialized": "wgmma.mma_async instructions are serialized" in log,
    }
