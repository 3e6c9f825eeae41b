"""Results in bf16, fp16, fp32 and fp8 are rounded as torch rounds them."""

import pytest
import torch
import triton
import triton.language as tl

from flashlab.iocount import KernelError, count_io

N = 4096
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
FP8 = [torch.float8_e4m3fn, torch.float8_e5m2]
LIMIT = {torch.float8_e4m3fn: 448.0, torch.float8_e5m2: 57344.0}


@triton.jit
def cast(x_ptr, y_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y_ptr + i, tl.load(x_ptr + i).to(y_ptr.dtype.element_ty))


@triton.jit
def arithmetic(x_ptr, y_ptr, out_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i)
    y = tl.load(y_ptr + i)
    tl.store(out_ptr + i, x + y)
    tl.store(out_ptr + B + i, x - y)
    tl.store(out_ptr + 2 * B + i, x * y)
    tl.store(out_ptr + 3 * B + i, tl.abs(x) * 1.5)
    tl.store(out_ptr + 4 * B + i, tl.where(x > y, x, -y))
    tl.store(out_ptr + 5 * B + i, tl.maximum(x, y))


@triton.jit
def with_arguments(x_ptr, y_ptr, a, b: tl.float64, n: tl.int64, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.static_assert(a.dtype == tl.float32)
    tl.static_assert(b.dtype == tl.float64)
    tl.static_assert(n.dtype == tl.int64)
    tl.store(y_ptr + i, tl.load(x_ptr + i) * a)


@triton.jit
def product(a_ptr, b_ptr, c_ptr, B: tl.constexpr):
    i = tl.arange(0, B)[:, None] * B + tl.arange(0, B)[None, :]
    tl.store(c_ptr + i, tl.dot(tl.load(a_ptr + i), tl.load(b_ptr + i)))


@triton.jit
def reductions(x_ptr, y_ptr, B: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, B))
    tl.store(y_ptr, tl.max(x, 0))
    tl.store(y_ptr + 1, tl.min(x, 0))
    tl.store(y_ptr + 2, tl.sum(x.to(tl.float32), 0))


@triton.jit
def bits(x_ptr, y_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y_ptr + i, tl.load(x_ptr + i).to(tl.int16, bitcast=True))


@triton.jit
def add_atomically(y_ptr):
    tl.atomic_add(y_ptr, 1.0)


def values(dtype: torch.dtype) -> torch.Tensor:
    """Ordinary, tiny, huge and special values."""
    torch.manual_seed(0)
    x = torch.randn(N, dtype=torch.float64) * torch.exp2(torch.randint(-30, 12, (N,)).double())
    x[:6] = torch.tensor([0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1e-9])
    return x.to(dtype)


@pytest.mark.parametrize("target", FLOATS, ids=str)
@pytest.mark.parametrize("source", FLOATS, ids=str)
def test_casts_between_floats(source, target):
    x, y = values(source), torch.empty(N, dtype=target)
    with count_io():
        cast[(1,)](x, y, N)
    torch.testing.assert_close(y, x.to(target), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("target", FP8, ids=str)
@pytest.mark.parametrize("source", FLOATS[:3], ids=str)
def test_casts_to_fp8_and_back(source, target):
    x = values(source).nan_to_num(0, LIMIT[target], -LIMIT[target])
    x = x.clamp(-LIMIT[target], LIMIT[target])  # beyond, the hardware saturates
    y, back = torch.empty(N, dtype=target), torch.empty(N, dtype=source)
    with count_io():
        cast[(1,)](x, y, N)
        cast[(1,)](y, back, N)
    assert (y.view(torch.uint8) == x.to(target).view(torch.uint8)).all()
    assert (back == x.to(target).to(source)).all()


@pytest.mark.parametrize("target", FP8, ids=str)
def test_fp8_saturates(target):
    x, y = torch.tensor([1e6, -1e6, float("nan"), 1.0]), torch.empty(4, dtype=target)
    with count_io():
        cast[(1,)](x, y, 4)
    assert y[:2].float().tolist() == [LIMIT[target], -LIMIT[target]]
    assert y[2].float().isnan() and y[3].float() == 1


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_arithmetic(dtype):
    x, y, out = values(dtype)[6:1030], values(dtype)[2000:3024], torch.empty(6, 1024, dtype=dtype)
    with count_io():
        arithmetic[(1,)](x, y, out, 1024)
    want = [x + y, x - y, x * y, x.abs() * 1.5, torch.where(x > y, x, -y), torch.maximum(x, y)]
    torch.testing.assert_close(out, torch.stack(want), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", FLOATS[:3], ids=str)
def test_a_float_argument_is_fp32_as_compiled(dtype):
    x, y = values(dtype)[6:262], torch.empty(256, dtype=dtype)
    with count_io():
        with_arguments[(1,)](x, y, 0.1, 0.1, 3, 256)
    want = (x.float() * torch.tensor(0.1)).to(dtype)  # rounded once, 0.1 not to 16 bits
    torch.testing.assert_close(y, want, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [*FLOATS[:3], *FP8], ids=str)
def test_products_accumulate_in_fp32(dtype):
    torch.manual_seed(0)
    a, b = torch.randn(32, 32).to(dtype), torch.randn(32, 32).to(dtype)
    c = torch.empty(32, 32)
    with count_io():
        product[(1,)](a, b, c, 32)
    torch.testing.assert_close(c.double(), a.double() @ b.double(), rtol=1e-5, atol=1e-5)


def test_tf32_on_request():
    torch.manual_seed(0)
    a, b, c = torch.randn(32, 32), torch.randn(32, 32), torch.empty(32, 32)
    with count_io(tf32=True):
        product[(1,)](a, b, c, 32)
    short = (a.view(torch.int32) & -8192).view(torch.float32)
    other = (b.view(torch.int32) & -8192).view(torch.float32)
    torch.testing.assert_close(c, short @ other, rtol=1e-5, atol=1e-5)
    assert (c.double() - a.double() @ b.double()).abs().max() > 1e-4


@pytest.mark.parametrize("dtype", FLOATS[:3], ids=str)
def test_reductions(dtype):
    x, y = values(dtype)[6:262], torch.empty(3)
    with count_io():
        reductions[(1,)](x, y, 256)
    torch.testing.assert_close(y[:2], torch.stack([x.max(), x.min()]).float(), rtol=0, atol=0)
    torch.testing.assert_close(y[2], x.float().sum(), rtol=1e-5, atol=1e-5)


def test_bits_of_bf16():
    x, y = values(torch.bfloat16), torch.empty(N, dtype=torch.int16)
    with count_io():
        bits[(1,)](x, y, N)
    assert (y == x.view(torch.int16)).all()


def test_atomics_of_bf16_say_what_to_do():
    y = torch.zeros(1, dtype=torch.bfloat16)
    with pytest.raises(KernelError, match="fp32 tensor"), count_io():
        add_atomically[(1,)](y)
