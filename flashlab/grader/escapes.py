"""Ways out of an answer's own place: modules, attributes and tricks that no kernel needs.

A text with one is run (so that a crash is called a crash) but earns nothing. Reads text only, on
the trusted side, so nothing that the answer does while it runs can switch it off. Floor: course.
"""

import ast
import re

from flashlab.grader import escape_kernels, escape_names
from flashlab.grader.contract import Problem
from flashlab.grader.lint import dotted, imports

NO_RANKS: frozenset[str] = frozenset()
RANKS = frozenset(  # of torch.distributed, in exercises with ranks
    "torch.distributed." + name
    for name in "P2POp ProcessGroup Work barrier batch_isend_irecv get_global_rank "
    "get_group_rank get_process_group_ranks get_rank get_world_size group irecv isend recv "
    "send".split()
)
BEHIND = frozenset(  # of frames, code, errors, classes, kernels and the interpreter's tiles
    "gi_frame gi_yieldfrom gi_code cr_frame cr_code cr_await ag_frame ag_code tb_frame tb_next "
    "f_back f_locals f_globals f_builtins f_code handle untyped_storage typed_storage storage "
    "apply_ map_ map2_ set_ from_file ctypes cffi obj mro register get_capture_scope "
    "used_global_vals".split()
)
MODULE_NAMES = frozenset(  # modules that other objects may lead to
    "os sys builtins importlib inspect types gc ctypes subprocess threading pickle io socket "
    "shutil pathlib modules bltns operator contextlib re stdlib_re glob platform weakref "
    "tempfile signal json traceback linecache atexit ctypeslib".split()
)

TRUSTED = (
    "type",
    "hasattr",
    "isinstance",
    "issubclass",
    "print",
)  # whose meaning is relied on here

BINDING = ("asname", "arg", "rest")  # parts of nodes that name something, beside "name"


def escape(tree: ast.Module, ranks: bool = False) -> Problem | None:
    """The first escape, by line, with what to do instead; None if there is none.

    Args:
        tree: The answer.
        ranks: It may send and receive through torch.distributed.
    """
    tree = _without_self_test(tree)
    reader = _Reader(tree, RANKS if ranks else NO_RANKS)
    reader.read()
    return min(reader.found, key=lambda p: p.line, default=None)


def _without_self_test(tree: ast.Module) -> ast.Module:
    """Without ``if __name__ == "__main__":``, which never runs here if nothing sets the name."""
    if any(_binds(node) for node in ast.walk(tree)):
        return tree
    body = [node for node in tree.body if not (isinstance(node, ast.If) and _is_self_test(node))]
    return ast.Module(body, tree.type_ignores)


def _is_self_test(node: ast.If) -> bool:
    match node:
        case ast.If(
            test=ast.Compare(
                left=ast.Name(id="__name__"),
                ops=[ast.Eq()],
                comparators=[ast.Constant(value="__main__")],
            ),
            orelse=[],
        ):
            return True
    return False


def _binds(node: ast.AST, name: str = "__name__") -> bool:
    """Anything that holds the name, but for reading it, an attribute of it, or a text."""
    reads = isinstance(node, ast.Constant | ast.keyword) or (
        isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load)
    )
    held = [value for _, value in ast.iter_fields(node) if isinstance(value, str | list)]
    words = [word for one in held for word in ([one] if isinstance(one, str) else one)]
    return not reads and name in [word for word in words if isinstance(word, str)]


