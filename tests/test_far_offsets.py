"""Solutions address elements beyond 2**31, in tensors of which only a few pages are touched."""

import numpy as np
import pytest
import torch

from flashlab import iocount, sources
from flashlab.loading import load_module
from flashlab.reference import attention, backward, decode, matmul, merge, softmax, varlen, vector


def solution(slug):
    return load_module(sources.solution_text(slug), f"<solution {slug}>")


def spread(x, axis):
    """The numbers of x in a view whose stride along ``axis`` takes the last index past 2**31."""
    stride = list(x.contiguous().stride())
    stride[axis] = 2**31 // (x.shape[axis] - 1) + 16
    last = sum((n - 1) * s for n, s in zip(x.shape, stride, strict=True))
    assert last > 2**31
    kind = {torch.float16: np.float16, torch.float32: np.float32}[x.dtype]
    storage = torch.from_numpy(np.empty(last + 1, kind))  # torch.empty would be filled
    return storage.as_strided(x.shape, stride).copy_(x)


@pytest.mark.parametrize("axis", [0, 1, 2], ids=["batch", "head", "row"])
@pytest.mark.parametrize("name", ["q", "k", "v"])
@pytest.mark.parametrize("slug", ["flash_forward", "flash2_forward"])
def test_attention(slug, name, axis):
    generator = torch.Generator().manual_seed(0)
    call = {n: torch.randn(2, 2, 20, 16, generator=generator).half() for n in "qkv"}
    call[name] = spread(call[name], axis)
    module = solution(slug)
    module.BLOCK_M = module.BLOCK_N = 16
    with iocount.count_io():
        o, lse = getattr(module, slug)(**call, causal=True)
    expected, expected_lse = attention.flash_forward(
        *(call[n].contiguous() for n in "qkv"), causal=True
    )
    assert (o - expected).abs().max() < 2e-3
    assert (lse - expected_lse).abs().max() < 1e-5


def test_vector_scale():
    x = spread(torch.randn(40, generator=torch.Generator().manual_seed(0)).half(), 0)
    module = solution("vector_scale")
    module.BLOCK = 16
    with iocount.count_io():
        y = module.vector_scale(x, 1.5)
    assert torch.equal(y, vector.vector_scale(x, 1.5))


@pytest.mark.parametrize("name", ["x", "y"])
def test_triad(name):
    generator = torch.Generator().manual_seed(0)
    call = {n: torch.randn(40, generator=generator).half() for n in "xy"}
    expected = vector.triad(**call, a=1.5)
    call[name] = spread(call[name], 0)
    module = solution("triad")
    module.BLOCK = 16
    with iocount.count_io():
        z = module.triad(**call, a=1.5)
    assert (z - expected).abs().max() < 4e-3


@pytest.mark.parametrize("axis", [0, 1], ids=["row", "column"])
@pytest.mark.parametrize("slug", ["row_softmax", "online_softmax"])
def test_softmax(slug, axis):
    x = torch.randn(9, 20, generator=torch.Generator().manual_seed(0)).half()
    module = solution(slug)
    module.BLOCK_M, module.BLOCK_N = 4, 16
    with iocount.count_io():
        got = getattr(module, slug)(spread(x, axis))
    p = got if slug == "row_softmax" else got[0]
    assert (p - softmax.row_softmax(x)).abs().max() < 1e-3


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", ["a", "b"])
def test_tiled_matmul(name, axis):
    generator = torch.Generator().manual_seed(0)
    call = {n: torch.randn(20, 20, generator=generator).half() for n in "ab"}
    expected = matmul.tiled_matmul(**call)
    call[name] = spread(call[name], axis)
    module = solution("tiled_matmul")
    module.BLOCK_M = module.BLOCK_N = module.BLOCK_K = 16
    with iocount.count_io():
        c = module.tiled_matmul(**call)
    assert (c - expected).abs().max() < 2e-2


@pytest.mark.parametrize("axis", [0, 1, 2, 3], ids=["part", "batch", "head", "row"])
@pytest.mark.parametrize("name", ["o", "lse"])
def test_merge_partials(name, axis):
    generator = torch.Generator().manual_seed(0)
    call = {
        "o": torch.randn(2, 2, 2, 20, 16, generator=generator).half(),
        "lse": torch.randn(2, 2, 2, 20, generator=generator),
    }
    expected, expected_lse = merge.merge_partials(**call)
    call[name] = spread(call[name], axis)
    module = solution("merge_partials")
    module.BLOCK_M = 16
    with iocount.count_io():
        o, lse = module.merge_partials(**call)
    assert (o - expected).abs().max() < 4e-3
    assert (lse - expected_lse).abs().max() < 1e-5


