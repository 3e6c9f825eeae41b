"""The reference draws Triton's random numbers, bit for bit, and drops the share that was asked."""

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from flashlab.iocount import count_io
from flashlab.reference import dropout

NUMBERS = np.concatenate([np.arange(64), 2 ** np.arange(62), [2**31 - 1, 2**32 - 1]])
SEEDS = [0, 1, 7, 2**31 - 1, 2**31, 2**32 + 5, 2**40 + 3, 2**63 - 1]


@triton.jit
def rand_kernel(u_ptr, numbers_ptr, seed, N: tl.constexpr):
    offs = tl.arange(0, N)
    tl.store(u_ptr + offs, tl.rand(seed, tl.load(numbers_ptr + offs)))


@pytest.mark.parametrize("seed", SEEDS)
def test_numbers_are_those_of_triton(seed):
    numbers = torch.from_numpy(NUMBERS.astype(np.int64))
    u = torch.empty(len(numbers))
    with count_io():
        rand_kernel[(1,)](u, numbers, seed, N=len(numbers))
    np.testing.assert_array_equal(dropout.uniform(seed, numbers.numpy()), u.numpy())


@pytest.mark.gpu
@pytest.mark.parametrize("seed", SEEDS)
def test_numbers_are_those_of_a_gpu(seed):
    numbers = torch.from_numpy(NUMBERS.astype(np.int64))
    u = torch.empty(len(numbers), device="cuda")
    rand_kernel[(1,)](u, numbers.cuda(), seed, N=len(numbers))
    np.testing.assert_array_equal(dropout.uniform(seed, numbers.numpy()), u.cpu().numpy())


def test_numbers_are_uniform():
    u = dropout.uniform(3, np.arange(1 << 18))
    assert 0 <= u.min() and u.max() < 1
    share = np.histogram(u, bins=16, range=(0, 1))[0] / len(u)
    assert np.abs(share - 1 / 16).max() < 0.002


@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 0.9])
def test_the_share_that_is_dropped(p):
    keep = dropout.kept(p, 11, 2, 3, 100, 100)
    assert keep.shape == (2, 3, 100, 100)
    assert abs(1 - keep.double().mean() - p) < 0.01


def test_gradients_are_those_of_autograd():
    generator = torch.Generator().manual_seed(0)
    q, k, v, do = (
        torch.randn(2, 2, n, 8, generator=generator, dtype=torch.float64) for n in (9, 7, 7, 9)
    )
    leaves = [x.requires_grad_() for x in (q, k, v)]
    options = {"p": 0.3, "seed": 5, "causal": True}
    o, lse = dropout.flash_dropout(*leaves, **options)
    expected = torch.autograd.grad(o, leaves, do)
    with torch.no_grad():
        grads = dropout.flash_dropout_backward(q, k, v, o, lse, do, **options)
    for got, grad in zip(grads, expected, strict=True):
        torch.testing.assert_close(got, grad)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"p": 1.0, "seed": 0}, "p must be a number from 0 to below 1, not 1.0"),
        ({"p": -0.1, "seed": 0}, "p must be a number from 0 to below 1, not -0.1"),
        ({"p": 0.1, "seed": -1}, r"seed must be an int from 0 to 2\*\*63 - 1, not -1"),
        ({"p": 0.1, "seed": 0.5}, "seed must be an int"),
    ],
    ids=["p-1", "p-negative", "seed-negative", "seed-float"],
)
def test_bad_options_are_named(options, said):
    q = torch.randn(1, 1, 4, 8)
    with pytest.raises(ValueError, match=said):
        dropout.flash_dropout(q, q, q, **options)
