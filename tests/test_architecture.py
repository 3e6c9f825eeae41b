"""The layers, who may touch Triton's private names, and the size of files and functions."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "flashlab"

LAYERS = {
    "core": """aot autograd calling compiler device error_budget errormap exercise hardware holes
        iocount kernels loading memory numerics pipeline reference ring routes sources system
        transplant worked
        workspace""",
    "course": "bench broken capstone claims exercises grader reproduce",
    "front": """__init__ __main__ authoring classroom cli colab doctor home lab learner notebook
        quizzes render viz watch website""",
}
FLOORS = ("core", "course", "front")
LAYER = {name: layer for layer, names in LAYERS.items() for name in names.split()}

PRIVATE_TRITON = (
    "flashlab/iocount/_triton/", "flashlab/aot.py", "flashlab/aot/", "flashlab/compiler.py",
)  # fmt: skip
TRITON_MODULES = re.compile(r"triton(\.(language|testing|tools|experimental\.gluon)(\..*)?)?")
TRITON_NAMES = set(
    "jit JITFunction KernelInterface OutOfResources cdiv language next_power_of_2 autotune "
    "heuristics Config testing tools experimental set_allocator constexpr_function "
    "__version__ __file__".split()
)
PRIVATE_PATH = re.compile(r"\btriton\.(_\w+|backends|compiler|knobs|runtime)\b")

THIRD_PARTY = set(
    "torch triton numpy IPython ipywidgets ipykernel jupyterlab jupyter_server jupyter_client "
    "jupyter_core traitlets nbformat nbclient matplotlib rich google".split()
)
EXTRAS = dict.fromkeys(("nbgrader", "sqlalchemy", "dask", "distributed"), "classroom")
EXTRAS |= dict.fromkeys(("docutils", "latex2mathml", "sphinx"), "website")

MAX_FILE, MAX_FUNCTION = 350, 40
LONG_FILES = {
    "solutions/flash3_forward.py": "one Hopper kernel, its roles and launcher, that stands alone",
    "tests/test_entry.py": "all of an entry's behaviour against one pair of sample texts",
    "tests/test_workspace.py": "the workspace's files, history and progress, one set of fixtures",
}
LONG_FUNCTIONS = {
    "solutions/flash_forward_tiles.py::flash_forward_tiles": "the exercise itself: one walk",
    "solutions/io_cost.py::io_cost": "the exercise itself: one formula a loop order",
    "tests/browser/test_learner.py::test_stub_then_wrong_then_right_then_restart": "one path",
    "tests/sample_reports.py::wrong": "one report, a field a line",
    "flashlab/cli.py::_parser": "a table of commands and options, a line each",
}


def sources(*folders: str) -> list[Path]:
    found = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return [path for path in found if PACKAGE / "stubs" not in path.parents]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def unit_of(path: Path) -> str:
    """The module or subpackage of flashlab that a file belongs to."""
    part = path.relative_to(PACKAGE).parts[0]
    return part.removesuffix(".py")


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """(line, dotted module) of every import in a file, those in functions too."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = path.relative_to(ROOT).with_suffix("").parts[: -node.level]
                base = ".".join([*parts, *([base] if base else [])])
            yield node.lineno, base
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def imported_units(path: Path) -> Iterator[tuple[int, str]]:
    """(line, unit) of what a file imports from flashlab; a public name belongs to __init__."""
    for line, module in imports(path):
        parts = module.split(".")
        if parts[0] != "flashlab":
            continue
        unit = parts[1] if len(parts) > 1 else None
        is_module = unit and ((PACKAGE / unit).is_dir() or (PACKAGE / f"{unit}.py").is_file())
        if unit:
            yield line, unit if is_module else "__init__"


def private_triton(path: Path) -> Iterator[str]:
    """Each touch of a name of Triton's that its documentation does not offer."""
    tree = tree_of(path)
    documentation = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and ast.get_docstring(node)
    }
    for line, module in imports(path):
        if module.split(".")[0] == "triton" and not TRITON_MODULES.fullmatch(module):
            owner, _, name = module.rpartition(".")
            if owner != "triton" or name not in TRITON_NAMES:
                yield f"{name_of(path)}:{line}: imports {module}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner, name = node.value.id, node.attr
            hidden = owner in ("tl", "gl") and (
                name.startswith("_") or name in ("core", "semantic")
            )
            if (owner == "triton" and name not in TRITON_NAMES) or hidden:
                yield f"{name_of(path)}:{node.lineno}: uses {owner}.{name}"
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) not in documentation and PRIVATE_PATH.search(node.value):
                yield f"{name_of(path)}:{node.lineno}: names {node.value!r}"


