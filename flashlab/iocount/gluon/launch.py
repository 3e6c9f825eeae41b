"""One launch of a Gluon kernel on the CPU: its functions, Gluon's names replaced, run in turn."""

import ast
import textwrap
from collections.abc import Iterable
from types import CodeType, FunctionType, ModuleType
from typing import Any

import triton
import triton.experimental.gluon.language as gl

from flashlab.iocount.gluon.host import bind
from flashlab.iocount.gluon.language import names
from flashlab.iocount.gluon.roles import Role, calling
from flashlab.iocount.gluon.shared import Machine
from flashlab.iocount.gluon.tile import Unknown
from flashlab.iocount.recorder import Recorder

GLUON = "triton.experimental.gluon.language"
CALL, CODE = "__flashlab_call__", "_flashlab_gluon_code"


def run(
    rec: Recorder, kernel: Any, bound: dict, grid: tuple, programs: Iterable[tuple], turn: bool
) -> None:
    """Run every program of a launch; ``bound`` are the arguments by name.

    ``turn``: roles go on by another habit than in the programs of a run without it.
    """
    values = bind(rec, bound)
    machine = Machine(rec, grid, 2 * turn)
    twin = Twins(rec, names(machine)).function(kernel)
    for pid in programs:
        rec.start_program(pid)
        machine.start(pid)
        machine.roles.run([Role(kernel.__name__, twin, (), values)])
        machine.end()
    rec.end_programs()


class _Calls(ast.NodeTransformer):
    """Every call may have to wait: ``f(x)`` becomes ``(yield from call(f, x))``."""

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        call = ast.Call(ast.Name(CALL, ast.Load()), [node.func, *node.args], node.keywords)
        return ast.copy_location(ast.YieldFrom(call), node)

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        return node

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_Lambda


def _code(jitted: Any) -> CodeType:
    """The code of a ``@gluon.jit`` function with its calls rewritten; made once."""
    if CODE not in vars(jitted):
        tree = ast.parse(textwrap.dedent("".join(jitted.raw_src)))
        definition = tree.body[0]
        definition.decorator_list, definition.returns = [], None
        arguments = definition.args
        arguments.defaults, arguments.kw_defaults = [], [None] * len(arguments.kwonlyargs)
        for arg in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
            arg.annotation = None
        ast.increment_lineno(tree, jitted.starting_line_number - 1)
        definition.body = [_Calls().visit(node) for node in definition.body]
        module = compile(ast.fix_missing_locations(tree), _file(jitted), "exec")
        codes = (c for c in module.co_consts if isinstance(c, CodeType))
        setattr(jitted, CODE, next(c for c in codes if c.co_name == definition.name))
    return vars(jitted)[CODE]


def _file(jitted: Any) -> str:
    return jitted.fn.__code__.co_filename


class Twins:
    """Functions of kernels with Gluon's names replaced; those of one file share their globals."""

    def __init__(self, rec: Recorder, known: dict[str, Any]) -> None:
        self.rec, self.known = rec, known
        self.language = _Names(GLUON, known)
        self.files: dict[int, dict[str, Any]] = {}

    def function(self, jitted: Any) -> FunctionType:
        """What ``@gluon.jit`` was put on, able to run here."""
        plain = jitted.fn
        self.rec.files.add(_file(jitted))
        for number, text in enumerate(jitted.raw_src, jitted.starting_line_number):
            self.rec.tally.sources[_file(jitted), number] = text.rstrip("\n")
        twin = FunctionType(_code(jitted), self._globals(plain.__globals__), plain.__name__)
        twin.__defaults__ = tuple(self._value("", v) for v in plain.__defaults__ or ())
        return twin

    def _globals(self, given: dict[str, Any]) -> dict[str, Any]:
        if id(given) not in self.files:
            made = self.files[id(given)] = {"__builtins__": __builtins__, CALL: calling}
            for name, value in given.items():
                if not name.startswith("__"):
                    made[name] = self._value(name, value)
        return self.files[id(given)]

    def _value(self, name: str, value: Any) -> Any:
        if isinstance(value, gl.constexpr):
            return value.value
        if isinstance(value, ModuleType):
            return self._module(value)
        owner = str(getattr(value, "__module__", None) or "")
        if isinstance(value, triton.JITFunction) and not owner.startswith("triton."):
            return self.function(value)
        if owner.startswith(("triton.", "flashlab.iocount._triton.")) and callable(value):
            title = getattr(value, "__name__", name)
            return self.known.get(title) or _unknown(title)
        if hasattr(value, "__triton_aggregate__"):
            return _unknown(name)
        return value

    def _module(self, module: ModuleType) -> Any:
        if module.__name__ == GLUON:
            return self.language
        if module.__name__.startswith(GLUON):
            last = module.__name__.rpartition(".")[2]
            return self.known.get(last) or _Names(module.__name__, self.known)
        return module


def _unknown(name: str) -> Any:
    def call(*args: Any, **named: Any) -> Any:
        raise Unknown(f"{name} is not known here, where kernels run without a GPU")

    return call


class _Names:
    """A module of Gluon's: the names that are known here; any other says so when it is used."""

    def __init__(self, title: str, known: dict[str, Any]) -> None:
        self._title, self._known = title, known

    def __getattr__(self, name: str) -> Any:
        if name in self._known:
            return self._known[name]
        if hasattr(gl, name):
            raise Unknown(f"gl.{name} is not known here, where kernels run without a GPU")
        raise AttributeError(f"module {self._title!r} has no attribute {name!r}")
