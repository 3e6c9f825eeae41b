"""Rare paths: memory under two types, casts of pointers, limits, operations that carry faults."""

import sys

import pytest
import torch
import triton
import triton.language as tl
from triton.experimental import gluon

from flashlab.iocount import (
    MissingOther,
    OutOfBounds,
    RaceError,
    count_io,
    expect_output,
    liveness,
    recorder,
    redzone,
)
from tests.iocount import correct, faults, kernels
from tests.iocount.test_faults import big_tensor


@triton.jit
def copy(x_ptr, y_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n, other=0), mask=i < n)


@triton.jit
def copy_columns(x_ptr, y_ptr, B: tl.constexpr):
    i = tl.arange(0, B)[None, :] * B + tl.arange(0, B)[:, None]
    tl.store(y_ptr + i, tl.load(x_ptr + i))


@triton.jit
def copy_narrow(x_ptr, y_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr.to(tl.pointer_type(tl.int16)) + i)
    tl.store(y_ptr.to(tl.pointer_type(tl.int16)) + i, x)


@triton.jit
def unmasked(x_ptr, y_ptr, n, B: tl.constexpr, HOW: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n)
    if HOW == "or":
        tl.store(y_ptr + i, 1.0, mask=(i < n) | (x > 0))
    elif HOW == "or clean":
        tl.store(y_ptr + i, 1.0, mask=(i >= 0) | (x > 0))
    elif HOW == "reversed scan":
        tl.store(y_ptr + i, tl.cumsum(x, 0, reverse=True), mask=i < n)
    elif HOW == "argmax":
        tl.store(y_ptr, tl.argmax(x, 0).to(tl.float32))
    elif HOW == "join":
        tl.store(y_ptr + i, tl.split(tl.join(x, x * 0.0))[1])
    elif HOW == "cat":
        y = tl.cat(x, x, can_reorder=True)
        tl.store(y_ptr + tl.arange(0, 2 * B), y)
    elif HOW == "gather":
        tl.store(y_ptr + i, tl.gather(x, (B - 1 - i), 0), mask=i < n)
    elif HOW == "gather clean":
        tl.store(y_ptr + i, tl.gather(x, i * 0, 0))
    elif HOW == "histogram":
        tl.store(y_ptr + i, tl.histogram(x.to(tl.int32), B).to(tl.float32))
    elif HOW == "atomic":
        tl.atomic_add(y_ptr + i, x)
    elif HOW == "loop bound":
        for _ in range(tl.sum(x, 0).to(tl.int32)):
            pass
    elif HOW == "times zero":
        tl.store(y_ptr + i, (x.to(tl.int32) * (i < n).to(tl.int32)).to(tl.float32))
    elif HOW == "as other":
        tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n - 1, other=x), mask=i < n)
    elif HOW == "as other, used":
        tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n, other=x))


@triton.jit
def block_pointers(x_ptr, y_ptr, n, B: tl.constexpr, PAD: tl.constexpr):
    x_block = tl.make_block_ptr(x_ptr, [n], [1], [0], [B], [0])
    y_block = tl.make_block_ptr(y_ptr, [B], [1], [0], [B], [0])
    tl.store(y_block, tl.load(x_block, boundary_check=(0,), padding_option=PAD))


@triton.jit
def hints_and_prints(x_ptr, y_ptr, n, B: tl.constexpr):
    tl.static_print("block", B)
    tl.assume(n > 0)
    i = tl.max_contiguous(tl.multiple_of(tl.arange(0, B), B), B)
    tl.device_print("n", n)
    tl.debug_barrier()
    tl.store(y_ptr + i, tl.load(x_ptr + i, cache_modifier=".cg", eviction_policy="evict_first"))


@triton.jit
def _many(x, y):
    return x + 1, y


@triton.jit
def chain(x_ptr, y_ptr, n, B: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, B))
    for _ in range(n):
        x, _unused = _many(x, 0)
    tl.store(y_ptr + tl.arange(0, B), x)


@gluon.jit
def gluon_kernel(x_ptr):
    pass


def test_one_memory_under_two_types():
    x, y = torch.randn(16), torch.empty(16)
    expect_both = (y, y.view(torch.int16))
    with count_io(outputs=expect_both[:1]) as tally:
        copy[(1,)](x.view(torch.int16), y.view(torch.int16), 31, 32)
        assert tally.unwritten == {"output 0": 1}
        copy[(1,)](x, y, 16, 16)
    assert (x == y).all() and tally.unwritten == {}


