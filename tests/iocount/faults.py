"""Kernels with one planted fault each; the line at fault ends in ``# fault``."""

import triton
import triton.language as tl


@triton.jit
def read_near(x_ptr, y_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + i)  # fault
    tl.store(y_ptr + i, x, mask=i < n)


@triton.jit
def read_far(x_ptr, y_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i * n * n, mask=i < n, other=0.0)  # fault
    tl.store(y_ptr + i, x, mask=i < n)


@triton.jit
def write_near(x_ptr, y_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(y_ptr + i, x)  # fault


@triton.jit
def write_far(x_ptr, y_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(y_ptr + i + 1_000_000_000, x, mask=i < n)  # fault


@triton.jit
def before_start(x_ptr, y_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i - 1, mask=i < n, other=0.0)  # fault
    tl.store(y_ptr + i, x, mask=i < n)


@triton.jit
def atomic_far(x_ptr, y_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.atomic_add(y_ptr + n + i, 1.0)  # fault


@triton.jit
def assumed_stride(x_ptr, y_ptr, rows, columns, B: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, B)
    x = tl.load(x_ptr + row * columns + i, mask=i < columns, other=0.0)  # fault
    tl.store(y_ptr + row * columns + i, x, mask=i < columns)


@triton.jit
def neighbour(x_ptr, y_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(y_ptr + n + i)
    tl.store(x_ptr + i, x)


@triton.jit
def write_write(x_ptr, y_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y_ptr + i, tl.program_id(0).to(tl.float32), mask=i < n)  # fault


@triton.jit
def read_after_write(x_ptr, y_ptr, n, B: tl.constexpr):
    pid = tl.program_id(0)
    x = tl.load(x_ptr + pid)
    if pid > 0:
        x += tl.load(y_ptr + pid - 1)  # fault
    tl.store(y_ptr + pid, x)


@triton.jit
def write_after_read(x_ptr, y_ptr, n, B: tl.constexpr):
    pid = tl.program_id(0)
    x = tl.load(y_ptr + pid + 1, mask=pid + 1 < n, other=0.0)
    tl.store(y_ptr + pid, x)  # fault


@triton.jit
def two_lanes(x_ptr, y_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(y_ptr + i // 2, x, mask=i < n)  # fault


@triton.jit
def plain_beside_atomic(x_ptr, y_ptr, n, B: tl.constexpr):
    pid = tl.program_id(0)
    if pid == 0:
        tl.store(y_ptr, 1.0)
    else:
        tl.atomic_add(y_ptr, 1.0)  # fault


@triton.jit
def unwritten_read(x_ptr, y_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    y = tl.load(y_ptr + i, mask=i < n, other=0.0)  # fault
    tl.store(y_ptr + i, x + y, mask=i < n)


@triton.jit
def missing_store(x_ptr, y_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(y_ptr + i, x, mask=i < n - 3)


@triton.jit
def other_summed(x_ptr, y_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n)  # fault
    tl.store(y_ptr, tl.sum(x, 0))


@triton.jit
def other_stored(x_ptr, y_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n - 1)  # fault
    tl.store(y_ptr + i, x * 2.0, mask=i < n)


@triton.jit
def other_in_product(x_ptr, y_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    keep = (i < n)[:, None]
    v = tl.load(x_ptr + i[:, None] * 0 + i[None, :] * 0, mask=keep)  # fault
    p = tl.where(i[None, :] < n, 1.0, 0.0) + tl.zeros([B, B], tl.float32)
    tl.store(y_ptr + i, tl.sum(tl.dot(p, v), 1), mask=i < n)


@triton.jit
def other_as_address(x_ptr, y_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    at = tl.load(x_ptr + i, mask=i < n)  # fault
    tl.store(y_ptr + at, 1.0)


@triton.jit
def other_as_branch(x_ptr, y_ptr, n, B: tl.constexpr):
    flag = tl.load(x_ptr + n, mask=tl.program_id(0) < 0)  # fault
    if flag > 0:
        tl.store(y_ptr, 1.0)


@triton.jit
def other_as_mask(x_ptr, y_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n)  # fault
    tl.store(y_ptr + i, 1.0, mask=x > 0)


@triton.jit
def int32_overflow(x_ptr, y_ptr, stride, n, B: tl.constexpr):
    row = tl.program_id(0) + n
    i = tl.arange(0, B)
    offset = row * stride + i
    x = tl.load(x_ptr + offset)  # fault
    tl.store(y_ptr + tl.program_id(0) * B + i, x)


@triton.jit
def int64_offset(x_ptr, y_ptr, stride, n, B: tl.constexpr):
    row = (tl.program_id(0) + n).to(tl.int64)
    i = tl.arange(0, B)
    x = tl.load(x_ptr + row * stride + i)
    tl.store(y_ptr + tl.program_id(0) * B + i, x)
    tl.store(x_ptr + row * stride + i, x + 1)


@triton.jit
def if_tile(x_ptr, y_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    if i < n:  # fault
        tl.store(y_ptr + i, 1.0)


@triton.jit
def and_of_tiles(x_ptr, y_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    keep = (i >= 1) and (i < n)  # fault
    tl.store(y_ptr + i, 1.0, mask=keep)


@triton.jit
def alarm(x_ptr, y_ptr, n, B: tl.constexpr):
    tl.static_assert(False, "Step 2 is not written yet: load the tile")  # fault


@triton.jit
def unknown_name(x_ptr, y_ptr, n, B: tl.constexpr):
    tl.store(y_ptr, undefined_name)  # noqa: F821  # fault


@triton.jit
def bad_range(x_ptr, y_ptr, n, B: tl.constexpr):
    i = tl.arange(0, 48)  # fault
    tl.store(y_ptr + i, 1.0)


@triton.jit
def device_assert(x_ptr, y_ptr, n, B: tl.constexpr):
    tl.device_assert(n < 0, "n is not negative")  # fault


@triton.jit
def divide(x_ptr, y_ptr, n, B: tl.constexpr):
    tl.store(y_ptr + 1 // 0, 1.0)  # fault
