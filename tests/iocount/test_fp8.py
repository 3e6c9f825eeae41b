"""e4m3 in interpreted kernels: every pattern, every tie, and what the plain interpreter loses."""

import os
import subprocess
import sys

import pytest
import torch
import triton
import triton.language as tl

from flashlab.iocount import count_io

E4M3 = torch.float8_e4m3fn


@triton.jit
def cast_kernel(x_ptr, y_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y_ptr + i, tl.load(x_ptr + i).to(y_ptr.dtype.element_ty))


@triton.jit
def product_kernel(a_ptr, b_ptr, c_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    at = i[:, None] * B + i[None, :]
    mask = (i < n)[:, None]
    a = tl.load(a_ptr + at, mask=mask, other=0.0)
    b = tl.load(b_ptr + at, mask=mask, other=0.0)
    tl.store(c_ptr + at, tl.dot(a, tl.trans(b)))


def patterns() -> torch.Tensor:
    """All 256 e4m3 patterns."""
    return torch.arange(256, dtype=torch.uint8).view(E4M3)


def cast(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    y = torch.empty(x.shape, dtype=dtype)
    with count_io():
        cast_kernel[(1,)](x, y, x.numel())
    return y


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_every_pattern_comes_back(dtype):
    back = cast(patterns(), dtype)
    torch.testing.assert_close(back, patterns().to(dtype), rtol=0, atol=0, equal_nan=True)
    assert int(back.isnan().sum()) == 2  # e4m3fn has no infinity
    again = cast(back, E4M3)
    assert torch.equal(again.view(torch.uint8)[:127], patterns().view(torch.uint8)[:127])


def test_ties_go_to_even_and_neighbours_to_the_nearest():
    low = patterns().float()[:126]  # 0 to 416
    high = patterns().float()[1:127]
    middle = (low + high) / 2
    x = torch.stack([middle, torch.nextafter(middle, low), torch.nextafter(middle, high)])
    got = cast(torch.cat([x.flatten(), torch.zeros(512 - x.numel())]), E4M3).float()
    even = torch.where(torch.arange(126) % 2 == 0, low, high)
    assert torch.equal(got[: x.numel()].view(3, 126), torch.stack([even, low, high]))


def test_beyond_448_saturates_and_nan_stays():
    x = torch.tensor([448.0, 464.0, 465.0, 1e9, -480.0, float("inf"), -float("inf"), float("nan")])
    got = cast(x, E4M3).float()
    assert got[:7].tolist() == [448, 448, 448, 448, -448, 448, -448] and bool(got[7].isnan())


def test_products_of_masked_tiles():
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(32, 32, generator=generator).to(E4M3) for _ in range(2))
    c = torch.empty(32, 32)
    with count_io() as tally:
        product_kernel[(1,)](a, b, c, 20, 32)
    a[20:], b[20:] = 0, 0
    torch.testing.assert_close(c, a.float() @ b.float().T, rtol=1e-6, atol=1e-6)
    assert tally.load_bytes("a_ptr") == 20 * 32


PLAIN = """
import torch, triton, triton.language as tl

@triton.jit
def cast(x_ptr, y_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y_ptr + i, tl.load(x_ptr + i).to(tl.float8e4nv))

x = torch.randn(4096, generator=torch.Generator().manual_seed(0))
y = torch.empty(4096, dtype=torch.float8_e4m3fn)
cast[(1,)](x, y, 4096)
print(int((y.float() != x.to(torch.float8_e4m3fn).float()).sum()))
"""


def test_the_plain_interpreter_still_needs_the_repair(tmp_path):
    """It rounds some ordinary numbers wrongly: when this fails, the repair can go."""
    path = tmp_path / "plain.py"
    path.write_text(PLAIN, encoding="utf-8")
    env = os.environ | {"TRITON_INTERPRET": "1"}
    run = subprocess.run(
        [sys.executable, str(path)],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert int(run.stdout) > 0
