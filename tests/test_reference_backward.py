"""References of the backward pass against autograd, and against their solutions at the edges."""

import inspect

import pytest
import torch

from flashlab import iocount, sources
from flashlab.loading import load_module
from flashlab.reference import attention, backward, dropout

MODULES = {
    "backward_delta": backward,
    "flash_backward_dkdv": backward,
    "flash_backward_dq": backward,
    "flash2_backward": backward,
    "flash_dropout": dropout,
    "flash_dropout_backward": dropout,
}
NEEDS = {
    "backward_delta": ("o", "do"),
    "flash_backward_dkdv": ("q", "k", "v", "do", "lse", "delta"),
    "flash_backward_dq": ("q", "k", "v", "do", "lse", "delta"),
    "flash2_backward": ("q", "k", "v", "o", "lse", "do"),
    "flash_dropout": ("q", "k", "v"),
    "flash_dropout_backward": ("q", "k", "v", "o", "lse", "do"),
}
SIZES = {"B": 2, "H": 4, "N_q": 7, "N_k": 5, "D": 8}


def solution(name):
    slug = name.removesuffix("_backward") if name.startswith("flash_dropout") else name
    module = load_module(sources.solution_text(slug), f"<solution {slug}>")
    return getattr(module, name)


def made(dtype=torch.float64, H_kv=None, causal=False, **sizes):
    """q k v do and what an exact forward pass leaves: o, lse, delta."""
    B, H, N_q, N_k, D = (SIZES | sizes).values()
    generator = torch.Generator().manual_seed(0)
    shapes = {"q": (H, N_q), "k": (H_kv or H, N_k), "v": (H_kv or H, N_k), "do": (H, N_q)}
    call = {
        name: torch.randn(B, heads, N, D, generator=generator, dtype=torch.float64).to(dtype)
        for name, (heads, N) in shapes.items()
    }
    wide = {n: call[n].double() for n in "qkv"}
    for name in "kv":
        wide[name] = wide[name].repeat_interleave(H // (H_kv or H or 1) if H else 1, dim=1)
    o, lse = attention.flash_forward(**wide, causal=causal)
    high = torch.promote_types(dtype, torch.float32)
    call |= {"o": o.to(dtype), "lse": lse.to(high)}
    return call | {"delta": backward.backward_delta(call["o"], call["do"])}


def call_of(name, **options):
    inputs = made(**options)
    more = {"p": 0.2, "seed": 3} if name.startswith("flash_dropout") else {}
    if options.get("causal"):
        more["causal"] = True
    return {n: inputs[n] for n in NEEDS[name]} | more


@pytest.mark.parametrize("H_kv", [4, 2, 1])
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_gradients_are_those_of_autograd(causal, H_kv):
    inputs = made(H_kv=H_kv, causal=causal)  # causal: the first two rows see no key
    leaves = [inputs[n].clone().requires_grad_() for n in "qkv"]
    q, k, v = leaves
    k, v = (x.repeat_interleave(4 // H_kv, dim=1) for x in (k, v))
    o, _ = attention.flash_forward(q, k, v, causal=causal)
    expected = torch.autograd.grad(o, leaves, inputs["do"])
    arguments = {n: inputs[n] for n in NEEDS["flash2_backward"]}
    grads = backward.flash2_backward(**arguments, causal=causal)
    for got, grad in zip(grads, expected, strict=True):
        torch.testing.assert_close(got, grad)


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_the_parts_are_the_whole(causal):
    inputs = made(causal=causal)
    parts = {n: inputs[n] for n in NEEDS["flash_backward_dq"]}
    dk, dv = backward.flash_backward_dkdv(**parts, causal=causal, sm_scale=0.7)
    dq = backward.flash_backward_dq(**parts, causal=causal, sm_scale=0.7)
    whole = {n: inputs[n] for n in NEEDS["flash2_backward"]}
    expected = backward.flash2_backward(**whole, causal=causal, sm_scale=0.7)
    for got, grad in zip((dq, dk, dv), expected, strict=True):
        torch.testing.assert_close(got, grad)


@pytest.mark.parametrize("empty", [{"N_k": 0}, {"N_q": 0}, {"B": 0}, {"H": 0}], ids=str)
@pytest.mark.parametrize("name", NEEDS)
def test_sizes_of_zero(name, empty):
    call = call_of(name, dtype=torch.float32, **empty)
    for function in (getattr(MODULES[name], name), solution(name)):
        with iocount.count_io():
            returned = function(**call)
        for x in _tuple(returned):
            assert x.isneginf().all() or not x.any()


def _bad(name):
    call = call_of(name, dtype=torch.float32)
    first = NEEDS[name][0]
    yield "three dimensions", call | {first: call[first][0]}
    yield "a list", call | {first: [[1.0]]}
    yield "integers", {n: x.long() if n in "qkvodo" else x for n, x in call.items()}
    for other in NEEDS[name][1:]:
        x = call[other]
        yield f"{other} of another dtype", call | {other: x.half()}
        yield f"{other} of another shape", call | {other: x[..., :-1]}
        yield f"{other} on another device", call | {other: x.to("meta")}
        yield f"{other} of another batch", call | {other: x[:1]}
    if "k" in call:
        yield "3 key heads for 4", call | {n: call[n][:, :3] for n in "kv"}
    if "p" in call:
        yield "p of 1", call | {"p": 1.0}
        yield "a seed of -1", call | {"seed": -1}


BAD = [
    pytest.param(name, call, id=f"{name}-{what}") for name in NEEDS for what, call in _bad(name)
]


@pytest.mark.parametrize(("name", "call"), BAD)
def test_a_bad_call_gets_the_same_sentence_from_reference_and_solution(name, call):
    said = []
    for function in (getattr(MODULES[name], name), solution(name)):
        with pytest.raises(ValueError, match="must") as error:
            function(**call)
        said.append(str(error.value))
    kernels_take_no_fp64 = said[0].replace(", torch.float64", "")
    assert said[1] in (said[0], kernels_take_no_fp64)


@pytest.mark.parametrize("name", NEEDS)
def test_solution_has_the_contract_of_the_reference(name):
    own, wanted = (inspect.signature(f) for f in (solution(name), getattr(MODULES[name], name)))
    assert [(p.name, p.kind, p.default) for p in own.parameters.values()] == [
        (p.name, p.kind, p.default) for p in wanted.parameters.values()
    ]


@pytest.mark.parametrize("name", NEEDS)
def test_kernels_refuse_what_does_not_fit_on_chip(name):
    call = call_of(name, dtype=torch.float32, D=257)
    with pytest.raises(ValueError, match=r"(q|o) must have D <= 256.*257"):
        solution(name)(**call)


@pytest.mark.parametrize(("dtype", "D"), [(torch.float32, 128), (torch.float16, 256)], ids=str)
@pytest.mark.parametrize("name", ["flash_backward_dkdv", "flash_backward_dq", "flash2_backward"])
def test_long_rows_get_smaller_tiles(name, dtype, D):
    call = call_of(name, dtype=dtype, causal=True, B=1, H=1, N_q=70, N_k=90, D=D)
    tiles = []
    with iocount.count_io(on_launch=lambda kernel, grid, bound, options: tiles.append(bound)):
        returned = solution(name)(**call)
    expected = getattr(MODULES[name], name)(**call)
    assert max(max(t["BLOCK_M"], t.get("BLOCK_N", 0)) for t in tiles) * D * dtype.itemsize <= 32768
    limit = 2e-3 if dtype == torch.float16 else 1e-5
    for got, grad in zip(*map(_tuple, (returned, expected)), strict=True):
        assert (got - grad).abs().max() < limit


def _tuple(x):
    return x if isinstance(x, tuple) else (x,)
