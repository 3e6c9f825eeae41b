"""Kernels assembled into an autograd function: gradients as fp64 autograd gives them."""

import pytest
import torch

from flashlab import autograd, kernels

SHAPES = [(2, 2, 37, 37, 16), (1, 1, 40, 20, 24), (1, 2, 5, 21, 16)]
LAB06 = ("backward_delta", "flash_backward_dkdv", "flash_backward_dq")


def solutions(*slugs):
    return [kernels.passed_or_solution(slug)[0] for slug in slugs]


def lab06():
    forward, *parts = solutions("flash_forward", *LAB06)
    return autograd.Kernels(forward, autograd.in_three(*parts))


def inputs(B, H, N_q, N_k, D, dtype=torch.float16, H_kv=None):
    generator = torch.Generator().manual_seed(N_q)
    shapes = [(B, H, N_q, D), *[(B, H_kv or H, N_k, D)] * 2, (B, H, N_q, D)]
    return [torch.randn(*shape, generator=generator).to(dtype) for shape in shapes]


def attend_with(made_of):
    return lambda q, k, v, **options: autograd.flash_attention(q, k, v, made_of=made_of, **options)


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "x".join(map(str, s)))
def test_gradients_of_lab_06(shape, causal):
    findings = autograd.check_gradients(attend_with(lab06()), *inputs(*shape), causal=causal)
    assert [f.output for f in findings] == ["o", "dq", "dk", "dv"]
    assert all(f.status == "pass" for f in findings), [f.sentence for f in findings]


def test_gradient_of_a_sum_has_strides_0():
    q, k, v, _ = (x.requires_grad_() for x in inputs(1, 1, 20, 20, 16, torch.float32))
    autograd.flash_attention(q, k, v, made_of=lab06()).sum().backward()
    o = torch.softmax(q.double() @ k.double().transpose(2, 3) / 4, 3) @ v.double()
    expected = torch.autograd.grad(o.sum(), (q, k, v))
    for got, grad in zip((q.grad, k.grad, v.grad), expected, strict=True):
        assert (got - grad).abs().max() < 1e-5


def test_a_wrong_gradient_is_found():
    made_of = lab06()

    def backward(*args, **options):
        dq, dk, dv = made_of.backward(*args, **options)
        return dq, dk * 2, dv

    wrong = autograd.Kernels(made_of.forward, backward)
    findings = autograd.check_gradients(attend_with(wrong), *inputs(1, 1, 20, 20, 16))
    assert {f.output: f.status for f in findings} == {
        "o": "pass",
        "dq": "pass",
        "dk": "wrong",
        "dv": "pass",
    }


def test_nothing_of_size_n_squared_is_saved():
    q, k, v, _ = (x.requires_grad_() for x in inputs(1, 1, 64, 64, 16))
    o = autograd.flash_attention(q, k, v, made_of=lab06())
    sizes = [x.numel() for x in o.grad_fn.saved_tensors]
    assert sum(sizes) == 4 * 64 * 16 + 64


def test_own_kernels_are_taken_at_the_call():
    q, k, v, _ = (x.requires_grad_() for x in inputs(1, 1, 16, 16, 16))
    o = autograd.flash_attention(q, k, v)
    with pytest.raises(Exception, match="Step 1 is not written yet"):
        o.sum().backward()