@pytest.mark.parametrize("sparse", [True, False])
def test_races_under_two_types(sparse):
    x, y = torch.randn(16, 16), torch.zeros(16, 16)
    with count_io(sparse=sparse) as tally:
        copy_columns[(1,)](x, y, 16)
    assert (x == y).all() and (tally.heat("y_ptr", "store") == 1).all()
    with pytest.raises(RaceError, match="writes 256 elements"), count_io(sparse=sparse):
        copy_columns[(2,)](x, y, 16)
    with pytest.raises(RaceError, match="reads 256 elements"), count_io(sparse=sparse):
        copy_columns[(1,)](y, y, 16)
        copy_columns[(2,)](y, y, 16)


def test_a_pointer_cast_to_a_narrower_type():
    x, y = torch.randn(16), torch.empty(16)
    with count_io(outputs=["y_ptr"]) as tally:
        copy_narrow[(1,)](x, y, 32)
    assert (x == y).all() and tally.load_bytes("x_ptr") == 64
    assert tally.unique_bytes["x_ptr"]["load"] == 64 and tally.unwritten == {}


def test_a_reinterpreted_tensor():
    x, y = torch.arange(16, dtype=torch.int16), torch.zeros(16, dtype=torch.int16)
    with count_io() as tally:
        copy[(1,)](triton.reinterpret(x, tl.float16), triton.reinterpret(y, tl.float16), 16, 16)
    assert (x == y).all() and tally.by_tensor({"x": x, "y": y}) == {"x": (32, 0), "y": (0, 32)}


@pytest.mark.filterwarnings("ignore:tl.cat")
@pytest.mark.parametrize(
    "how",
    ["or", "reversed scan", "argmax", "join", "cat", "gather", "histogram", "atomic"]
    + ["loop bound", "as other, used"],
)
def test_undefined_lanes_are_followed(how):
    with pytest.raises(MissingOther) as caught, count_io():
        unmasked[(1,)](torch.ones(10), torch.zeros(32), 10, 16, how)
    assert caught.value.argument == "x_ptr" and "mask=i < n)" in caught.value.source
    assert caught.value.lanes == 6


@pytest.mark.parametrize("how", ["or clean", "gather clean", "times zero", "as other"])
def test_undefined_lanes_that_change_nothing(how):
    with count_io():
        unmasked[(1,)](torch.ones(10), torch.zeros(32), 10, 16, how)


@pytest.mark.skipif(
    triton.__version__ >= "3.9",
    reason="no block pointers in 3.9: the sets with 3.6 and 3.7 run it",
)
@pytest.mark.filterwarnings("ignore:.*make_block_ptr is deprecated")
def test_block_pointers():
    x, y = torch.ones(10), torch.zeros(16)
    with count_io() as tally:
        block_pointers[(1,)](x, y, 10, 16, "zero")
    assert y.sum() == 10 and tally.load_bytes("x_ptr") == 40
    with pytest.raises(MissingOther), count_io():
        block_pointers[(1,)](x, y, 10, 16, "")


@pytest.mark.skipif(
    triton.__version__ < "3.9", reason="dot_scaled needs 3.9: `make test` runs it with that set"
)
def test_scaled_products():
    a, b = torch.ones(32, 32).to(torch.float8_e4m3fn), torch.ones(32, 32).to(torch.float8_e4m3fn)
    scale, c = torch.full((32, 1), 128, dtype=torch.uint8), torch.empty(32, 32)
    with count_io() as tally:
        scaled_product[(1,)](a, b, scale, c)
    assert (c == 128).all() and tally.flops["matmul"] == 2 * 32**3


@triton.jit
def scaled_product(a_ptr, b_ptr, s_ptr, c_ptr):
    i = tl.arange(0, 32)
    at = i[:, None] * 32 + i[None, :]
    s = tl.load(s_ptr + i[:, None])
    c = tl.dot_scaled(tl.load(a_ptr + at), s, "e4m3", tl.load(b_ptr + at), s, "e4m3")
    tl.store(c_ptr + at, c)


def test_hints_and_prints(capsys):
    x, y = torch.randn(16), torch.empty(16)
    with count_io():
        hints_and_prints[(1,)](x, y, 3, 16)
    out = capsys.readouterr().out
    assert "block 16" in out and "(0, 0, 0)" in out and (x == y).all()


@pytest.mark.parametrize(
    "kernel,n,hint",
    [
        (faults.before_start, 100, "index negative"),
        (faults.write_far, 100, "Is a stride wrong"),
        (faults.read_near, 100, "Is a mask missing?"),
    ],
)
def test_the_usual_cause(kernel, n, hint):
    with pytest.raises(OutOfBounds, match=hint), count_io():
        kernel[(1,)](torch.ones(100), torch.ones(100), n, 128)


