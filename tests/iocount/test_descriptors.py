"""Boxes cut off at the end of what a descriptor describes: bytes, values, what stays untouched."""

import pytest
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from flashlab.iocount import OutOfBounds, count_io, redzone


@triton.jit
def copy_described(x, y, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    n, h, b = tl.program_id(0) * ROWS, tl.program_id(1), tl.program_id(2)
    box = x.load([b, h, n, 0]).reshape(ROWS, COLUMNS)
    y.store([b, h, n, 0], box.reshape(1, 1, ROWS, COLUMNS))


@triton.jit
def copy_heads(
    x_ptr, y_ptr, N, D, stride_h, stride_n, DESCRIBED: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    start = tl.program_id(1).to(tl.int64) * stride_h
    x = tl.make_tensor_descriptor(x_ptr + start, [DESCRIBED, D], [stride_n, 1], [ROWS, COLUMNS])
    y = tl.make_tensor_descriptor(y_ptr + start, [N, D], [stride_n, 1], [ROWS, COLUMNS])
    y.store([tl.program_id(0) * ROWS, 0], x.load([tl.program_id(0) * ROWS, 0]))


def described(x, rows, columns):
    return TensorDescriptor(x, list(x.shape), list(x.stride()), [1, 1, rows, columns])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("shape", [(2, 3, 21, 20), (1, 2, 16, 32), (2, 1, 1, 8)], ids=str)
def test_of_four_dimensions_only_what_exists_is_moved(shape, dtype):
    B, H, N, D = shape
    full = torch.full([B, H, N + 16, D + 16 - D % 8], 7.0, dtype=dtype)
    x = redzone(torch.randn(shape).to(dtype), pad=16 + -D % 8)  # rows of whole 16-byte steps
    y = full[:, :, :N, :D]
    with count_io() as tally:
        copy_described[(triton.cdiv(N, 16), H, B)](
            described(x, 16, 32), described(y, 16, 32), 16, 32
        )
    assert torch.equal(y, x)
    full[:, :, :N, :D] = 7.0
    assert (full == 7.0).all()
    moved = x.numel() * x.element_size()
    assert tally.by_tensor({"x": x, "y": y}) == {"x": (moved, 0), "y": (0, moved)}


def test_a_box_beyond_the_end_brings_zeros_and_moves_nothing():
    x, y = torch.ones(1, 1, 16, 16), torch.empty(1, 1, 32, 16)
    with count_io() as tally:
        copy_described[(2, 1, 1)](described(x, 16, 16), described(y, 16, 16), 16, 16)
    assert (y[0, 0, :16] == 1).all() and not y[0, 0, 16:].any()
    assert tally.load_bytes() == x.nbytes and tally.store_bytes() == y.nbytes


def heads(rows):
    """Two heads of 20 rows, each followed by 16 rows of padding; ``rows`` are described."""
    x = redzone(torch.randn(2, 20, 16))
    y = torch.empty_strided(x.shape, x.stride())
    with count_io() as tally:
        copy_heads[(2, 2)](x, y, 20, 16, x.stride(0), x.stride(1), rows, 16, 16)
    return x, y, tally


def test_a_head_described_in_a_kernel_ends_with_its_rows():
    x, y, tally = heads(20)
    assert torch.equal(x, y) and tally.load_bytes() == x.numel() * 4


def test_a_head_described_too_long_is_out_of_bounds():
    with pytest.raises(OutOfBounds, match="x_ptr"):
        heads(32)