def functions(path: Path) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Every outermost function and method, by its qualified name."""

    def walk(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, ast.FunctionDef]]:
        for node in body:
            if isinstance(node, ast.ClassDef):
                yield from walk(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield prefix + node.name, node

    yield from walk(tree_of(path).body, f"{name_of(path)}::")


def length(function: ast.FunctionDef) -> int:
    """Lines of a function without its docstring; a kernel counts 0."""
    kernel = any(ast.unparse(d).split("(")[0].endswith("jit") for d in function.decorator_list)
    text = function.body[0] if ast.get_docstring(function) else None
    doc = text.end_lineno - text.lineno + 1 if text else 0
    return 0 if kernel else function.end_lineno - function.lineno + 1 - doc


def excess(lengths: dict[str, int], most: int, reasons: dict[str, str]) -> list[str]:
    """What is too long without a reason, and the reasons that nothing needs any more."""
    long = {name: count for name, count in lengths.items() if count > most}
    return [
        *(
            f"{n}: {count} lines, {most} at most: split it"
            for n, count in long.items()
            if n not in reasons
        ),
        *(f"{n}: short now: remove its exception" for n in reasons if n not in long),
    ]


def test_every_module_has_a_layer():
    units = {unit_of(path) for path in sources("flashlab")}
    assert units <= set(LAYER), f"give {units - set(LAYER)} a layer in {name_of(Path(__file__))}"


def test_imports_never_go_up():
    wrong = [
        f"{name_of(path)}:{line}: {LAYER.get(unit_of(path))} imports {unit} ({LAYER.get(unit)})"
        for path in sources("flashlab")
        for line, unit in imported_units(path)
        if FLOORS.index(LAYER.get(unit, "front")) > FLOORS.index(LAYER.get(unit_of(path), "front"))
    ]
    assert not wrong


def test_modules_say_their_floor():
    """A module does, or the ``__init__`` of its package for all of it; none says another one."""
    wrong = []
    for path in sources("flashlab"):
        layer = LAYER.get(unit_of(path))
        said = re.search(r"Floor: (\w+)\.", ast.get_docstring(tree_of(path)) or "")
        must = path.parent == PACKAGE or path == PACKAGE / unit_of(path) / "__init__.py"
        if (said and said[1] != layer) or (must and not said):
            wrong.append(f"{name_of(path)}: its docstring should say 'Floor: {layer}.'")
    assert not wrong


def test_only_the_recorder_and_the_offline_compiler_touch_tritons_private_names():
    wrong = [
        touch
        for path in sources("flashlab", "solutions")
        if not name_of(path).startswith(PRIVATE_TRITON)
        for touch in private_triton(path)
    ]
    assert not wrong


def test_references_know_no_triton():
    wrong = [
        f"{name_of(path)}:{line}"
        for path in sources("flashlab/reference")
        for line, module in imports(path)
        if module.split(".")[0] == "triton"
    ]
    assert not wrong


def test_learners_need_no_extra_package():
    wrong = []
    for path in sources("flashlab", "solutions"):
        for line, module in imports(path):
            name = module.split(".")[0]
            known = name in THIRD_PARTY or name in sys.stdlib_module_names or name == "flashlab"
            if not known and EXTRAS.get(name) != path.relative_to(ROOT).parts[1]:
                wrong.append(f"{name_of(path)}:{line}: {name}")
    assert not wrong


def test_no_drawer_for_odds_and_ends():
    names = ("utils", "util", "common", "helpers", "misc")
    wrong = [p for p in sources("flashlab", "tests", "scripts") if p.stem in names]
    assert not wrong


def test_files_are_short():
    lengths = {
        name_of(path): len(path.read_text(encoding="utf-8").splitlines())
        for path in sources("flashlab", "solutions", "scripts", "tests")
    }
    assert excess(lengths, MAX_FILE, LONG_FILES) == []


def test_functions_are_short():
    lengths = {
        name: length(function)
        for path in sources("flashlab", "solutions", "scripts", "tests")
        for name, function in functions(path)
    }
    assert excess(lengths, MAX_FUNCTION, LONG_FUNCTIONS) == []


@pytest.mark.core
def test_importing_flashlab_is_quick():
    code = (
        "import sys, time; start = time.process_time(); import flashlab; "
        "took = time.process_time() - start; "
        "heavy = {'torch', 'triton', 'numpy', 'IPython', 'matplotlib'} & set(sys.modules); "
        "print(took, *heavy)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    took, *heavy = run.stdout.split()
    assert not heavy
    assert float(took) < 0.5
