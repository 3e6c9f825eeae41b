"""What is said of a text before it runs: contract, lint, escapes, tile sizes."""

import ast

import pytest

from flashlab import exercises, sources
from flashlab.grader import contract, escapes, lint

FLASH = exercises.get("flash_forward")
SCALE = exercises.get("vector_scale")
HEAD = "import torch\nimport triton\nimport triton.language as tl\n"
KERNEL = (
    HEAD + "@triton.jit\ndef kernel(x):\n    {}\ndef vector_scale(x, a):\n    kernel[(1,)](x)\n"
)
LAUNCHER = HEAD + "def vector_scale(x, a):\n    {}\n"


def said(problem: contract.Problem | None) -> str:
    return problem.detail if problem else ""


@pytest.mark.parametrize("slug", exercises.SYLLABUS)
def test_solutions_are_above_suspicion(slug: str) -> None:
    exercise, tree = exercises.get(slug), ast.parse(sources.solution_text(slug))

    assert contract.contract(exercise, tree) is None
    assert lint.lint(exercise, tree) is None
    assert escapes.escape(tree, exercise.ranks) is None


@pytest.mark.parametrize(
    ("definition", "words"),
    [
        ("def flash_foward(q, k, v, *, causal=False, sm_scale=None): ...", "rename it"),
        ("def attention(q): ...", "there is none: write it"),
        ("# nothing", "`flashlab reset flash_forward` puts the stub there"),
        ("def flash_forward(q, k, v, causal=False, sm_scale=None): ...", "(q, k, v, *, causal"),
        ("def flash_forward(q, k, v, *, causal=True, sm_scale=None): ...", "causal=True"),
        (
            "def flash_forward(q, k, *, causal=False, sm_scale=None): ...",
            "got flash_forward(q, k, *",
        ),
        ("def flash_forward(*args, **kwargs): ...", "got flash_forward(*args, **kwargs)"),
    ],
    ids=["misspelt", "absent", "empty", "no-star", "default", "argument", "catch-all"],
)
def test_a_broken_contract_is_named(definition: str, words: str) -> None:
    problem = contract.contract(FLASH, ast.parse(definition))

    assert problem.status == "contract"
    assert words in problem.detail


def test_a_function_may_be_bound_by_assignment() -> None:
    text = "def mine(q, k, v, *, causal=False, sm_scale=None): ...\nflash_forward = mine"
    assert contract.contract(FLASH, ast.parse(text)) is None


def test_a_syntax_error_has_a_line() -> None:
    _, problem = contract.parse("x = 1\ny = (\n")

    assert (problem.status, problem.line) == ("contract", 2)


def test_tile_sizes_are_read_from_the_text() -> None:
    text = "BLOCK_M = 64\nBLOCK_N: int = 32\nOTHER = 8\nBLOCK_M_COPY = BLOCK_M\n"
    names = ("BLOCK_M", "BLOCK_N")

    assert contract.constants(ast.parse(text), names) == {"BLOCK_M": 64, "BLOCK_N": 32}
    assert contract.constants(ast.parse("BLOCK_M = 2 * 32\n"), names) == {}
    for text in ("BLOCK_M = 1099511627776\n", "BLOCK_M = 0\n", "BLOCK_M = BLOCK_N = 2048\n"):
        assert contract.constants(ast.parse(text), names) == {}


def test_a_default_that_is_no_value_is_left_to_python() -> None:
    for default in ("{[]: 1}", "{{}}", "f(1)", "0x" + "f" * 5000):
        text = f"def flash_forward(q, k, v, *, causal={default}, sm_scale=None): ..."
        assert contract.contract(FLASH, ast.parse(text)) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (LAUNCHER.format("return torch.softmax(x, 0)"), "torch.softmax in a launcher"),
        (LAUNCHER.format("return torch.nn.functional.relu(x)"), "torch.nn.functional.relu"),
        (LAUNCHER.format("return x @ x"), "tl.dot"),
        (LAUNCHER.format("import numpy as np; return np.exp(x)"), "a launcher needs no numpy"),
        (LAUNCHER.format("return eval('x')"), "write the code out"),
        (LAUNCHER.format("breakpoint()"), "flashlab.debug"),
        (LAUNCHER.format("from flashlab import sources"), "nothing of the course"),
        (LAUNCHER.format("import flash_attn"), "ready-made attention"),
        (LAUNCHER.format("from triton.runtime import driver"), "machinery"),
        (LAUNCHER.format("F = torch.nn.functional.scaled_dot_product_attention"), "ready-made"),
        (KERNEL.format("y = torch.exp(x)"), "only tl exists"),
        (KERNEL.format("y = tl.core._aggregate"), "machinery"),
        (KERNEL.format("y = triton._C.libtriton"), "machinery"),
    ],
    ids=lambda value: None if "\n" in value else value.split(" ")[0],
)
def test_forbidden_calls_are_named_with_their_line(text: str, words: str) -> None:
    problem = lint.lint(SCALE, ast.parse(text))

    assert words in said(problem)
    assert problem.status == "forbidden"
    assert problem.line >= 5


@pytest.mark.parametrize(
    "text",
    [
        LAUNCHER.format("return a") + "def compare(x):\n    return torch.softmax(x, 0)\n",
        LAUNCHER.format("return a") + "if __name__ == '__main__':\n    print(torch.exp(2))\n",
        LAUNCHER.format("return torch.empty_like(x).transpose(0, 1).max_offset"),
        LAUNCHER.format("return type(x) is torch.Tensor, hasattr(tl, 'dot'), math.inf"),
        LAUNCHER.format("return torch.finfo(x.dtype).max"),
        KERNEL.format("y = tl.exp(x).to(tl.float16)"),
    ],
    ids=["unreached-helper", "main", "views", "plain-names", "of-a-dtype", "kernel"],
)
def test_honest_code_is_left_alone(text: str) -> None:
    assert lint.lint(SCALE, ast.parse(text)) is None
    assert escapes.escape(ast.parse(text)) is None


