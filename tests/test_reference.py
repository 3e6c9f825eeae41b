"""References against torch's own attention in fp64, and their contract: edges, dtypes, errors.

The solutions are held to the same signatures and the same sentences of their ValueErrors.
"""

import inspect

import pytest
import torch

from flashlab import exercises, iocount, sources
from flashlab.exercises.attention_inputs import make_inputs
from flashlab.loading import load_module
from flashlab.reference import attention, vector

SIZES = {"B": 2, "H": 3, "N_q": 7, "N_k": 11, "D": 5}


def made(dtype=torch.float64, seed=0, **sizes):
    return make_inputs(SIZES | sizes, dtype, torch.Generator().manual_seed(seed))


def solution(slug):
    return load_module(sources.solution_text(slug), f"<solution {slug}>")


def visible(N_q, N_k):
    return torch.tensor([[j <= i + N_k - N_q for j in range(N_k)] for i in range(N_q)])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("N_q", "N_k"), [(7, 11), (11, 11), (1, 9), (1, 1)])
def test_attention_is_that_of_torch(N_q, N_k, causal):
    call = made(N_q=N_q, N_k=N_k)
    mask = visible(N_q, N_k) if causal else None
    expected = torch.nn.functional.scaled_dot_product_attention(**_qkv(call), attn_mask=mask)
    o, lse = attention.flash_forward(**call, causal=causal)
    torch.testing.assert_close(o, expected, rtol=0, atol=1e-14)
    s = call["q"] @ call["k"].mT / 5**0.5
    s = s.masked_fill(~visible(N_q, N_k), -torch.inf) if causal else s
    torch.testing.assert_close(lse, torch.log(torch.exp(s).sum(3)), rtol=0, atol=1e-14)


def _qkv(call):
    return dict(zip(("query", "key", "value"), (call[n] for n in "qkv"), strict=True))


def test_scores_far_from_zero_keep_their_precision():
    call = made(D=16, scores="large")
    o, lse = attention.flash_forward(**call)
    assert o.isfinite().all() and lse.isfinite().all()
    moved, moved_lse = attention.flash_forward(**made(D=16, scores="negative"))
    assert moved.isfinite().all() and (moved_lse < -100).all()


def test_a_row_without_keys_gives_zero_and_minus_infinity():
    o, lse = attention.flash_forward(**made(N_q=9, N_k=4, causal=True))
    assert not o[:, :, :5].any() and (lse[:, :, :5] == -torch.inf).all()
    assert o[:, :, 5:].all() and lse[:, :, 5:].isfinite().all()


@pytest.mark.parametrize("empty", [{"N_k": 0}, {"N_q": 0}, {"B": 0}, {"H": 0}])
@pytest.mark.parametrize("slug", ["flash_forward", "flash_forward_tiles"])
def test_sizes_of_zero(slug, empty):
    call = made(torch.float32, **empty)
    call |= {"block_m": 16, "block_n": 16} if slug == "flash_forward_tiles" else {}
    for module in (attention, solution(slug)):
        o, lse = getattr(module, slug)(**call)
        assert o.shape == call["q"].shape and not o.any()
        assert lse.shape == o.shape[:3] and (lse == -torch.inf).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_dtypes(dtype):
    o, lse = attention.flash_forward(**made(dtype))
    assert o.dtype == dtype
    assert lse.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    x = torch.ones(3, dtype=dtype)
    assert vector.vector_scale(x, 2.5).dtype == dtype


def test_the_reference_can_be_differentiated_past_rows_without_keys():
    call = made(N_q=4, N_k=2, B=1, H=1, D=2)
    q, k, v = (call[n].requires_grad_() for n in "qkv")
    assert torch.autograd.gradcheck(
        lambda q, k, v: attention.flash_forward(q, k, v, causal=True)[0], (q, k, v)
    )
    o, _ = attention.flash_forward(q, k, v, causal=True)
    o.sum().backward()
    assert not q.grad[:, :, :2].any() and k.grad.isfinite().all()


def test_vector_scale_rounds_once():
    x = torch.randn(1000, generator=torch.Generator().manual_seed(0)).to(torch.float16)
    y = vector.vector_scale(x, 1.7)
    assert torch.equal(y, (x.double() * 1.7).half())
    assert vector.vector_scale(x[::3], 1.7).is_contiguous()
    assert vector.vector_scale(x[:0], 1.7).shape == (0,)


