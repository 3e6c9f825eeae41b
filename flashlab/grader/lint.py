"""Finds calls that an answer may not make, in its text: ready-made attention, torch or numpy where
a kernel should work, code in disguise. Floor: course.

Looks only at what the graded functions can reach, so a learner's own comparison below them is
free to use anything. What hides from the text is seen by ``guard`` while it runs.
"""

import ast
from collections.abc import Iterator

import triton.language as tl

from flashlab.exercise import Exercise
from flashlab.grader.contract import Problem

ATTENTION = ("scaled_dot_product_attention", "flex_attention", "multi_head_attention",
             "MultiheadAttention", "Transformer")  # fmt: skip
PACKAGES = ("flash_attn", "xformers", "flashinfer")
GATHERING = tuple(".all_gather .all_gather_into_tensor .all_gather_object .all_to_all "
                  ".all_to_all_single .broadcast .gather".split())  # fmt: skip
COMPUTE = frozenset(
    "abs add addmm amax amin argmax argmin baddbmm bmm clamp cumsum diff div dot einsum erf exp "
    "exp2 expm1 inner log log1p log2 log_softmax logaddexp logsumexp mask_fill masked_fill matmul "
    "max mean min mm mul mv neg norm outer pow prod rsqrt scatter scatter_add sigmoid softmax "
    "sort sqrt std sub sum tanh tensordot topk tril triu true_divide var where".split()
)
COMPUTE_PARTS = ("nn", "special", "linalg", "func", "ops", "jit", "fft", "sparse", "compile")
TL = {"inf": 'float("-inf")', "matmul": "tl.dot", "ones": "tl.full", "amax": "tl.max(x, axis=1)",
      "max": "tl.max or tl.maximum", "min": "tl.min or tl.minimum"}  # fmt: skip
DISGUISES = {
    "eval": "eval runs text as code: write the code out",
    "exec": "exec runs text as code: write the code out",
    "compile": "compile makes code from text: write the code out",
    "__import__": "write imports as imports, at the top of the file",
    "importlib": "write imports as imports, at the top of the file",
    "breakpoint": "breakpoint() works under flashlab.debug(...): take it out for a check",
    "input": "nobody can answer input() during a check: take it out",
}


def lint(exercise: Exercise, tree: ast.Module) -> Problem | None:
    """The first forbidden call, by line, with the sentence that helps; None if there is none."""
    names = imports(tree)
    kernels = {n.name for n in _functions(tree) if _is_kernel(n, names)}
    problems = [
        Problem("forbidden", said, node.lineno)
        for part, is_kernel in _reachable(exercise, tree, kernels)
        for node in ast.walk(part)
        if isinstance(node, ast.expr | ast.stmt)
        and (said := _rule(exercise, node, names, is_kernel))
    ]
    return min(problems, key=lambda p: p.line, default=None)


def _rule(exercise: Exercise, node: ast.AST, names: dict[str, str], in_kernel: bool) -> str:
    """The sentence of the rule that ``node`` breaks, else empty."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return _import_rule(node)
    path = dotted(node, names)
    for word in ATTENTION:
        if path and word in path:
            return f"{word} is ready-made attention: write the steps yourself"
    if isinstance(node, ast.Call) and dotted(node.func, {}) in DISGUISES:
        return DISGUISES[dotted(node.func, {})]
    if exercise.ranks and path.startswith("torch.distributed.") and path.endswith(GATHERING):
        return f"{path} brings all to every rank: send and receive one block at a time"
    if exercise.kind not in ("triton", "gluon"):
        return ""
    if in_kernel:
        return _kernel_rule(path)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return "@ multiplies matrices in torch: that is the kernel's work, in tl.dot"
    return _launcher_rule(path)


def _import_rule(node: ast.Import | ast.ImportFrom) -> str:
    modules = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""]
    for module in modules:
        top = module.split(".")[0]
        if top == "flashlab":
            return f"import of {module}: an answer uses torch and triton, nothing of the course"
        if top == "importlib":
            return DISGUISES["importlib"]
        if top in PACKAGES:
            return f"{top} is ready-made attention: write the steps yourself"
        if top == "triton" and _private(module):
            return _private_sentence(module)
    return ""


def _kernel_rule(path: str) -> str:
    top = path.split(".")[0]
    if top in ("torch", "numpy") and "." in path and not path.startswith("torch.float"):
        name = path.rpartition(".")[2]
        instead = TL.get(name, f"tl.{name}" if hasattr(tl, name) else "it with tl")
        return (
            f"{path} inside a kernel: a @triton.jit kernel is compiled for the GPU, where only "
            f"tl exists; write {instead}"
        )
    return _private_sentence(path) if _private(path) else ""


def _launcher_rule(path: str) -> str:
    parts = path.split(".")
    if parts[0] == "torch" and len(parts) > 1:
        if parts[-1] in COMPUTE or parts[1] in COMPUTE_PARTS:
            return (
                f"{path} in a launcher: computing is the kernel's work; a launcher only "
                "allocates, views and launches"
            )
    if parts[0] == "numpy" and len(parts) > 1:
        return f"{path}: computing is the kernel's work; a launcher needs no numpy"
    return _private_sentence(path) if _private(path) else ""


def _private(path: str) -> bool:
    parts = path.split(".")
    return parts[0] == "triton" and (
        any(p.startswith("_") for p in parts)
        or parts[1:2] in (["runtime"], ["compiler"], ["knobs"])
    )


def _private_sentence(path: str) -> str:
    return f"{path} is a part of Triton's machinery that changes with every version: use tl alone"


def imports(tree: ast.Module) -> dict[str, str]:
    """Local name -> dotted name of what it was imported from."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for a in node.names:
                names[a.asname or a.name.split(".")[0]] = (
                    a.name if a.asname else a.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
    return names


def dotted(node: ast.AST, names: dict[str, str]) -> str:
    """Such as ``torch.nn.functional.softmax`` for attributes of a name, else empty."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([names.get(node.id, node.id), *reversed(parts)])


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    yield from (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef))


def _is_kernel(node: ast.FunctionDef, names: dict[str, str]) -> bool:
    for decorator in node.decorator_list:
        made = decorator.func if isinstance(decorator, ast.Call) else decorator
        path = dotted(made, names)
        if path.startswith("triton.") and path.endswith(".jit"):
            return True
    return False


def _reachable(
    exercise: Exercise, tree: ast.Module, kernels: set[str]
) -> Iterator[tuple[ast.AST, bool]]:
    """Top-level statements and the functions that the graded ones can reach; is it a kernel?"""
    definitions = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    others = [n for n in tree.body if n not in definitions.values() and not _is_main(n)]
    yield from ((node, False) for node in others)
    waiting = [n for n in exercise.functions if n in definitions]
    waiting += [name for node in others for name in _names(node) if name in definitions]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            yield definitions[name], name in kernels
            waiting += [used for used in _names(definitions[name]) if used in definitions]


def _names(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def _is_main(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "__name__" in _names(node.test)
