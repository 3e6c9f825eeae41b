"""Ways out of an answer's own place: modules, attributes and tricks that no kernel needs.

A text with one is run (so that a crash is called a crash) but earns nothing. Reads text only, on
the trusted side, so nothing that the answer does while it runs can switch it off. Floor: course.
"""

import ast
import builtins

from flashlab.grader import escape_names
from flashlab.grader.contract import Problem
from flashlab.grader.lint import dotted, imports

NO_RANKS: frozenset[str] = frozenset()
RANKS = frozenset(  # of torch.distributed, in exercises with ranks
    "torch.distributed." + name
    for name in "P2POp ProcessGroup Work barrier batch_isend_irecv get_global_rank "
    "get_group_rank get_process_group_ranks get_rank get_world_size group irecv isend recv "
    "send".split()
)
BEHIND = frozenset(  # of frames, code and the interpreter's tiles
    "gi_frame gi_yieldfrom gi_code cr_frame cr_code cr_await ag_frame ag_code tb_frame tb_next "
    "f_back f_locals f_globals f_builtins f_code handle untyped_storage typed_storage storage "
    "apply_ map_ map2_ set_ from_file ctypes".split()
)
MODULE_NAMES = frozenset(  # modules that other objects may lead to
    "os sys builtins importlib inspect types gc ctypes subprocess threading pickle io socket "
    "shutil pathlib modules bltns operator contextlib re stdlib_re glob platform weakref "
    "tempfile signal json traceback linecache atexit ctypeslib".split()
)

COMPILED = (".jit", ".constexpr_function")
SPEAKING = (".static_assert", ".static_print", ".device_print", ".device_assert")
IN_KERNELS = frozenset("range min max len abs isinstance tuple print".split())
NUMBERS = ("float", "int", "bool")
PYTHON = (ast.JoinedStr, ast.Lambda, ast.Dict, ast.Set, ast.DictComp, ast.SetComp,
          ast.GeneratorExp, ast.Try, ast.With, ast.Import, ast.ImportFrom, ast.Global,
          ast.Nonlocal, ast.Yield, ast.YieldFrom, ast.Await, ast.ClassDef, ast.FunctionDef,
          ast.AsyncFunctionDef, ast.Raise, ast.Delete, ast.Match)  # fmt: skip


def escape(tree: ast.Module, ranks: bool = False) -> Problem | None:
    """The first escape, by line, with what to do instead; None if there is none.

    Args:
        tree: The answer.
        ranks: It may send and receive through torch.distributed.
    """
    tree = _without_self_test(tree)
    reader = _Reader(imports(tree), RANKS if ranks else NO_RANKS)
    reader.visit(tree)
    return min(reader.found, key=lambda p: p.line, default=None)


def _without_self_test(tree: ast.Module) -> ast.Module:
    """Without ``if __name__ == "__main__":``, which never runs here if nothing sets the name."""
    if any(_binds_name(node) for node in ast.walk(tree)):
        return tree
    body = [node for node in tree.body if not (isinstance(node, ast.If) and _is_self_test(node))]
    return ast.Module(body, tree.type_ignores)


def _is_self_test(node: ast.If) -> bool:
    return not node.orelse and ast.unparse(node.test) == "__name__ == '__main__'"


def _binds_name(node: ast.AST) -> bool:
    """Anything that holds the word, but for reading the name, an attribute of it, or a text."""
    reads = isinstance(node, ast.Constant) or (
        isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load)
    )
    held = [value for _, value in ast.iter_fields(node) if isinstance(value, str | list)]
    words = [word for one in held for word in ([one] if isinstance(one, str) else one)]
    return not reads and "__name__" in [word for word in words if isinstance(word, str)]