def _origins(tree: ast.Module) -> dict[str, set[str]]:
    """Local name -> every dotted name that it is imported from."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for name, origin in imports(ast.Module([node], [])).items():
                found.setdefault(name, set()).add(origin)
    return found


class _Reader(ast.NodeVisitor):
    """Collects what is not allowed; a chain of attributes is looked at once, from its end."""

    def __init__(self, tree: ast.Module, ranks: frozenset[str]) -> None:
        self.tree, self.ranks = tree, ranks
        self.names, self.origins = imports(tree), _origins(tree)
        self.found: list[Problem] = []
        self.decorators: set[int] = set()
        self.harmless: set[int] = set()  # mentions of type that make no class

    def read(self) -> None:
        """Read the whole tree."""
        for node in ast.walk(self.tree):
            self.harmless |= {id(n) for n in _asked_types(node)}
            for name in TRUSTED:
                if _binds(node, name):
                    self._say(node, f"{name} is Python's own: take another name")
            for name in (getattr(node, part, None) for part in BINDING):
                if isinstance(name, str) and _hidden(name):
                    self._say(node, f"{name} changes how Python works: an answer does not need it")
        for node, said in escape_kernels.python(self.tree, self.names):
            self._say(node, said)
        self.visit(self.tree)

    def _say(self, node: ast.AST, said: str) -> None:
        if said:
            self.found.append(Problem("forbidden", said, getattr(node, "lineno", 0)))

    def visit_Import(self, node: ast.Import) -> None:
        self._same(node)
        for alias in node.names:
            self._say(node, self._leads(alias.name, imported=True))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self._same(node)
        for alias in node.names:
            if node.level or alias.name == "*":
                self._say(node, "import what you use by its name, from torch, triton or math")
            else:
                path = f"{node.module}.{alias.name}"
                self._say(node, self._leads(path, imported=True))

    def _same(self, node: ast.Import | ast.ImportFrom) -> None:
        """Say which name is imported once as one thing and once as another."""
        for name in imports(ast.Module([node], [])):
            if len({origin.rpartition(".")[2] for origin in self.origins[name]}) > 1:
                two = " and ".join(sorted(self.origins[name]))
                self._say(node, f"{name} is imported as {two}: take two names")

    def visit_Name(self, node: ast.Name) -> None:
        """A name of Python's own, or one that was imported."""
        name = node.id
        if name == "type" and id(node) not in self.harmless:
            self._say(node, "type makes classes from text: compare type(x), or use isinstance")
        if not escape_names.builtin(name) or _hidden(name):
            self._say(node, f"{name} is not needed in an answer: take it out")
        elif name in self.names:
            self._say(node, self._all_lead(node) or self._undecorated(node))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self._say(node, self._attribute(node))
        inner: ast.expr = node
        while isinstance(inner, ast.Attribute):
            if not _is_super_init(inner):
                self._say(inner, _behind(inner.attr))
            inner = inner.value
        if isinstance(inner, ast.Name) and inner.id in self.names:
            self._say(node, self._all_lead(node) or self._undecorated(node))
        else:
            self.visit(inner)

    def visit_Call(self, node: ast.Call) -> None:
        """hasattr asks a module; a text's fields read attributes."""
        name, asked = node.func.id if isinstance(node.func, ast.Name) else "", node.args[:1]
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("format", "format_map"):
            self._say(node, _formats(node.func.value))
        if name == "hasattr" and asked and isinstance(asked[0], ast.Name):
            self._say(node, self._leads(self.names.get(asked[0].id, "math"), imported=True))
            for part in (*node.args[1:], *node.keywords):
                self.visit(part)
        else:
            self.generic_visit(node)

    def visit_MatchAs(self, node: ast.MatchAs | ast.MatchStar | ast.ExceptHandler) -> None:
        """What a pattern or an error is bound to."""
        if node.name and _hidden(node.name):
            self._say(node, f"{node.name} is not needed in an answer: take it out")
        self.generic_visit(node)

    visit_MatchStar = visit_ExceptHandler = visit_MatchAs

    def visit_MatchClass(self, node: ast.MatchClass) -> None:
        """``case object(x=y)`` reads an attribute too."""
        for name in node.kwd_attrs:
            self._say(node, _behind(name))
        self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        if node.keywords:
            self._say(node, f"class {node.name}: a plain class without metaclass will do")
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Methods that Python itself calls."""
        name = node.name
        self.decorators |= {id(n) for d in node.decorator_list for n in ast.walk(d)}
        if name.startswith("__") and name.endswith("__") and name not in escape_names.METHODS:
            self._say(node, f"{name} changes how Python works: an answer does not need it")
        self.generic_visit(node)

    visit_AsyncFunctionDef = visit_FunctionDef

    def _undecorated(self, node: ast.expr) -> str:
        path = dotted(node, self.names)
        if path.endswith(escape_kernels.COMPILED) and id(node) not in self.decorators:
            return f"{path} makes a kernel out of sight: write @{path} above the function"
        return ""

    def _attribute(self, node: ast.Attribute) -> str:
        if isinstance(node.ctx, ast.Load):
            return ""
        root = dotted(node, self.names) or node.attr
        if root.split(".")[0] in escape_names.TOPS or escape_names.owned(node.attr):
            return f"{root} is changed, which others use too: leave it, or use another name"
        return ""

    def _all_lead(self, node: ast.expr) -> str:
        """What is wrong with where a name or a chain of attributes leads."""
        root = node
        while isinstance(root, ast.Attribute):
            root = root.value
        found = (self._leads(dotted(node, {root.id: o})) for o in sorted(self.origins[root.id]))
        return next(filter(None, found), "")

    def _leads(self, path: str, imported: bool = False) -> str:
        """What is wrong with where a dotted name leads."""
        steps = escape_names.follow(path)
        for step in steps:
            if not escape_names.allowed(step, self.ranks):
                return f"{step.name} is not for an answer: it needs torch, triton and math alone"
        if steps[-1].is_module and not imported:
            return f"{path} is handed on as a whole: write out which name of it you use"
        return ""


def _asked_types(node: ast.AST) -> list[ast.Name]:
    """Mentions of ``type`` that ask for one, in a comparison, a text, isinstance or a hint."""
    match node:
        case ast.Compare(left=left, comparators=others):
            asked = [left, *others]
        case ast.Call(func=ast.Name(id="print"), args=asked):
            pass
        case ast.FormattedValue(value=value) | ast.Attribute(value=value, attr="__name__"):
            asked = [value]
        case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, known]):
            return [n for n in ast.walk(known) if _is_type(n)]
        case ast.arg(annotation=hint) | ast.AnnAssign(annotation=hint):
            return [n for n in ast.walk(hint) if _is_type(n)] if hint else []
        case ast.FunctionDef(returns=hint) if hint:
            return [n for n in ast.walk(hint) if _is_type(n)]
        case _:
            return []
    return [n.func for n in asked if isinstance(n, ast.Call) and _is_type(n.func)
            and len(n.args) == 1 and not n.keywords]  # fmt: skip


def _formats(text: ast.expr) -> str:
    """What is wrong with the fields of a text that is filled in."""
    if not (isinstance(text, ast.Constant) and isinstance(text.value, str)):
        return "format fills in a text that is not written out: use an f-string"
    return next(filter(None, map(_behind, re.findall(r"\w+", text.value))), "")


def _is_super_init(node: ast.Attribute) -> bool:
    match node:
        case ast.Attribute(value=ast.Call(func=ast.Name(id="super"), args=[]), attr="__init__"):
            return True
    return False


def _is_type(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "type"


def _hidden(name: str) -> bool:
    return name.startswith("__") and name not in escape_names.PLAIN_DUNDERS


def _behind(name: str) -> str:
    if name in BEHIND or name in MODULE_NAMES:
        return f".{name} reaches behind what it belongs to: an answer does not need it"
    if name.startswith("_") and name not in escape_names.PLAIN_DUNDERS:
        return f".{name} is private: an answer uses public names alone"
    return ""
