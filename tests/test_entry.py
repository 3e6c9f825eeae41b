"""Entries: the learner's text as a callable, fresh at every call, recorded on CPU tensors."""

import inspect
import linecache
import os
import subprocess
import sys
import time
import traceback
from pathlib import Path

import pytest
import torch
import triton

from flashlab import kernels, sources
from flashlab.calling import device_of
from flashlab.holes import without_markers
from flashlab.iocount import KernelError, count_io
from flashlab.kernels import AnswerError, load_module
from flashlab.workspace import Workspace, WorkspaceError

pytestmark = pytest.mark.core
SLUG = "vector_scale"

KERNEL = '''
import torch, triton
import triton.language as tl
from triton.language.standard import cdiv

BLOCK = 16


@triton.jit
def twice(x):
    return x * FACTOR


@triton.jit
def scale_kernel(x_ptr, y_ptr, N, a, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < N, other=0.0)
    tl.store(y_ptr + offs, twice(x) * a, mask=offs < N)


def vector_scale(x, a):
    """Mine."""
    print("scaling", x.numel())
    y = torch.empty_like(x)
    scale_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, y, x.numel(), a, BLOCK=BLOCK)
    return y
'''
TIMES_2, TIMES_3 = KERNEL.replace("FACTOR", "2"), KERNEL.replace("FACTOR", "3")


@pytest.fixture
def entry() -> kernels.Entry:
    return kernels.entry(SLUG)


def write(text: str, root: Path | None = None) -> Path:
    """An editor: the same size within the same second is the hardest case for a reload."""
    workspace = Workspace(root) if root else Workspace.current()
    path = workspace.kernel_path(SLUG)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (1e9, 1e9))
    return path


def ones() -> torch.Tensor:
    return torch.ones(20)


# Names


def test_names_are_a_closed_list():
    from flashlab.kernels import vector_scale

    assert vector_scale is kernels.vector_scale is kernels.entry(SLUG)
    assert set(sources.slugs()) <= set(dir(kernels))
    with pytest.raises(AttributeError, match="no exercise 'vector_scal'; did you mean vector_sca"):
        _ = kernels.vector_scal
    with pytest.raises(AttributeError, match="no exercise 'zzz'; there are .*vector_scale"):
        _ = kernels.zzz
    with pytest.raises(ImportError):
        from flashlab.kernels import vector_scal  # noqa: F401
    assert not hasattr(kernels, "__path__")


# Which text runs


def test_without_a_file_it_is_the_stub(entry):
    with pytest.raises(KernelError, match="Step 1 is not written yet"):
        entry(ones(), 2.0)
    assert repr(entry) == "<vector_scale: the untouched stub>"
    assert not Workspace.current().root.exists()


def test_the_solution_as_a_learners_text(entry):
    Workspace.current().fill(SLUG, without_markers(sources.solution_text(SLUG)))
    assert entry(ones(), 2.0).tolist() == [2.0] * 20


def test_a_changed_text_is_loaded_at_the_next_call(entry, capsys):
    path = write(TIMES_2)
    assert entry(ones(), 1.0).sum() == 40
    write(TIMES_3)
    assert entry(ones(), 1.0).sum() == 60
    assert capsys.readouterr().out == "scaling 20\n" * 2
    assert not list(path.parent.glob("__pycache__"))
    texts = [e.text for e in Workspace.current().history(SLUG)]
    assert texts == [TIMES_2, TIMES_3], "a text that was loaded was not kept"
    first = entry.module()
    assert entry.module() is first


def test_workspaces_never_mix(entry, tmp_path, monkeypatch):
    write(TIMES_2, tmp_path / "a"), write(TIMES_3, tmp_path / "b")
    for name, expected in [("a", 40), ("b", 60), ("a", 40)]:
        monkeypatch.setenv("FLASHLAB_WORK", str(tmp_path / name))
        assert entry(ones(), 1.0).sum() == expected
        assert str(tmp_path / name) in repr(entry)


def test_two_processes_with_two_workspaces_at_once(entry, tmp_path, monkeypatch):
    write(TIMES_2, tmp_path / "a"), write(TIMES_3, tmp_path / "b")
    code = (
        "import torch; from flashlab.kernels import vector_scale as v\n"
        "print(*{v(torch.ones(20), 1.0).sum().item() for _ in range(5)})"
    )
    monkeypatch.setenv("FLASHLAB_WORK", str(tmp_path / "a"))
    other = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    monkeypatch.setenv("FLASHLAB_WORK", str(tmp_path / "b"))
    while other.poll() is None:
        assert entry(ones(), 1.0).sum() == 60
        time.sleep(0.05)
    assert other.communicate()[0].splitlines()[-1] == "40.0"


def test_a_full_disk_does_not_stop_a_call(entry, monkeypatch):
    write(TIMES_2)

    def fails(self, slug, text):
        raise WorkspaceError("full")

    monkeypatch.setattr(Workspace, "keep", fails)
    assert entry(ones(), 1.0).sum() == 40


