"""A compiler's refusal in words: the learner's line and the usual cause. Floor: core.

Touches Triton's private names: its errors, and jitted functions, which keep their own text.
"""

import ast
import inspect
import linecache
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from triton.compiler.errors import CompilationError

from flashlab.iocount.habits import advice
from flashlab.loading import fault, jit_function, kernels_of

# What the compiler says -> what a learner can do about it. {1}, {2} are groups of the pattern.
CAUSES = (
    (r"AST node type: Break", "a compiled kernel has no `break`: bound the loop or mask the work"),
    (r"AST node type: Continue", "a compiled kernel has no `continue`: use `if` or a mask"),
    (r"AST node type: Raise", "a compiled kernel cannot raise: use tl.static_assert"),
    (r"AST node type: (\w+)", "a compiled kernel cannot use this kind of Python ({1})"),
    (
        r"'tuple' object has no attribute append|'append' is not in list",
        "a list inside a kernel cannot grow (list.append): keep running tiles in variables",
    ),
    (
        r"Cannot access global variable (\w+)",
        "a kernel may not read the global {1}: pass it as a tl.constexpr parameter, or make it "
        "tl.constexpr(...) at module level",
    ),
    (
        r"Unsupported function referenced: <(?:function|built-in method) ([\w.<>]+)",
        "a kernel cannot call {1}, which is plain Python: decorate it with @triton.jit or use a "
        "tl function",
    ),
    (
        r"warpgroup_mma_accumulator",
        "a product that warpgroup_mma started is used, or goes round a loop, before "
        "warpgroup_mma_wait has returned it: name it in deps and use what comes back",
    ),
    (
        r"Loop-carried variable (\w+) has initial type (.+) but is re-assigned to (.+) in loop",
        "{1} starts the loop as {2} and leaves an iteration as {3}: start it with the type "
        "and shape that the loop gives it",
    ),
    (
        r"Input shapes should have (M >= \d+, N >= \d+ and K >= \d+)",
        "tl.dot needs tiles with {1} on this GPU: use tiles of at least 16",
    ),
    (
        r"[Bb]oolean value of Tensor with more than one value",
        "`if` on a tile has no single truth value: use tl.where, or & and | in a mask",
    ),
    (
        r"simultaneous multiple comparison is not supported",
        "a chained comparison is not supported here: write (a <= i) & (i < b)",
    ),
    (r"arange's range must be a power of 2", "tl.arange needs a length that is a power of 2"),
    (
        r"arange's arguments must be of type tl.constexpr",
        "tl.arange needs bounds known when the kernel is compiled: make them tl.constexpr",
    ),
    (
        r"numel \((\d+)\) exceeds triton maximum tensor numel \((\d+)\)",
        "a tile of {1} elements is too big: Triton stops at {2}",
    ),
    (
        r"type (fp8\w+) not supported in this architecture",
        "{1} values do not exist on this GPU: they need sm_89 or newer",
    ),
    (
        r"descriptor block and tensor (?:types )?must",
        "this use of tensor descriptors does not compile here; with warp_specialize on sm_90 make "
        "the descriptors inside the kernel (tl.make_tensor_descriptor)",
    ),
)
BRANCH = (
    "{name} is not defined here on every path: it gets its value only inside a branch or loop, "
    "so give it one before"
)
# Instructions whose absence ends the compiler: Hopper's wgmma, and register moves between warps.
HOPPER_ONLY = ("wgmma", "setmaxnreg")


class Refused(Exception):
    """A refusal of ours, already in words."""


def explain(error: Exception, filename: str, arch: int) -> dict[str, Any]:
    """``error`` as fields of ``Compiled``: kind, sentence, message and line."""
    if isinstance(error, Refused):
        return _fields("refused", str(error), str(error))
    chain = list(_causes(error))
    if not any(isinstance(e, CompilationError) for e in chain):
        return _explain_other(chain, filename, arch)
    said = next(e for e in reversed(chain) if _said(e))
    at = next(
        (e for e in reversed(chain) if isinstance(e, CompilationError) and _home(e, filename)),
        None,
    )
    if at is None:
        return _fields(
            "refused", f"the compiler refuses the kernel for sm_{arch}: {_said(said)}", _said(said)
        )
    fn = _home(at, filename)
    return _at_line(filename, fn, at.node, _said(said))


def not_loaded(error: BaseException, filename: str) -> dict[str, Any]:
    """A learner's file whose own top level fails."""
    line, problem = fault(error, filename)
    where = f"line {line} of {_name(filename)}" if line else _name(filename)
    return _fields("load", f"{where}: {problem}", problem, line)


def _explain_other(chain: list[BaseException], filename: str, arch: int) -> dict[str, Any]:
    text = f"{chain[-1]}"
    if "Unsupported function referenced" in text:
        name = re.search(r"<(?:function|built-in method) ([\w.]+)", text)
        for fn in _kernels(filename):
            for node in ast.walk(fn.parse()):
                called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
                if name and called.split(".")[-1] == name[1].split(".")[-1]:
                    return _at_line(filename, fn, node, text)
    if "ptxas" in text:
        fatal = re.findall(r"ptxas\S* (?:fatal|error)\s*: (.+)", text)
        reason = fatal[0] if fatal else text.splitlines()[0]
        return _fields(
            "refused", f"the assembler refuses the kernel for sm_{arch}: {reason}", reason
        )
    first = text.splitlines()[0] if text else type(chain[-1]).__name__
    return _fields("refused", f"the compiler refuses the kernel for sm_{arch}: {first}", text)


