"""Every kind of fault is reported with its argument, its program and its line."""

import resource
import subprocess
import sys

import numpy as np
import pytest
import torch

from flashlab.iocount import (
    KernelError,
    MissingOther,
    OutOfBounds,
    RaceError,
    UninitialisedRead,
    UnwrittenOutput,
    count_io,
    redzone,
)
from tests.iocount import faults

N, B = 100, 128


def launch(kernel, programs: int = 1, n: int = N, dtype=torch.float32, **options):
    x, y = torch.ones(N, dtype=dtype), torch.zeros(N)
    with count_io(**options) as tally:
        kernel[(programs,)](x, y, n, B)
    return tally


def check(error: KernelError, kind: str, argument: str | None = None) -> None:
    assert (error.kind, error.argument) == (kind, argument)
    assert error.source.endswith("# fault"), error.source
    assert error.filename.endswith("faults.py") and error.program is not None
    assert f"line {error.line}" in str(error) and len(str(error).splitlines()) == 2


@pytest.mark.parametrize(
    "kernel,argument,words",
    [
        (faults.read_near, "x_ptr", "28 of 128 active lanes, up to 28 elements (112 bytes) past"),
        (faults.read_far, "x_ptr", "99 of 100 active lanes"),
        (faults.write_near, "y_ptr", "up to 28 elements (112 bytes) past the end"),
        (faults.write_far, "y_ptr", "past the end"),
        (faults.before_start, "x_ptr", "up to 1 element (4 bytes) before the start"),
        (faults.atomic_far, "y_ptr", "past the end"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_out_of_bounds(kernel, argument, words):
    with pytest.raises(OutOfBounds) as caught:
        launch(kernel)
    check(caught.value, "oob", argument)
    assert words in str(caught.value) and "shape [100], strides [1]" in str(caught.value)


def test_nothing_is_touched_before_the_check():
    x, y = torch.ones(N), torch.zeros(200)
    with pytest.raises(OutOfBounds), count_io():
        faults.write_near[(1,)](x, y[:N], N, B)
    assert (y == 0).all()


def test_a_stray_address_is_not_given_to_the_neighbour():
    both = torch.zeros(2 * N)
    with pytest.raises(OutOfBounds, match="'y_ptr'"), count_io():
        faults.neighbour[(1,)](both[N:], both[:N], N, 64)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int32])
def test_redzone_finds_an_assumed_stride(dtype):
    x = redzone(torch.ones(4, 100, dtype=dtype))
    assert x.shape == (4, 100) and x.stride() == (116, 1) and (x == 1).all()
    with pytest.raises(OutOfBounds) as caught, count_io():
        faults.assumed_stride[(4,)](x, torch.zeros(4, 100), 4, 100, B)
    check(caught.value, "oob", "x_ptr")
    assert "padding between rows" in str(caught.value) and "first at [0, 100]" in str(caught.value)
    assert caught.value.program == (1, 0, 0)


@pytest.mark.parametrize(
    "kernel,words",
    [
        (
            faults.write_write,
            "writes 100 elements of argument 'y_ptr' (first at [0]) that program",
        ),
        (faults.read_after_write, "reads 1 element of argument 'y_ptr' (first at [0])"),
        (faults.write_after_read, "that program (0, 0, 0) read"),
        (faults.two_lanes, "of one tl.store write an element of argument 'y_ptr' (first at [0])"),
        (faults.plain_beside_atomic, "updates 1 element of argument 'y_ptr'"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_races(kernel, words):
    with pytest.raises(RaceError) as caught:
        launch(kernel, programs=3)
    check(caught.value, "race", "y_ptr")
    assert words in str(caught.value)


@pytest.mark.parametrize("order", ["reversed", 3])
@pytest.mark.parametrize(
    "kernel", [faults.write_write, faults.read_after_write, faults.write_after_read]
)
def test_races_are_found_in_any_order(kernel, order):
    with pytest.raises(RaceError):
        launch(kernel, programs=5, order=order)


def test_races_can_be_left_alone_or_collected():
    launch(faults.write_write, programs=3, races=False)
    tally = launch(faults.write_write, programs=3, strict=False)
    assert len(tally.races) == 1  # one kind, argument and line, however often
    check(tally.races[0], "race", "y_ptr")
    assert "race" in tally.report()


def test_uninitialised_read():
    with pytest.raises(UninitialisedRead) as caught:
        launch(faults.unwritten_read, outputs=["y_ptr"])
    check(caught.value, "uninitialised", "y_ptr")
    assert "reads 100 elements that nothing has written yet (first at [0])" in str(caught.value)
    launch(faults.unwritten_read)  # y is an input as well


def test_outputs_may_be_named_by_tensor():
    x, y = torch.ones(N), torch.zeros(N)
    with pytest.raises(UninitialisedRead), count_io(outputs=[y]):
        faults.unwritten_read[(1,)](x, y, N, B)


def test_unwritten_output():
    tally = launch(faults.missing_store, outputs=["y_ptr"])
    assert tally.unwritten == {"y_ptr": 3}
    with pytest.raises(UnwrittenOutput, match=r"3 elements of output 'y_ptr'.*first at \[97\]"):
        tally.require_written()
    assert "3 elements were never stored" in tally.report()
    y = torch.zeros(N)
    with count_io(outputs=[y]) as tally:
        pass
    assert tally.unwritten == {"output 0": N}


@pytest.mark.parametrize(
    "kernel,dtype,use",
    [
        (faults.other_summed, torch.float32, "a tl.store"),
        (faults.other_stored, torch.float32, "a tl.store"),
        (faults.other_in_product, torch.float32, "a tl.store"),
        (faults.other_as_address, torch.int32, "the address of a tl.store"),
        (faults.other_as_branch, torch.float32, "an `if` or `while`"),
        (faults.other_as_mask, torch.float32, "the mask of a tl.store"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_missing_other(kernel, dtype, use):
    with pytest.raises(MissingOther) as caught:
        launch(kernel, dtype=dtype)
    check(caught.value, "uninitialised", "x_ptr")
    assert use in str(caught.value) and "other=" in str(caught.value)
    if dtype is torch.float32:
        launch(kernel, poison=False)


@pytest.mark.parametrize(
    "kernel,words",
    [
        (faults.if_tile, "a tile of shape [128] has no single truth value"),
        (faults.and_of_tiles, "Use tl.where(cond, a, b)"),
        (faults.alarm, "Step 2 is not written yet: load the tile"),
        (faults.unknown_name, "name 'undefined_name' is not defined"),
        (faults.bad_range, "power of 2"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_the_compiler_would_refuse(kernel, words):
    with pytest.raises(KernelError) as caught:
        launch(kernel)
    check(caught.value, "compile")
    assert words in str(caught.value)


def test_other_exceptions_name_their_line():
    for kernel, words in ((faults.device_assert, "not negative"), (faults.divide, "ZeroDivision")):
        with pytest.raises(KernelError) as caught:
            launch(kernel)
        check(caught.value, "crash")
        assert words in str(caught.value)


def test_launches_that_cannot_be():
    x = torch.ones(N)
    wrong = [
        (lambda: faults.read_near[4](x, x, N, B), "the grid is 4"),
        (lambda: faults.read_near[(4.0,)](x, x, N, B), "must be integers"),
        (lambda: faults.read_near[(1, 70_000)](x, x, N, B), "65,535"),
        (lambda: faults.read_near[(1,)](x, x, N), "missing a required argument: 'B'"),
        (lambda: faults.read_near[(1,)](x, x, N, B, num_warp=4), "Did you mean num_warps?"),
        (lambda: faults.read_near[(1,)](np.ones(3), x, N, B), "'x_ptr' of kernel read_near is a"),
    ]
    for run, words in wrong:
        with pytest.raises(KernelError) as caught, count_io():
            run()
        assert words in str(caught.value) and caught.value.kind == "compile"


def test_the_traceback_in_a_notebook_is_one_screen():
    with pytest.raises(OutOfBounds) as caught:
        launch(faults.read_near)
    lines = caught.value._render_traceback_()
    assert 4 < len(lines) < 10 and "OutOfBounds" in lines[0]
    assert any(line.startswith("---->") and "# fault" in line for line in lines)
    assert len(caught.traceback) < 8
    assert set(caught.value.to_json()) >= {"kind", "argument", "program", "line", "source"}


def big_tensor(path, elements: int) -> torch.Tensor:
    """A float16 tensor in a sparse file: only pages that are touched take memory."""
    storage = torch.UntypedStorage.from_file(str(path), True, 2 * elements)
    return torch.empty(0, dtype=torch.float16).set_(storage, 0, (elements,), (1,))


ROWS, STRIDE = 4096 + 8, 1 << 19  # the last rows start past 2^31


def test_int32_overflow_of_an_offset(tmp_path):
    x = big_tensor(tmp_path / "x", ROWS * STRIDE)
    with pytest.raises(OutOfBounds) as caught, count_io():
        faults.int32_overflow[(8,)](x, torch.zeros(8, 64), STRIDE, ROWS - 8, 64)
    check(caught.value, "oob", "x_ptr")
    assert "int32 offset that overflowed" in str(caught.value)
    assert "row * stride" in str(caught.value) and "int64" in str(caught.value)


def large_case(path: str) -> int:
    """Offsets past 2^31 with every check on; peak memory of the process in bytes."""
    x, y = big_tensor(path, ROWS * STRIDE), torch.zeros(8, 64)
    view = x.as_strided((ROWS, 64), (STRIDE, 1))
    view[-8:] = torch.arange(8)[:, None]
    with count_io(outputs=["y_ptr"]) as tally:
        faults.int64_offset[(8,)](view, y, STRIDE, ROWS - 8, 64)
    assert (y == torch.arange(8)[:, None]).all() and tally.unwritten == {}
    assert tally.unique_bytes["x_ptr"] == {"load": 1024, "store": 1024}
    with count_io() as tally, pytest.raises(OutOfBounds, match="padding between rows"):
        faults.int64_offset[(8,)](view[:, :60], y, STRIDE, ROWS - 8, 64)
    with count_io(order="reversed") as tally, pytest.raises(RaceError):
        faults.int64_offset[(8, 2)](view, y, STRIDE, ROWS - 8, 64)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def test_offsets_past_2_31_in_less_than_1_gb(tmp_path):
    code = "import sys; from tests.iocount.test_faults import *; print(large_case(sys.argv[1]))"
    command = [sys.executable, "-c", code, str(tmp_path / "x")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 1e9