@pytest.mark.parametrize("axis", [0, 1, 2], ids=["batch", "head", "row"])
@pytest.mark.parametrize("name", ["q", "k", "v", "o", "do", "lse"])
def test_backward(name, axis):
    generator = torch.Generator().manual_seed(0)
    call = {n: torch.randn(2, 2, 20, 16, generator=generator) for n in ("q", "k", "v", "do")}
    call["o"], call["lse"] = attention.flash_forward(call["q"], call["k"], call["v"], causal=True)
    expected = backward.flash2_backward(**call, causal=True)
    call[name] = spread(call[name], axis)
    module = solution("flash2_backward")
    module.BLOCK_M = module.BLOCK_N = 16
    with iocount.count_io():
        grads = module.flash2_backward(**call, causal=True)
    for got, grad in zip(grads, expected, strict=True):
        assert (got - grad).abs().max() < 1e-4


@pytest.mark.parametrize("axis", [0, 1, 2], ids=["batch", "head", "row"])
@pytest.mark.parametrize("name", ["q", "k", "v", "do", "lse", "delta"])
def test_backward_of_lab_06(name, axis):
    generator = torch.Generator().manual_seed(0)
    call = {n: torch.randn(2, 2, 20, 16, generator=generator) for n in ("q", "k", "v", "do")}
    o, call["lse"] = attention.flash_forward(call["q"], call["k"], call["v"], causal=True)
    call["delta"] = backward.backward_delta(o, call["do"])
    expected = (
        backward.flash_backward_dq(**call, causal=True),
        *backward.flash_backward_dkdv(**call, causal=True),
    )
    call[name] = spread(call[name], axis)
    grads = []
    for slug in ("flash_backward_dq", "flash_backward_dkdv"):
        module = solution(slug)
        module.BLOCK_M = module.BLOCK_N = 16
        with iocount.count_io():
            got = getattr(module, slug)(**call, causal=True)
        grads += got if isinstance(got, tuple) else (got,)
    for got, grad in zip(grads, expected, strict=True):
        assert (got - grad).abs().max() < 1e-4


@pytest.mark.parametrize("axis", [0, 1, 2], ids=["batch", "head", "row"])
@pytest.mark.parametrize("name", ["k", "v"])
def test_split_kv_decode(name, axis):
    generator = torch.Generator().manual_seed(0)
    call = {n: torch.randn(2, 2, 20, 16, generator=generator).half() for n in "kv"}
    call["q"] = torch.randn(2, 4, 1, 16, generator=generator).half()
    expected = decode.split_kv_decode(**call, num_splits=2)
    call[name] = spread(call[name], axis)
    agrees("split_kv_decode", call | {"num_splits": 2}, expected)


@pytest.mark.parametrize("axis", [0, 1, 2], ids=["page", "slot", "head"])
@pytest.mark.parametrize("name", ["k_pages", "v_pages"])
def test_paged_decode(name, axis):
    generator = torch.Generator().manual_seed(0)
    call = {
        n: torch.randn(4, 8, 2, 16, generator=generator).half() for n in ("k_pages", "v_pages")
    }
    call["q"] = torch.randn(2, 4, 1, 16, generator=generator).half()
    call["block_table"] = torch.tensor([[3, 0], [1, 2]], dtype=torch.int32)
    call["cache_seqlens"] = torch.tensor([16, 11], dtype=torch.int32)
    expected = decode.paged_decode(**call)
    call[name] = spread(call[name], axis)
    agrees("paged_decode", call, expected)


@pytest.mark.parametrize("axis", [0, 1], ids=["token", "head"])
@pytest.mark.parametrize("name", ["q", "k", "v"])
def test_varlen_forward(name, axis):
    generator = torch.Generator().manual_seed(0)
    call = {n: torch.randn(40, 2, 16, generator=generator).half() for n in "qkv"}
    ends = torch.tensor([0, 18, 40], dtype=torch.int32)
    call |= {"cu_seqlens_q": ends, "cu_seqlens_k": ends, "max_seqlen_q": 22, "causal": True}
    expected = varlen.varlen_forward(**call)
    call[name] = spread(call[name], axis)
    agrees("varlen_forward", call, expected)


def agrees(slug, call, expected):
    """The solution's o and lse are the reference's, at tiles of 16."""
    module = solution(slug)
    module.BLOCK_M = module.BLOCK_N = 16
    with iocount.count_io():
        o, lse = getattr(module, slug)(**call)
    assert (o - expected[0]).abs().max() < 2e-3
    assert (lse - expected[1]).abs().max() < 1e-5
