"""Launches as data: what a launch marks, JSON, capturing without a GPU."""

import json

import pytest
import torch

from flashlab import aot
from flashlab.aot.launch import decode, encode
from flashlab.loading import load_module


def test_a_launch_is_described_as_a_launch_would_be(flash_text):
    module = load_module(flash_text, "flash.py")
    q = torch.empty(1040, 64, dtype=torch.float16)
    (launch,) = aot.capture(lambda: module.flash(q))
    assert launch.kernel == "flash_kernel" and launch.grid == (17, 1, 1)
    assert launch.signature["q_ptr"] == "*fp16" and launch.signature["scale"] == "fp32"
    assert launch.signature["stride_m"] == launch.signature["N"] == "i32"
    assert launch.signature["bias_ptr"] == "constexpr"  # None
    assert launch.signature["stride_d"] == "constexpr"  # the int 1
    assert dict(launch.constexprs)[(4,)] is None and dict(launch.constexprs)[(6,)] == 1
    assert launch.constants == {"BLOCK_M": 64, "BLOCK_N": 64, "D": 64}
    assert launch.divisible == ((0,), (1,), (2,), (3,), (5,), (7,))  # N = 1040 = 65 * 16
    assert launch.num_warps == 4 and launch.num_stages == 2


def test_ints_are_marked_by_value_and_pointers_always(flash_text):
    module = load_module(flash_text, "flash.py")
    padded = torch.empty(1000 * 72 + 3, dtype=torch.float16)[3:].as_strided((1000, 64), (72, 1))
    (launch,) = aot.capture(lambda: module.flash(padded))
    assert launch.divisible == ((0,), (1,), (2,), (3,))  # neither stride 72 nor N = 1000


def test_a_launch_survives_json(flash_text):
    module = load_module(flash_text, "flash.py")
    (launch,) = aot.capture(lambda: module.flash(torch.empty(64, 64), torch.empty(64)))
    assert aot.Launch.from_json(json.loads(json.dumps(launch.to_json()))) == launch


def test_constexprs_of_every_kind_survive_json(flash_text):
    import triton.language as tl

    module = load_module(flash_text, "flash.py")
    values = [3, 2.5, True, None, "tf32", tl.float16, (1, (tl.int8, 2)), [4, 5]]
    for value in [*values, module.flash_kernel]:
        back = decode(json.loads(json.dumps(encode(value))), vars(module))
        assert back == value or back is value
    assert encode(tl.constexpr(7)) == 7
    with pytest.raises(TypeError, match="a constexpr must be .* not object"):
        encode(object())


def test_descriptors_and_autotuned_kernels_are_captured():
    text = (
        "import torch, triton, triton.language as tl\n"
        "from triton.tools.tensor_descriptor import TensorDescriptor\n"
        "@triton.autotune([triton.Config({'B': 32}, num_warps=2), triton.Config({'B': 64})], [])\n"
        "@triton.jit\n"
        "def copy_kernel(x, y, B: tl.constexpr):\n"
        "    y.store([0, 0], x.load([tl.program_id(0) * B, 0]))\n"
        "def copy(x):\n"
        "    d = TensorDescriptor.from_tensor(x, [32, 16])\n"
        "    copy_kernel[lambda meta: (triton.cdiv(x.shape[0], meta['B']),)](d, d)\n"
    )
    rows = aot.inspect(text, "copy.py", lambda m: m.copy(torch.empty(128, 16)), (80, 90))
    module = load_module(text, "copy.py")
    (launch,) = aot.capture(lambda: module.copy(torch.empty(128, 16)))
    assert launch.grid == (4, 1, 1) and launch.num_warps == 2
    assert launch.signature["x"].startswith("tensordesc<fp32[32, 16]")
    assert [r.ok for r in rows] == [True, True]
    assert rows[0].counts["tma"] == 0 and rows[1].counts["tma"] == 2


def test_capture_leaves_triton_as_it_was_also_after_an_error():
    from triton.runtime.jit import JITFunction

    before = JITFunction.run
    with pytest.raises(ZeroDivisionError):
        aot.capture(lambda: 1 / 0)
    assert JITFunction.run is before


def test_the_recorder_s_launches_are_the_captured_ones(flash_text):
    from flashlab.iocount import count_io

    module = load_module(flash_text, "flash.py")
    q = torch.randn(70, 32).half()
    seen = []
    with count_io(on_launch=lambda *launch: seen.append(aot.describe_launch(*launch))):
        module.flash(q)
    assert seen == aot.capture(lambda: module.flash(q))