def test_an_unreadable_file_is_one_sentence(entry):
    path = write(TIMES_2)
    path.write_bytes(b"\xff")
    for use in (lambda: entry(ones(), 1.0), lambda: entry.BLOCK):
        with pytest.raises(WorkspaceError, match="line 1: byte 0xff is not UTF-8"):
            use()
    assert "not UTF-8" in repr(entry) and "module" in dir(entry)


# Attributes


def test_attributes_read_the_loaded_file(entry):
    write(TIMES_2)
    assert entry.BLOCK == 16 and entry.vector_scale.__doc__ == "Mine."
    assert "scale_kernel" in dir(entry)
    with pytest.raises(
        AttributeError, match=r"work/kernels/vector_scale.py defines no 'BLCK'; did"
    ):
        _ = entry.BLCK
    with pytest.raises(AttributeError, match="cannot be set from outside: edit BLOCK in .*work/k"):
        entry.BLOCK = 32
    assert not hasattr(entry, "__wrapped__")


def test_own_kernels_only(entry):
    write(TIMES_2)
    assert sorted(entry.kernels()) == ["scale_kernel", "twice"]  # cdiv is Triton's
    assert repr(entry.kernels()["twice"]).startswith("<kernel twice of <vector_scale: file /")


# What does not load: one sentence with the line


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "x = 1\nfor n in range(3)\n    pass\n",
            "work/kernels/vector_scale.py, line 2: expected ':' (`for n in range(3)`)",
        ),
        (
            "def f():\n    return 1\n  x = 2\n",
            "work/kernels/vector_scale.py, line 3: unindent does not match any outer indentation "
            "level (`x = 2`)",
        ),
        (
            "import math\n\nBLOCK = tile\n",
            "work/kernels/vector_scale.py, line 3: NameError: name 'tile' is not defined "
            "(`BLOCK = tile`)",
        ),
        (
            "import sys\nsys.exit(1)\n",
            "work/kernels/vector_scale.py, line 2: SystemExit: 1 (`sys.exit(1)`)",
        ),
        (
            "x = 1\n",
            "work/kernels/vector_scale.py: the function vector_scale is missing; keep its name",
        ),
        (
            "vector_scale = 1\n",
            "work/kernels/vector_scale.py: vector_scale is a int, expected the function that "
            "launches",
        ),
    ],
    ids=["syntax", "indent", "name", "exit", "missing", "no-function"],
)
def test_what_does_not_load(entry, text, sentence):
    write(text)
    with pytest.raises(AnswerError) as caught:
        entry(ones(), 1.0)
    assert str(caught.value) == sentence
    write(TIMES_2)
    assert entry(ones(), 1.0).sum() == 40


def test_null_bytes(entry):
    write("x = '\0'\n")
    with pytest.raises(AnswerError, match="null bytes"):
        entry(ones(), 1.0)


def test_a_failed_load_leaves_the_module_before(entry):
    write(TIMES_2)
    before = entry.module()
    write(TIMES_2 + "1 / 0\n")
    with pytest.raises(AnswerError, match="line 27: ZeroDivisionError"):
        entry.module()
    assert sys.modules[before.__name__] is before


# Where a call runs


def test_cpu_tensors_run_under_a_recorder_of_their_own(entry):
    write(TIMES_2)
    entry(ones(), 1.0)
    tally = entry.last_tally
    assert (tally.load_bytes("x_ptr"), tally.store_bytes("y_ptr")) == (80, 80)
    entry(x=torch.ones(4), a=1.0)
    assert entry.last_tally.load_bytes() == 16 and tally.load_bytes() == 80


def test_cpu_tensors_run_under_the_enclosing_recorder(entry):
    write(TIMES_2)
    with count_io() as tally:
        entry(ones(), 1.0)
        assert entry(ones(), 1.0).sum() == 40
        assert isinstance(entry.scale_kernel, triton.JITFunction)
    assert tally.load_bytes() == 160 and entry.last_tally is tally
    assert entry(ones(), 1.0).sum() == 40  # the recorder was taken away again


def test_a_failing_kernel_names_the_learners_line(entry):
    write(TIMES_2.replace("mask=offs < N)\n\n\ndef", "mask=None)\n\n\ndef"))
    with pytest.raises(KernelError, match=r'"tl.store\(y_ptr \+ offs, twice\(x\) \* a, mask=None'):
        entry(ones(), 1.0)
    assert entry.last_tally is not None


def test_plain_code_runs_as_it_is(entry):
    write("def vector_scale(x, a):\n    return x * a, a\n")
    before = entry.last_tally
    assert entry(3, a=2) == (6, 2)
    assert entry(ones(), 2)[0].sum() == 40
    assert entry.last_tally is before


def test_other_devices_run_without_the_recorder(entry):
    write(
        "import triton\n@triton.jit\ndef k():\n    pass\ndef vector_scale(x, a):\n    return x\n"
    )
    before = entry.last_tally
    assert entry(torch.ones(2, device="meta"), 1).device.type == "meta"
    assert entry.last_tally is before


