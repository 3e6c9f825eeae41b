"""Python in kernels, which the recorder would run and no GPU does. Reads text only. Floor: course.

The compiler refuses most of it, but sees one launch of each kernel only.
"""

import ast
from collections import Counter
from collections.abc import Iterator

from flashlab.grader.lint import dotted

COMPILED = (".jit", ".constexpr_function")
SPEAKING = (".static_assert", ".static_print", ".device_print", ".device_assert")
IN_KERNELS = frozenset("range min max len abs isinstance tuple print".split())
NUMBERS = ("float", "int", "bool")
PYTHON = (ast.JoinedStr, ast.Lambda, ast.Dict, ast.Set, ast.DictComp, ast.SetComp,
          ast.GeneratorExp, ast.Try, ast.TryStar, ast.With, ast.Import, ast.ImportFrom, ast.Global,
          ast.Nonlocal, ast.Yield, ast.YieldFrom, ast.Await, ast.ClassDef, ast.FunctionDef,
          ast.AsyncFunctionDef, ast.Raise, ast.Delete, ast.Match, ast.NamedExpr)  # fmt: skip
TEXTS = frozenset(  # methods of texts and lists, and not of tiles
    "format format_map rsplit splitlines replace encode partition append extend".split()
)
VALUES = (ast.UnaryOp, ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Tuple, ast.List,
          ast.Attribute, ast.Subscript, ast.Slice, ast.keyword)  # fmt: skip
MADE_BY = ("triton", "math")  # what a constant may be a call of
Found = Iterator[tuple[ast.AST, str]]


def python(tree: ast.Module, names: dict[str, str]) -> Found:
    """(node, what is wrong) of everything in kernels that is no kernel's.

    Args:
        tree: The answer.
        names: Local name -> dotted name of what it was imported from.
    """
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    kernels = [f for f in functions if is_compiled(f, names)]
    counts = Counter(kernel.name for kernel in kernels)
    for kernel in kernels:
        if counts[kernel.name] > 1:
            yield (
                kernel,
                f"{counts[kernel.name]} kernels are called {kernel.name}: rename all but one",
            )
    good = _good(tree, names, kernels) | IN_KERNELS
    for kernel in kernels:
        outside = {p.arg for f in functions if f not in kernels and kernel in ast.walk(f)
                   for p in _parameters(f)}  # fmt: skip
        yield from _inside(kernel, names, good - outside)


def is_compiled(function: ast.FunctionDef, names: dict[str, str]) -> bool:
    """Whether a function is decorated as a kernel or a kernel's helper."""
    made = [d.func if isinstance(d, ast.Call) else d for d in function.decorator_list]
    return any(dotted(d, names).endswith(COMPILED) for d in made)


def _parameters(function: ast.FunctionDef) -> list[ast.arg]:
    return [n for n in ast.walk(function.args) if isinstance(n, ast.arg)]


def _inside(kernel: ast.FunctionDef, names: dict[str, str], good: set[str]) -> Found:
    said = "is Python, which no GPU runs: a kernel has tl alone"
    nodes = [n for statement in kernel.body for n in ast.walk(statement)]
    own = {p.arg for p in _parameters(kernel)}
    own |= {n.id for n in nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    calls = [n for n in nodes if isinstance(n, ast.Call)]
    told = [call for call in calls if dotted(call.func, names).endswith(SPEAKING)]
    texts = {id(n) for call in told for n in ast.walk(call) if isinstance(n, ast.JoinedStr)}
    numbers = {id(call.func) for call in calls if all(map(_is_number, call.args))}
    for node in nodes:
        if isinstance(node, PYTHON) and id(node) not in texts:
            yield node, f"{type(node).__name__} in kernel {kernel.name} {said}"
        if isinstance(node, ast.Attribute) and node.attr in TEXTS:
            yield node, f".{node.attr} in kernel {kernel.name} {said}"
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            if isinstance(node.left, ast.Constant) and isinstance(node.left.value, str):
                yield node, f"a text filled in by % in kernel {kernel.name} {said}"
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            of_torch = names.get(node.id, "").split(".")[0] == "torch"  # lint looks at those
            known = of_torch or node.id in own | good
            if not known and not (node.id in NUMBERS and id(node) in numbers):
                yield node, f"{node.id} in kernel {kernel.name} {said}"


def _is_number(node: ast.expr) -> bool:
    node = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(node, ast.Constant)


def _good(tree: ast.Module, names: dict[str, str], kernels: list[ast.FunctionDef]) -> set[str]:
    """Names that kernels may use of what lies around them: imports, kernels, constants.

    A name that anything else is bound to as well, such as a function or a loop's item, is none.
    """
    inside = {id(n) for kernel in kernels for n in ast.walk(kernel)}
    good = {n for n, origin in names.items() if origin.split(".")[0] in MADE_BY}
    good |= {kernel.name for kernel in kernels}
    constants: set[int] = set()
    other: set[str] = set()
    for node in ast.walk(tree):
        if id(node) in inside:
            continue
        if isinstance(node, ast.Assign | ast.AnnAssign) and _is_value(node.value, good, names):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            made = [n for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
            good |= {n.id for n in made}
            constants |= {id(n) for n in made}
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            other.add(node.name)
        elif isinstance(node, ast.ClassDef):
            if not any(dotted(d, names).startswith("triton.") for d in node.decorator_list):
                other.add(node.name)
        elif isinstance(node, ast.MatchAs | ast.MatchStar | ast.ExceptHandler) and node.name:
            other.add(node.name)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            other |= set() if id(node) in constants else {node.id}
    return good - other


def _is_value(node: ast.AST | None, good: set[str], names: dict[str, str]) -> bool:
    """Whether an expression makes a number, a layout, or another name of what is good."""
    if node is None or isinstance(node, ast.Constant):
        return True
    if isinstance(node, ast.Name):
        return node.id in good
    if isinstance(node, ast.Call):
        if dotted(node.func, names).split(".")[0] not in MADE_BY:
            return False
        return all(_is_value(n, good, names) for n in (*node.args, *node.keywords))
    parts = (n for n in ast.iter_child_nodes(node) if isinstance(n, ast.expr | ast.keyword))
    return isinstance(node, VALUES) and all(_is_value(n, good, names) for n in parts)