def _bad_attention():
    t = {n: torch.zeros(2, 3, 4, 8) for n in "qkv"}
    yield "three dimensions", t | {"q": torch.zeros(3, 4, 8)}
    yield "a list", t | {"k": [[1.0]]}
    yield "no columns", {n: torch.zeros(2, 3, 4, 0) for n in "qkv"}
    yield "integers", {n: x.long() for n, x in t.items()}
    yield "mixed dtypes", t | {"v": t["v"].half()}
    yield "mixed devices", t | {"k": t["k"].to("meta")}
    yield "another D", t | {"k": torch.zeros(2, 3, 4, 9)}
    yield "another H", t | {"k": torch.zeros(2, 1, 4, 8)}
    yield "another B", t | {"v": torch.zeros(1, 3, 4, 8)}
    yield "more values than keys", t | {"v": torch.zeros(2, 3, 5, 8)}


def _bad_vector():
    yield "two dimensions", {"x": torch.zeros(2, 3), "a": 1.0}
    yield "a list", {"x": [1.0], "a": 1.0}
    yield "integers", {"x": torch.zeros(3, dtype=torch.int32), "a": 1.0}
    yield "a tensor for a", {"x": torch.zeros(3), "a": torch.ones(())}


BAD = [
    *[("vector_scale", vector, name, call) for name, call in _bad_vector()],
    *[("flash_forward", attention, name, call) for name, call in _bad_attention()],
    *[
        ("flash_forward_tiles", attention, name, call | {"block_m": 16, "block_n": 16})
        for name, call in _bad_attention()
    ],
    *[
        ("flash_forward_tiles", attention, f"a block of {size}", {
            **{n: torch.zeros(1, 1, 4, 8) for n in "qkv"}, "block_m": 16, "block_n": size,
        })
        for size in (0, -16, 16.0)
    ],
]  # fmt: skip


@pytest.mark.parametrize(
    ("slug", "module", "call"), [pytest.param(s, m, c, id=f"{s}-{n}") for s, m, n, c in BAD]
)
def test_a_bad_call_gets_the_same_sentence_from_reference_and_solution(slug, module, call):
    said = []
    for made_by in (module, solution(slug)):
        with pytest.raises(ValueError, match="must") as error:
            getattr(made_by, slug)(**call)
        said.append(str(error.value))
    kernels_take_no_fp64 = said[0].replace(", torch.float64", "")
    assert said[1] in (said[0], kernels_take_no_fp64)


@pytest.mark.parametrize("slug", ["vector_scale", "flash_forward_tiles", "flash_forward"])
def test_solution_has_the_contract_of_the_reference(slug):
    module, name = exercises.get(slug).reference.split(":")
    reference = getattr(inspect.importlib.import_module(module), name)
    answer = getattr(solution(slug), slug)
    assert (
        inspect.signature(answer).parameters.keys()
        == inspect.signature(reference).parameters.keys()
    )
    for wanted, own in zip(
        inspect.signature(reference).parameters.values(),
        inspect.signature(answer).parameters.values(),
        strict=True,
    ):
        assert (wanted.kind, wanted.default) == (own.kind, own.default)


@pytest.mark.parametrize("dtype", [torch.float64, torch.int32])
def test_kernels_refuse_what_they_cannot_multiply(dtype):
    tensors = {n: torch.zeros(1, 1, 4, 16, dtype=dtype) for n in "qkv"}
    with pytest.raises(ValueError, match="q must have a dtype of"):
        solution("flash_forward").flash_forward(**tensors)
    with pytest.raises(ValueError, match="x must have a dtype"):
        solution("vector_scale").vector_scale(torch.zeros(3, dtype=dtype), 2.0)
    tensors = {n: torch.zeros(1, 1, 4, 257) for n in "qkv"}
    with pytest.raises(ValueError, match=r"q must have D <= 256.*257"):
        solution("flash_forward").flash_forward(**tensors)


def test_the_output_has_the_layout_of_q():
    call = made(torch.float16, layout="permuted", N_q=17, D=16)
    with iocount.count_io():
        o, lse = solution("flash_forward").flash_forward(**call)
    assert o.stride() == call["q"].stride() and lse.is_contiguous()
