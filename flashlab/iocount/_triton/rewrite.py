"""An @triton.jit function as a plain Python function that the interpreter can run.

Triton's own rewriter leaves names in the learner's module; here the few names that rewritten code
needs are closure variables, so nothing leaks. Loops are wrapped so that each pass is a step. The
rewritten twin is kept on the function it belongs to.
"""

import ast
import inspect
import os
import textwrap
import types
from dataclasses import dataclass
from typing import Any

import triton
import triton.language as tl
import triton.runtime.interpreter as interp

_LIBRARY = os.path.dirname(triton.__file__)
_TWIN = "_flashlab_twin"
LOOP, RANGE = "__flashlab_loop__", "__flashlab_range__"


@dataclass
class Twin:
    """A rewritten function and what is known of it."""

    function: types.FunctionType
    filename: str
    lines: dict[int, str]  # line number -> text, as it was at decoration
    constexprs: frozenset[str]
    types: dict[str, Any]  # scalar argument -> the Triton type that the signature gives it
    user: bool  # a learner's or the course's code, not Triton's library


class _Rewriter(type(interp.FunctionRewriter.ast_transformer)):
    """Triton's transformation, and a step for every pass of a loop."""

    def visit_For(self, node: ast.For) -> ast.AST:
        self.generic_visit(node)
        call = node.iter
        if (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Name)
            and call.func.id == "range"
        ):
            call.func = ast.copy_location(ast.Name(RANGE, ast.Load()), call.func)
        node.iter = self._loop(node.iter, node)
        return node

    def visit_While(self, node: ast.While) -> ast.AST:
        self.generic_visit(node)
        if node.orelse:
            return node
        stop = ast.If(ast.UnaryOp(ast.Not(), node.test), [ast.Break()], [])
        loop = ast.For(
            target=ast.Name("__flashlab_pass__", ast.Store()),
            iter=self._loop(ast.Constant(None), node),
            body=[ast.copy_location(stop, node), *node.body],
            orelse=[],
        )
        return ast.copy_location(loop, node)

    @staticmethod
    def _loop(iterable: ast.expr, node: ast.stmt) -> ast.expr:
        call = ast.Call(ast.Name(LOOP, ast.Load()), [iterable, ast.Constant(node.lineno)], [])
        return ast.copy_location(call, node)


def twin(jit_function: Any, names: dict[str, Any]) -> Twin:
    """The interpreted twin of a JITFunction (or InterpretedFunction).

    Args:
        jit_function: The decorated function.
        names: Closure variables for the rewritten code; must hold LOOP and RANGE.
    """
    found = vars(jit_function).get(_TWIN)
    if found is None:
        found = _make(jit_function, names)
        vars(jit_function)[_TWIN] = found
    return found


def _make(jit_function: Any, names: dict[str, Any]) -> Twin:
    fn = jit_function.fn
    while hasattr(fn, "fn"):  # an autotuner or heuristic between
        fn = fn.fn
    raw, start = (
        getattr(jit_function, "raw_src", None),
        getattr(jit_function, "starting_line_number", None),
    )
    if raw is None:
        raw, start = inspect.getsourcelines(fn)
    tree = ast.parse(textwrap.dedent("".join(raw)))
    definition = tree.body[0]
    definition.decorator_list = []
    ast.increment_lineno(tree, start - 1)
    _Rewriter().visit(definition)
    filename = fn.__code__.co_filename
    code = _compile(definition, filename, [*names, *fn.__code__.co_freevars])
    cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
    for name, value in names.items():
        cells[name] = types.CellType(value)
    closure = tuple(cells[name] for name in code.co_freevars)
    function = types.FunctionType(code, fn.__globals__, fn.__name__, fn.__defaults__, closure)
    function.__kwdefaults__ = fn.__kwdefaults__
    function.__qualname__, function.__module__ = fn.__qualname__, fn.__module__
    return Twin(
        function,
        filename,
        {start + i: text.rstrip("\n") for i, text in enumerate(raw)},
        frozenset(n for n, a in fn.__annotations__.items() if _is_constexpr(a)),
        {n: t for n, a in fn.__annotations__.items() if (t := _scalar_type(a)) is not None},
        not filename.startswith(_LIBRARY),
    )


def _compile(definition: ast.FunctionDef, filename: str, free: list[str]) -> types.CodeType:
    """The function's code, the names in ``free`` being free variables."""
    outer = ast.parse(f"def __flashlab_outer__({', '.join(free)}): pass")
    definition.returns = None
    arguments = definition.args
    arguments.defaults, arguments.kw_defaults = [], [None] * len(arguments.kwonlyargs)
    for arg in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
        arg.annotation = None
    outer.body[0].body = [definition]
    ast.fix_missing_locations(outer)
    module = compile(outer, filename, "exec")
    maker = next(c for c in module.co_consts if isinstance(c, types.CodeType))
    return next(
        c
        for c in maker.co_consts
        if isinstance(c, types.CodeType) and c.co_name == definition.name
    )


def _scalar_type(annotation: Any) -> Any:
    """tl.int64 of ``tl.int64`` or ``"tl.int64"``; None of anything else."""
    if isinstance(annotation, str):
        annotation = getattr(tl, annotation.removeprefix("tl."), None)
    return annotation if type(annotation) is tl.dtype else None


def _is_constexpr(annotation: Any) -> bool:
    return "constexpr" in (
        annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    )