@pytest.mark.gpu
def test_cuda_tensors_run_compiled(entry):
    write(TIMES_2)
    before, x = entry.last_tally, ones().cuda()
    assert entry(x, 1.0).sum() == 40
    y = torch.zeros_like(x)
    entry.kernels()["scale_kernel"][(2,)](x, y, 20, 1.0, BLOCK=16, num_warps=1)
    assert y.sum() == 40 and entry.last_tally is before
    write(TIMES_3)
    assert entry(x, 1.0).sum() == 60 and entry(ones(), 1.0).sum() == 60
    with pytest.raises(ValueError, match="got x on cuda:0 and a on cpu"):
        entry(x, ones())


def test_a_mixture_of_devices_is_refused_with_the_names(entry):
    write(TIMES_2)
    with pytest.raises(ValueError, match="one device, got x on cpu and a on meta: move them with"):
        entry(ones(), a=torch.ones(1, device="meta"))


def test_tensors_are_found_in_lists_and_dictionaries():
    def call(x, y, *more, z=None):
        return None

    assert device_of(call, (1, "a"), {"z": None}) is None
    assert device_of(call, ([1, (ones(),)], {"q": ones()}), {"z": [ones()]}) == "cpu"
    elsewhere = torch.ones(1, device="meta")
    with pytest.raises(ValueError, match="got x on cpu and argument 4, z on meta"):
        device_of(call, ([ones()], 1, 2, {"k": [elsewhere]}), {"z": elsewhere})


def test_gluon_runs_in_the_model_on_cpu_tensors(entry):
    write(
        "from triton.experimental import gluon\n"
        "from triton.experimental.gluon import language as gl\n\n@gluon.jit\ndef k(x):\n"
        "    gl.store(x, 7.0)\n\n\ndef vector_scale(x, a):\n    k[(1,)](x)\n    return x\n"
    )
    assert entry(ones(), 1.0)[0] == 7.0


# Kernels by themselves


def test_a_kernel_is_launched_by_itself_and_stays_current(entry):
    write(TIMES_2)
    kernel, y = entry.kernels()["scale_kernel"], torch.zeros(20)
    kernel[(2,)](ones(), y, 20, 1.0, BLOCK=16)
    assert y.sum() == 40 and entry.last_tally.store_bytes() == 80
    write(TIMES_3)
    kernel[(2,)](ones(), y, 20, 1.0, BLOCK=16, num_warps=4)
    assert y.sum() == 60
    assert kernel.fn.__name__ == "scale_kernel"
    with pytest.raises(ValueError, match="x_ptr on cpu and y_ptr on meta"):
        kernel[(2,)](ones(), torch.ones(20, device="meta"), 20, 1.0, BLOCK=16)


def test_a_launch_without_a_proper_grid_is_told(entry):
    write(TIMES_2)
    kernel = entry.kernels()["scale_kernel"]
    with pytest.raises(TypeError, match=r"scale_kernel\[2\]: a grid is a tuple, such as \(2,\)"):
        kernel[2]
    with pytest.raises(TypeError, match=r"a launch needs a grid: scale_kernel\[\(4,\)\]"):
        kernel(ones())


def test_an_autotuned_kernel(entry):
    tuned = TIMES_2.replace(
        "@triton.jit\ndef scale_kernel",
        "@triton.autotune([triton.Config({'BLOCK': 16})], key=['N'])\n@triton.jit\n"
        "def scale_kernel",
    ).replace(", BLOCK=BLOCK)", ")")
    write(tuned)
    assert sorted(entry.kernels()) == ["scale_kernel", "twice"]
    assert entry(ones(), 1.0).sum() == 40


# load_module


def test_source_and_tracebacks_show_the_text(tmp_path):
    name = str(tmp_path / "none.py")
    module = load_module(TIMES_2 + "\n\ndef fails():\n    raise KeyError('here')\n", name)
    lines, start = inspect.getsourcelines(module.scale_kernel.fn)
    assert (lines[0], start) == ("@triton.jit\n", 14)
    assert isinstance(module.scale_kernel, triton.JITFunction)
    with pytest.raises(KeyError) as caught:
        module.fails()
    frame = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (frame.filename, frame.line) == (name, "raise KeyError('here')")
    linecache.checkcache()
    assert inspect.getsource(module.fails).endswith("raise KeyError('here')\n")


def test_kernels_can_be_compiled_whatever_the_environment_says(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    module = load_module(TIMES_2, "environment.py")
    assert isinstance(module.scale_kernel, triton.JITFunction)
    assert os.environ["TRITON_INTERPRET"] == "1"


def test_string_annotations_find_their_module():
    text = (
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        "from typing import ClassVar\n\n@dataclass\nclass Tiles:\n"
        "    m: int\n    known: ClassVar[int] = 3\n"
    )
    assert load_module(text, "tiles.py").Tiles(16).m == 16


def test_modules_of_two_files_with_one_name_stay_apart():
    one, two = load_module("x = 1", "a/same.py"), load_module("x = 2", "b/same.py")
    assert sys.modules[one.__name__].x == 1 and sys.modules[two.__name__].x == 2
