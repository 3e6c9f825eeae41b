"""After a recording all is as before: the learner's globals, Triton, numpy, the environment."""

import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
import triton.runtime.interpreter as interp
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from flashlab.iocount import KernelError, OutOfBounds, active, count_io
from tests.iocount import faults, kernels

OWNERS = [
    tl, tl.core, tl.math, tl.standard, tl.tensor, tl.dtype, tl.block_type, tl.constexpr,
    tl.core.tensor_descriptor_base, interp, interp.InterpreterBuilder, interp.GridExecutor,
    interp.ReduceOps, interp.ScanOps, interp.FunctionRewriter, interp.InterpretedFunction,
    triton.JITFunction, triton.runtime.Autotuner, kernels, faults,
]  # fmt: skip


def snapshot() -> list:
    own = [
        {k: id(v) for k, v in vars(owner).items() if k != "__annotations__"} for owner in OWNERS
    ]
    knobs = dict(vars(triton.knobs.runtime))
    builder = dict(vars(interp.interpreter_builder))
    for name in ("grid_dim", "grid_idx"):
        builder.pop(name, None)
    return [own, dict(os.environ), np.geterr(), knobs, builder, list(warnings.filters)]


def inputs() -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(1, 32, 16).half() for _ in range(3)]


def test_nothing_leaks():
    before = snapshot()
    with count_io():
        kernels.flash(*inputs(), 16, 16)
        assert active() is not None
    assert snapshot() == before and active() is None


@pytest.mark.parametrize("kernel", [faults.read_near, faults.unknown_name, faults.if_tile])
def test_nothing_leaks_after_an_error(kernel):
    before = snapshot()
    with pytest.raises(KernelError), count_io():
        kernel[(1,)](torch.ones(100), torch.ones(100), 100, 128)
    assert snapshot() == before and active() is None


def test_nothing_leaks_when_the_block_itself_fails():
    before = snapshot()
    with pytest.raises(ZeroDivisionError), count_io():
        kernels.flash(*inputs(), 16, 16)
        raise ZeroDivisionError
    with pytest.raises(KeyboardInterrupt), count_io(on_launch=interrupt):
        kernels.flash(*inputs(), 16, 16)
    assert snapshot() == before


def interrupt(*_):
    raise KeyboardInterrupt


def test_a_launch_after_an_error_is_counted_afresh():
    with count_io() as tally:
        with pytest.raises(OutOfBounds):
            faults.read_near[(1,)](torch.ones(100), torch.ones(100), 100, 128)
        kernels.flash(*inputs(), 16, 16)
    assert tally.load_bytes("q_ptr") == 2 * 32 * 16
    assert [x.kernel for x in tally.launches] == ["read_near", "flash_kernel"]


def test_a_kernel_outside_is_not_interpreted():
    with count_io():
        pass
    if not torch.cuda.is_available():
        with pytest.raises(RuntimeError, match="driver|device|GPU"):
            faults.read_near[(1,)](torch.ones(128), torch.ones(128), 128, 128)


def compiled() -> str:
    names = "q_ptr k_ptr v_ptr o_ptr lse_ptr N_q N_k group sm_scale D BLOCK_M BLOCK_N CAUSAL"
    types = ["*fp16"] * 4 + ["*fp32"] + ["i32"] * 3 + ["fp32"] + ["constexpr"] * 4
    signature = dict(zip(names.split(), types, strict=True))
    constexprs = {(9,): 16, (10,): 16, (11,): 16, (12,): False}
    source = ASTSource(kernels.flash_kernel, signature, constexprs)
    options = {"num_warps": 4}
    return triton.compile(source, target=GPUTarget("cuda", 80, 32), options=options).asm["ptx"]


def test_the_compiler_gives_the_same_code_before_and_after(monkeypatch):
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
    before = compiled()
    with count_io():
        kernels.flash(*inputs(), 16, 16)
        within = compiled()
    assert before == within == compiled()


def test_kernels_made_under_triton_interpret_are_recorded_too():
    code = (
        "import torch; from tests.iocount import kernels; from flashlab.iocount import count_io\n"
        "q, k, v = (torch.randn(1, 32, 16).half() for _ in range(3))\n"
        "with count_io() as t: o, _ = kernels.nested(q, k, v, 16, 16), None\n"
        "assert t.load_bytes('k_ptr') == 2 * 2 * 32 * 16\n"
        "want = (q.float() @ k.float().mT * 0.25).softmax(-1) @ v.float()\n"
        "assert (o.float() - want).abs().max() < 3e-3\n"
        "assert (kernels.nested(q, k, v, 16, 16) - o).abs().max() < 1e-2\n"
    )
    if np.lib.NumpyVersion(np.__version__) >= "2.4.0" and triton.__version__ < "3.7":
        code = code[: code.rindex("assert")]  # the plain interpreter of 3.6 fails there
    env = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