class _Reader(ast.NodeVisitor):
    """Collects what is not allowed; a chain of attributes is looked at once, from its end."""

    def __init__(self, names: dict[str, str], ranks: frozenset[str]) -> None:
        self.names, self.ranks = names, ranks
        self.found: list[Problem] = []
        self.decorators: set[int] = set()

    def _say(self, node: ast.AST, said: str) -> None:
        if said:
            self.found.append(Problem("forbidden", said, node.lineno))

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._say(node, self._leads(alias.name, imported=True))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            if node.level or alias.name == "*":
                self._say(node, "import what you use by its name, from torch, triton or math")
            else:
                path = f"{node.module}.{alias.name}"
                self._say(node, self._leads(path, imported=True))

    def visit_Name(self, node: ast.Name) -> None:
        """A name of Python's own, or one that was imported."""
        name = node.id
        if not escape_names.builtin(name) or _hidden(name):
            self._say(node, f"{name} is not needed in an answer: take it out")
        elif name in self.names:
            self._say(node, self._leads(self.names[name]) or self._undecorated(node))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self._say(node, self._attribute(node))
        inner: ast.expr = node
        while isinstance(inner, ast.Attribute):
            self._say(inner, _behind(inner.attr))
            inner = inner.value
        if isinstance(inner, ast.Name) and inner.id in self.names:
            said = self._leads(dotted(node, self.names))
            self._say(node, said or self._undecorated(node))
        else:
            self.visit(inner)

    def visit_Call(self, node: ast.Call) -> None:
        """``type`` of one object is fine, with more it makes classes; hasattr asks a module."""
        name, asked = node.func.id if isinstance(node.func, ast.Name) else "", node.args[:1]
        if name == "type" and (len(node.args) != 1 or node.keywords):
            self._say(node, "type(...) makes classes from text: write the class out")
        if name == "hasattr" and asked and isinstance(asked[0], ast.Name):
            self._say(node, self._leads(self.names.get(asked[0].id, "math"), imported=True))
            for part in (*node.args[1:], *node.keywords):
                self.visit(part)
        else:
            self.generic_visit(node)

    def visit_MatchClass(self, node: ast.MatchClass) -> None:
        """``case object(x=y)`` reads an attribute too."""
        for name in node.kwd_attrs:
            self._say(node, _behind(name))
        self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        bases = [b.id for b in node.bases if isinstance(b, ast.Name)]
        if node.keywords or "type" in bases:
            self._say(node, f"class {node.name}: a plain class without metaclass will do")
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Methods that Python itself calls, and Python inside kernels."""
        name = node.name
        self.decorators |= {id(n) for d in node.decorator_list for n in ast.walk(d)}
        made = [d.func if isinstance(d, ast.Call) else d for d in node.decorator_list]
        if any(dotted(d, self.names).endswith(COMPILED) for d in made):
            self._kernel(node)
        if name.startswith("__") and name.endswith("__") and name not in escape_names.METHODS:
            self._say(node, f"{name} changes how Python works: an answer does not need it")
        self.generic_visit(node)

    visit_AsyncFunctionDef = visit_FunctionDef

    def _kernel(self, kernel: ast.FunctionDef) -> None:
        """The recorder runs a kernel as Python; what only Python has would be no kernel."""
        said = "is Python, which no GPU runs: a kernel has tl alone"
        told = [n for n in ast.walk(kernel) if isinstance(n, ast.Call)
                and dotted(n.func, self.names).endswith(SPEAKING)]  # fmt: skip
        words = {id(part) for call in told for part in ast.walk(call)}
        for node in ast.walk(kernel):
            if isinstance(node, PYTHON) and node is not kernel and id(node) not in words:
                self._say(node, f"{type(node).__name__} in kernel {kernel.name} {said}")
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                called, plain = node.func.id, all(map(_is_number, node.args))
                if hasattr(builtins, called) and called not in IN_KERNELS:
                    if not (called in NUMBERS and plain):
                        self._say(node, f"{called}() in kernel {kernel.name} {said}")

    def _undecorated(self, node: ast.expr) -> str:
        path = dotted(node, self.names)
        if path.endswith(COMPILED) and id(node) not in self.decorators:
            return f"{path} makes a kernel out of sight: write @{path} above the function"
        return ""

    def _attribute(self, node: ast.Attribute) -> str:
        if isinstance(node.ctx, ast.Load):
            return ""
        root = dotted(node, self.names) or node.attr
        if root.split(".")[0] in escape_names.TOPS or escape_names.owned(node.attr):
            return f"{root} is changed, which others use too: leave it, or use another name"
        return ""

    def _leads(self, path: str, imported: bool = False) -> str:
        """What is wrong with where a dotted name leads."""
        steps = escape_names.follow(path)
        for step in steps:
            if not escape_names.allowed(step, self.ranks):
                return f"{step.name} is not for an answer: it needs torch, triton and math alone"
        if steps[-1].is_module and not imported:
            return f"{path} is handed on as a whole: write out which name of it you use"
        return ""


def _is_number(node: ast.expr) -> bool:
    node = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(node, ast.Constant)


def _hidden(name: str) -> bool:
    return name.startswith("__") and name not in escape_names.PLAIN_DUNDERS


def _behind(name: str) -> str:
    if name in BEHIND or name in MODULE_NAMES:
        return f".{name} reaches behind what it belongs to: an answer does not need it"
    if name.startswith("_") and name not in escape_names.PLAIN_DUNDERS:
        return f".{name} is private: an answer uses public names alone"
    return ""