def test_what_is_too_deep_or_too_long_is_not_read_any_further() -> None:
    for text in ("x = " + "+".join(["1"] * 700), "if " + "not " * 600 + "x: ..."):
        tree, problem = contract.parse(f"y = 1\n{text}\n")
        assert tree is None and problem.line == 2 and "deep" in problem.detail
    tree, problem = contract.parse(f"if x == 0x{'f' * 6000}: ...\n")
    assert tree is None and problem.line == 1 and "too long" in problem.detail
    assert contract.parse("x = " + "+".join(["1"] * 60))[0] is not None


def test_torch_exercises_may_compute_in_torch() -> None:
    tiles = exercises.get("flash_forward_tiles")
    text = "import torch\ndef flash_forward_tiles(q):\n    return torch.exp(q @ q)\n"

    assert lint.lint(tiles, ast.parse(text)) is None
    ready = text.replace("torch.exp(q @ q)", "torch.nn.functional.scaled_dot_product_attention(q)")
    assert "ready-made" in said(lint.lint(tiles, ast.parse(ready)))
    ready = text.replace("torch.exp(q @ q)", "torch.nn.MultiheadAttention(8, 2)(q, q, q)[0]")
    assert "ready-made" in said(lint.lint(tiles, ast.parse(ready)))


@pytest.mark.parametrize(
    "line",
    [
        "import os",
        "from sys import modules",
        "import torch; torch._C",
        "import torch; torch.os",
        "import torch; torch.load('x')",
        "import dataclasses; dataclasses.sys",
        "x = getattr(y, 'z')",
        "x = [].__class__",
        "x = globals()",
        "x = open('y')",
        "x = y.handle.data",
        "x = y.gi_frame.f_back",
        "match x:\n    case object(__class__=y): ...",
        "find = __import__",
        "run = eval",
        "import torch; engine = torch",
        "import torch; engine = torch.cuda.torch",
        "import torch; torch.cuda.torch.load('x')",
        "import torch; torch.ExcludeDispatchKeyGuard",
        "import torch; torch.PyTorchFileWriter('x')",
        "import torch; torch.utils.data",
        "import typing; typing.get_type_hints(f)",
        "from enum import global_enum",
        "from functools import update_wrapper",
        "import triton.language as tl; tl.core.wraps",
        "from torch import *",
        "from triton import knobs",
        "import numpy as np; np.testing.assert_equal",
        "x = y._version",
        "x = y.untyped_storage()",
        "y.untyped_storage = f",
        "y.run = f",
        "__match_args__ = ('f_back',)",
        "class Any(type): ...",
        "x = type('X', (), {'__match_args__': ('f_back',)})",
        "def __getattr__(name): ...",
        "import triton; kernel = triton.jit(plain)",
        "import torch as t; import math as t",
        "x = type",
        "x = type(type(y))",
        "x = type[int]",
        "def hasattr(x, y): ...",
        "from numbers import ABCMeta",
        "from torch.autograd.function import FunctionMeta",
        "x = y.obj",
        "x = y.register(z)",
        "x = y.get_capture_scope()",
        "x = y.used_global_vals",
        "x = y.format(z)",
        "x = '{0.gi_frame}'.format(y)",
        "from math import floor as __getattr__",
        "match x:\n    case __match_args__: ...",
        "try: ...\nexcept ValueError as __getattr__: ...",
        "import triton\n@triton.jit\ndef k(x):\n    y = words(x)",
        "import triton\n@triton.jit\ndef k(x):\n    y = '%s' % x",
        "import triton\n@triton.jit\ndef k(x):\n    y = x.splitlines()",
        "import triton\n@triton.jit\ndef k(x):\n    y = str(x)",
        "import triton\n@triton.jit\ndef k(x):\n    y = float(x)",
        "import triton\n@triton.jit\ndef k(x):\n    y = f'{x}'",
    ],
)
def test_ways_out_are_seen(line: str) -> None:
    problem = escapes.escape(ast.parse(line))

    assert problem.status == "forbidden"
    assert problem.line == 1 + line.count("\n")


SELF_TEST = "if __name__ == '__main__':\n    import sys\n    print(sys.argv)\n"


def test_a_self_test_at_the_end_may_use_what_it_likes() -> None:
    assert escapes.escape(ast.parse("def f(x):\n    return x\n" + SELF_TEST)) is None


@pytest.mark.parametrize(
    "text",
    [
        "__name__ = '__main__'\n" + SELF_TEST,
        "__name__: str = '__main__'\n" + SELF_TEST,
        "from math import pi as __name__\n" + SELF_TEST,
        "for __name__ in ['__main__']:\n    pass\n" + SELF_TEST,
        "def f():\n    global __name__\n" + SELF_TEST,
        "def __name__(): ...\n" + SELF_TEST,
        "match '__main__':\n    case __name__:\n        pass\n" + SELF_TEST,
        "[__name__ := '__main__']\n" + SELF_TEST,
        "x.__name__ = '__main__'\n" + SELF_TEST,
        SELF_TEST.replace("==", "!="),
        SELF_TEST.replace("'__main__'", "'__main__' or True"),
        SELF_TEST + "else:\n    import os\n",
        "def f():\n" + SELF_TEST.replace("\n", "\n    ").replace("if", "    if", 1),
    ],
)
def test_a_self_test_that_may_run_is_read(text: str) -> None:
    assert escapes.escape(ast.parse(text)).status == "forbidden"