def _fields(kind: str, sentence: str, message: str, line: int | None = None) -> dict[str, Any]:
    return {"error": kind, "sentence": sentence, "message": message, "line": line}


def _name(filename: str) -> str:
    return Path(filename).name


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _said(error: BaseException) -> str:
    """The compiler's own words, without the ``NameError('...')`` that it wraps some in."""
    text = error.error_message if isinstance(error, CompilationError) else str(error)
    wrapped = re.fullmatch(r"\w+(?:Error|Exception)\((['\"].*['\"])\)", text or "", re.DOTALL)
    return str(ast.literal_eval(wrapped[1])) if wrapped else (text or "")


def _kernels(filename: str) -> list[Any]:
    """Every kernel of the learner's file that is in memory."""
    modules = [m for m in list(sys.modules.values()) if getattr(m, "__file__", None) == filename]
    return [jit_function(fn) for module in modules for fn in kernels_of(module).values()]


def _home(error: CompilationError, filename: str) -> Any:
    """The learner's function that ``error`` points into, or None."""
    return next((fn for fn in _kernels(filename) if fn.src == error.src), None)


def _at_line(filename: str, fn: Any, node: Any, said: str) -> dict[str, Any]:
    lines, first = inspect.getsourcelines(fn.fn)
    head = next(i for i, text in enumerate(lines) if text.lstrip().startswith("def "))
    line = first + head + getattr(node, "lineno", 1) - 1
    source = lines[min(line - first, len(lines) - 1)].rstrip("\n")
    dedent = len(lines[head]) - len(lines[head].lstrip())
    caret = " " * (getattr(node, "col_offset", 0) + dedent) + "^"
    reason = advice("".join(linecache.getlines(filename)), line, said) or _reason(said, fn)
    return _fields(
        "refused",
        f"line {line} of {_name(filename)}: {reason}",
        f"{_name(filename)}:{line}\n{source}\n{caret}\n{said}",
        line,
    )


def _reason(said: str, fn: Any) -> str:
    missing = re.search(r"^(\w+) is not defined", said)
    if missing and missing[1] in _assigned(fn):
        return BRANCH.format(name=missing[1])
    return _in_words(said)


def _in_words(said: str) -> str:
    for pattern, sentence in CAUSES:
        found = re.search(pattern, said)
        if found:
            return sentence.format(found[0], *map(_tile_words, found.groups()))
    return said


def _tile_words(text: str) -> str:
    """``<['16', '64'], fp32>`` as a reader writes it: ``a tile of [16, 64] fp32``."""
    tile = re.fullmatch(r"<\[(.*)\], (\w+)>", text)
    return f"a tile of [{tile[1]}] {tile[2]}".replace("'", "") if tile else text


def _assigned(fn: Any) -> set[str]:
    names = (n for n in ast.walk(fn.parse()) if isinstance(n, ast.Name))
    return {n.id for n in names if isinstance(n.ctx, ast.Store)}


def locate(found: dict[str, Any], stderr: str, filename: str) -> dict[str, Any]:
    """Add the learner's line where the compiler printed it instead of raising it."""
    where = re.search(re.escape(filename) + r"[\"']?:(\d+):\d+\)?: error: (.+)", stderr)
    if found.get("error") != "refused" or found.get("line") or not where:
        return found
    sentence = f"line {where[1]} of {_name(filename)}: {_in_words(where[2])}"
    return {**found, **_fields("refused", sentence, where[0], int(where[1]))}


def timeout(arch: int) -> dict[str, Any]:
    """A job that was stopped at its limit."""
    sentence = (
        f"the compiler did not finish in time for sm_{arch}: a tl.static_range or a tile may be "
        "too big"
    )
    return _fields("timeout", sentence, "")


def crash(stderr: str, status: int, arch: int, filename: str) -> dict[str, Any]:
    """What a compiler said that ended without a result (``status``: minus the signal)."""
    missing = re.search(r"Cannot select: intrinsic %llvm\.nvvm\.(\w+)", stderr)
    if missing and missing[1] in HOPPER_ONLY:
        sentence = (
            f"sm_{arch} has no {missing[1]} instruction: the kernel is written for another GPU"
        )
        return _fields("refused", sentence, missing[0])
    said = re.findall(r"(?:LLVM ERROR|error|Error): ?(.+)", stderr)
    how = signal.Signals(-status).name if status < 0 else f"exit status {status}"
    why = f": {said[-1]}" if said else ""
    found = _fields("crash", f"the compiler crashed for sm_{arch} ({how}){why}", stderr[-2000:])
    return locate({**found, "error": "refused"}, stderr, filename) if said else found
