"""Habits of PyTorch in a kernel: one sentence with Triton's spelling, recorded and compiled."""

import pytest
import torch

from flashlab import aot
from flashlab.grader import lint
from flashlab.iocount import KernelError, count_io, habits
from flashlab.loading import load_module

KERNEL = """
import math

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, y_ptr):
    o = tl.arange(0, 16)
    ptrs = x_ptr + o[:, None] * 16 + o[None, :]
    a = tl.load(ptrs)
    b = tl.load(x_ptr + tl.arange(0, 32)[:, None] * 16 + o[None, :])
    r = {line}
    tl.store(y_ptr + o, 1.0)


def launch(x):
    y = torch.empty(16)
    kernel[(1,)](x, y)
    return y
"""
HABITS = {
    "a @ a.T": "tl.dot(a, tl.trans(a))",
    "2.0 * a @ a.transpose(0, 1)": "tl.dot(2.0 * a, tl.trans(a))",
    "x_ptr[o]": "load with tl.load(x_ptr + o, mask=..., other=0.0)",
    "a[:, 0]": "cannot be sliced",
    "a[0]": "cannot be sliced",
    "a.sum(dim=1)": "tl.sum(a, axis=1)",
    "a.max(dim=1).values": "tl.max(a, axis=1), which returns the values alone",
    "tl.max(a, dim=1)": "tl.max(a, axis=1)",
    "tl.exp(o)": "tl.exp(o.to(tl.float32))",
    "tl.exp(a.to(tl.float16))": "write tl.exp(a.to(tl.float16).to(tl.float32))",
    "tl.dot(ptrs, a)": "ptrs holds addresses, not numbers",
    "a - x_ptr": "x_ptr holds addresses, not numbers",
    "tl.dot(a, tl.trans(b)) + tl.dot(a, b)": "",
    "tl.dot(a, b)": "tl.trans(b)",
    "o.unsqueeze(1)": "x[:, None]",
    "a.float()": "x.to(tl.float32)",
    "tl.amax(a, 1)": "tl.max(x, axis=1)",
    "len(a)": "BLOCK_ constants",
    "b - tl.sum(b, 1)": "16 elements and the other 32: beside a tile a number for each row is",
    "tl.zeros([16])": "tl.zeros([BLOCK_M], tl.float32)",
}


def refusals(line):
    """What the recorder and the compiler say of the kernel with ``line`` in it."""
    text = KERNEL.format(line=line)
    module, launches = load_module(text, "habit.py"), []

    def seen(kernel, grid, bound, options):
        launches.append(aot.describe_launch(kernel, grid, bound, options))

    with pytest.raises(KernelError) as error, count_io(on_launch=seen):
        module.launch(torch.ones(32, 16))
    [row] = aot.compile_launches(text, "habit.py", launches, (80,), 60)
    return error.value, row


@pytest.mark.parametrize("line", [line for line, words in HABITS.items() if words])
def test_a_habit_gets_tritons_spelling_from_both(line):
    recorded, compiled = refusals(line)
    at = KERNEL.splitlines().index("    r = {line}") + 1
    assert HABITS[line] in recorded.what and recorded.line == at
    assert recorded.kind == "compile" and "program" not in str(recorded)
    assert HABITS[line] in compiled.sentence and compiled.line == at
    assert "triton.jit" not in recorded.what + compiled.sentence


@pytest.mark.parametrize(
    "line, words", [("max(a, 2 * a)", "tl.maximum(a, 2 * a)"), ("math.exp(a)", "tl.exp(a)")]
)
def test_python_functions_on_tiles(line, words):
    text = KERNEL.format(line=line)
    with pytest.raises(KernelError, match="write") as error, count_io():
        load_module(text, "habit.py").launch(torch.ones(32, 16))
    assert words in error.value.what


def test_storing_by_index_names_tl_store():
    text = KERNEL.format(line="a").replace("tl.store(y_ptr + o, 1.0)", "y_ptr[o] = 1.0")
    with pytest.raises(KernelError) as error, count_io():
        load_module(text, "habit.py").launch(torch.ones(32, 16))
    assert "tl.store(y_ptr + o, 1.0, mask=...)" in error.value.what


def test_what_is_no_habit_keeps_its_own_words():
    assert habits.advice("r = a + b\n", 1, "some other error") == ""
    assert habits.advice("s = x[:, None]\n", 1, "unsupported tensor index") == ""
    assert habits.advice("def (", 1, "MatMult") == ""


def test_a_reduction_without_axis_is_found():
    found = dict(habits.reductions(KERNEL.format(line="a.sum() + tl.max(a) + tl.sum(a, 1)")))
    [(line, text)] = found.items()
    assert line == 15 and "axis=1" in text
    both = list(habits.reductions(KERNEL.format(line="a.sum() + tl.max(a)")))
    assert [t.split(" has ")[0] for _, t in both] == ["a.sum()", "tl.max(a)"]


def test_torch_in_a_kernel_is_told_its_twin_in_tl():
    assert lint._kernel_rule("torch.exp").endswith("write tl.exp")
    assert lint._kernel_rule("torch.matmul").endswith("write tl.dot")