def test_an_empty_tensor_has_no_address():
    with pytest.raises(OutOfBounds, match="The tensor is empty"), count_io():
        faults.read_near[(1,)](torch.ones(0), torch.ones(100), 100, 128)


def test_an_integer_is_no_pointer():
    with pytest.raises(OutOfBounds, match="does not come from a tensor argument"), count_io():
        wild[(1,)](12345678)


@triton.jit
def wild(address):
    tl.load(address.to(tl.int64).to(tl.pointer_type(tl.float32)))


def test_an_empty_gluon_kernel_runs_in_the_model():
    with count_io() as tally:
        gluon_kernel[(1,)](torch.ones(1))
    assert len(tally.launches) == 1


def test_very_many_steps_are_added_up(monkeypatch):
    monkeypatch.setattr(recorder, "_MAX_STEPS", 5)
    x, y = torch.zeros(16), torch.empty(16)
    with count_io() as tally:
        correct.unrolled[(1,)](torch.ones(64), y, 16, 4)
        chain[(1,)](x, y, 20, 16)
    assert len(tally.steps_raw) <= 6 and (y == 20).all()
    assert tally.operations["elementwise"] == (20 + 4) * 16


def test_a_very_long_program_is_followed_in_part(monkeypatch):
    monkeypatch.setattr(liveness, "_LIMIT", 10)
    with count_io() as tally:
        chain[(1,)](torch.zeros(16), torch.empty(16), 50, 16)
    assert 0 < tally.peak_tile_bytes <= 128


def test_maps_of_freed_tensors_are_gone_and_big_ones_refused(tmp_path):
    y = torch.empty(16)
    with count_io() as tally:
        for _ in range(2):
            x = torch.ones(16)
            copy[(1,)](x, y, 16, 16)
            del x
        copy[(1,)](y, y, 16, 16)
        with pytest.raises(ValueError, match="dropped when its tensor was freed"):
            tally.touches[0].heat()
        big = big_tensor(tmp_path / "x", 1 << 29)
        copy[(1,)](big, y.half(), 16, 16)
    assert tally.load_bytes("x_ptr") == 3 * 64 + 32
    with pytest.raises(ValueError, match="look at a smaller tensor"):
        tally.heat("x_ptr")


def test_redzone_refuses_what_has_no_rows():
    for x, pad in ((torch.tensor(1.0), 16), (torch.ones(3), -1)):
        with pytest.raises(ValueError, match="redzone needs a dimension"):
            redzone(x, pad)
    assert redzone(torch.ones(2, 3, dtype=torch.bool)).stride() == (19, 1)
    assert redzone(torch.ones(2, 3).to(torch.float8_e5m2)).shape == (2, 3)


def test_errors_survive_pickling():
    import pickle

    with pytest.raises(OutOfBounds) as caught, count_io():
        faults.read_near[(1,)](torch.ones(100), torch.ones(100), 100, 128)
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value) and again.argument == "x_ptr" and again.line


def test_expecting_an_output_outside_a_recording_does_nothing():
    expect_output(torch.empty(3))


@pytest.mark.slow
def test_recording_is_at_least_twice_as_fast_as_the_plain_interpreter():
    from flashlab.bench import recorder as bench

    for _ in range(3):
        faster = [ms["plain"] / ms["recorded"] for ms in bench.measure().values()]
        if min(faster) >= 2:
            return
    pytest.fail(f"times faster: {faster}")


def test_the_bench_prints_its_table(monkeypatch, capsys):
    from flashlab.bench import recorder as bench

    monkeypatch.setattr(bench, "SIZES", bench.SIZES[:1])
    monkeypatch.setattr(bench, "_N", 64)
    monkeypatch.setattr(bench, "_in_a_process", lambda mode: bench.times_of("recorded"))
    monkeypatch.setattr(sys, "argv", ["flashlab", "bench", "recorder"])
    bench.main()
    assert "32x32x32" in capsys.readouterr().out


def test_liveness_counts_kernels_of_several_launches():
    q, k, v = (torch.randn(1, 32, 16).half() for _ in range(3))
    with count_io() as tally:
        kernels.flash(q, k, v, 16, 16)
        small = tally.peak_tile_bytes
        kernels.flash(q, k, v, 32, 32)
    assert tally.peak_tile_bytes > small > 0
