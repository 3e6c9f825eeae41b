"""Ways out of an answer's own place: modules, attributes and tricks that no kernel needs.

Such a text is run (so that a crash is called a crash) but cannot pass. Reads text only, on the
trusted side, so nothing that the answer does while it runs can switch it off. Floor: course.
"""

import ast

from flashlab.grader.contract import Problem
from flashlab.grader.lint import dotted, imports

MODULES = frozenset(
    "torch triton math cmath typing typing_extensions dataclasses collections enum itertools "
    "functools warnings __future__ numbers time textwrap numpy".split()
)
TORCH_PARTS = frozenset(
    "load save hub package utils library multiprocessing distributed serialization futures "
    "testing overrides classes export fx frombuffer from_numpy from_file from_dlpack".split()
)
RANKS = frozenset(  # of torch.distributed, in exercises with ranks
    "torch.distributed." + name
    for name in "P2POp ProcessGroup Work barrier batch_isend_irecv get_global_rank "
    "get_group_rank get_process_group_ranks get_rank get_world_size group irecv isend recv "
    "send".split()
)
MODULE_NAMES = frozenset(  # other modules lead there: enum.bltns, typing.operator
    "os sys builtins importlib inspect types gc ctypes subprocess threading pickle io socket "
    "shutil pathlib modules bltns operator contextlib keyword re stdlib_re glob platform weakref "
    "_thread _sys _types _socket tempfile signal json traceback linecache atexit ctypeslib".split()
)
TRICKS = frozenset("globals locals vars setattr delattr __builtins__ open memoryview".split())
FRAMES = frozenset(
    "gi_frame gi_yieldfrom cr_frame ag_frame tb_frame tb_next f_back f_locals f_globals "
    "f_builtins f_code".split()
)
PLAIN_DUNDERS = frozenset(
    "__name__ __init__ __call__ __post_init__ __doc__ __all__ __version__".split()
)


def escape(tree: ast.Module, ranks: bool = False) -> Problem | None:
    """The first escape, by line, with what to do instead; None if there is none.

    Args:
        tree: The answer.
        ranks: It may send and receive through torch.distributed.
    """
    names = imports(tree)
    sends = [n for n in ast.walk(tree) if isinstance(n, ast.Attribute)
             and ranks and dotted(n, names) in RANKS]  # fmt: skip
    allowed = {id(part) for node in sends for part in (node, node.value)}
    found = [
        Problem("forbidden", said, node.lineno)
        for node in ast.walk(tree)
        if isinstance(node, ast.expr | ast.stmt | ast.pattern)
        and id(node) not in allowed
        and (said := _rule(node, names))
    ]
    return min(found, key=lambda p: p.line, default=None)


def _rule(node: ast.AST, names: dict[str, str]) -> str:
    if isinstance(node, ast.Import | ast.ImportFrom):
        modules = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module]
        for module in modules:
            top = (module or ".").split(".")[0]
            if top not in MODULES:
                return (
                    f"import of {top}: an answer needs torch, triton and math alone; take it out"
                )
        for name in (a.name for a in node.names if isinstance(node, ast.ImportFrom)):
            if name in MODULE_NAMES or (name.startswith("_") and name not in PLAIN_DUNDERS):
                return f"import of {name} from {node.module}: an answer does not need it"
    if isinstance(node, ast.Name):
        if node.id in TRICKS:
            return f"{node.id} is not needed in an answer: take it out"
        if node.id == "getattr":
            return "getattr hides which attribute is meant: write the attribute out"
    if isinstance(node, ast.MatchClass):  # case object(x=y) reads an attribute too
        return next(filter(None, map(_behind, node.kwd_attrs)), "")
    if isinstance(node, ast.Attribute):
        return _attribute(node, names)
    return ""


def _behind(name: str) -> str:
    hidden = name.startswith("__") and name.endswith("__") and name not in PLAIN_DUNDERS
    if hidden or name in FRAMES:
        return f"{name} reaches behind Python's objects: an answer does not need it"
    return ""


def _attribute(node: ast.Attribute, names: dict[str, str]) -> str:
    name = node.attr
    if said := _behind(name):
        return said
    if name == "handle":
        return ".handle is the interpreter's own array: a kernel works on tiles with tl"
    if name in MODULE_NAMES:
        return f".{name} leads out of torch and triton: use their public names"
    root = dotted(node, names).split(".")
    if isinstance(node.ctx, ast.Store | ast.Del) and _module_like(node, names):
        return f"{'.'.join(root)} is changed, which others use too: leave it as it is"
    if len(root) > 1 and root[0] in MODULES and _module_like(node, names):
        if name.startswith("_") and name not in PLAIN_DUNDERS:
            return f"{'.'.join(root)} is not for an answer: use torch and triton's public names"
        if root[0] == "torch" and root[1] in TORCH_PARTS:
            return f"{'.'.join(root)} is not needed: a launcher allocates, views and launches"
    return ""


def _module_like(node: ast.Attribute, names: dict[str, str]) -> bool:
    """Whether the chain starts at an imported name."""
    inner: ast.expr = node
    while isinstance(inner, ast.Attribute):
        inner = inner.value
    return isinstance(inner, ast.Name) and inner.id in names
