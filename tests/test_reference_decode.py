"""References of decode and of packed batches against plain attention, and at bad calls."""

import inspect

import pytest
import torch

from flashlab import iocount, sources
from flashlab.loading import load_module
from flashlab.reference import attention, decode, varlen

MODULES = {"split_kv_decode": decode, "paged_decode": decode, "varlen_forward": varlen}
KEYS = {"split_kv_decode": "kv", "paged_decode": ("k_pages", "v_pages"), "varlen_forward": "kv"}


def reference(name):
    return getattr(MODULES[name], name)


def solution(name):
    return getattr(load_module(sources.solution_text(name), f"<solution {name}>"), name)


def ints(*values):
    return torch.tensor(values, dtype=torch.int32)


def draw(*shape, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def plain(q, k, v, causal=False):
    """Attention [B, H, N, D] with key heads repeated."""
    group = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    return attention.flash_forward(q, k, v, causal=causal)


def call_of(name, dtype=torch.float32, B=2, H=4, H_kv=2, N=10, D=8):
    """A good call of each function."""
    if name == "varlen_forward":
        q, k = draw(9, H, D, dtype=dtype), draw(11, H_kv, D, dtype=dtype, seed=1)
        ends = {"cu_seqlens_q": ints(0, 5, 9), "cu_seqlens_k": ints(0, 4, 10)}
        return {"q": q, "k": k, "v": -k, **ends, "max_seqlen_q": 5}
    q = draw(B, H, 1, D, dtype=dtype)
    if name == "split_kv_decode":
        k = draw(B, H_kv, N, D, dtype=dtype, seed=1)
        lengths = ints(*[N, 3][:B])
        return {"q": q, "k": k, "v": -k, "cache_seqlens": lengths, "num_splits": 3}
    k = draw(7, 4, H_kv, D, dtype=dtype, seed=1)
    table = ints(*[[5, 1, 6], [2, 99, -1]][:B]).reshape(B, 3)
    return {"q": q, "k_pages": k, "v_pages": -k, "block_table": table,
            "cache_seqlens": ints(*[N, 3][:B])}  # fmt: skip


@pytest.mark.parametrize("num_splits", [1, 3, 40])
def test_splits_change_nothing(num_splits):
    q, k, v = draw(2, 4, 1, 8), draw(2, 2, 10, 8, seed=1), draw(2, 2, 10, 8, seed=2)
    got = decode.split_kv_decode(q, k, v, num_splits=num_splits)
    torch.testing.assert_close(got, plain(q, k, v))


def test_keys_behind_the_length_do_not_exist():
    q, k, v = draw(3, 2, 1, 8), draw(3, 2, 10, 8, seed=1), draw(3, 2, 10, 8, seed=2)
    lengths = (10, 4, 0)
    expected = [plain(q[b : b + 1], k[b : b + 1, :, :n], v[b : b + 1, :, :n])
                for b, n in enumerate(lengths)]  # fmt: skip
    for b, n in enumerate(lengths):
        k[b, :, n:] = v[b, :, n:] = torch.nan
    got = decode.split_kv_decode(q, k, v, cache_seqlens=ints(*lengths), num_splits=2)
    for part, parts in zip(got, zip(*expected, strict=True), strict=True):
        torch.testing.assert_close(part, torch.cat(parts))


@pytest.mark.parametrize("page", [1, 3, 4, 16])
def test_pages_are_the_keys_in_order(page):
    q, k, v = draw(2, 4, 1, 8), draw(2, 2, 12, 8, seed=1), draw(2, 2, 12, 8, seed=2)
    lengths, count = (12, 5), -(-12 // page)
    table = torch.randperm(2 * count, generator=torch.Generator().manual_seed(3))
    table = table.reshape(2, count).to(torch.int32)
    pages = {}
    for name, x in (("k_pages", k), ("v_pages", v)):
        pages[name] = torch.full([2 * count, page, 2, 8], torch.nan, dtype=torch.float64)
        for b, n in enumerate(lengths):
            for j in range(n):
                pages[name][table[b, j // page], j % page] = x[b, :, j]
    table[1, -(-5 // page) :] = 2**30  # no key needs these entries
    got = decode.paged_decode(q, **pages, block_table=table, cache_seqlens=ints(*lengths))
    expected = decode.split_kv_decode(q, k, v, cache_seqlens=ints(*lengths), num_splits=1)
    torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_a_pack_is_its_sequences(causal):
    lengths = [(5, 4), (0, 3), (2, 0), (6, 9)]
    q, k, v = draw(15, 4, 8), draw(18, 2, 8, seed=1), draw(18, 2, 8, seed=2)
    ends = [[0, 5, 5, 7, 13], [0, 4, 7, 7, 16]]
    q[13:], k[16:], v[16:] = torch.nan, torch.nan, torch.nan  # of no sequence
    o, lse = varlen.varlen_forward(
        q, k, v, *(ints(*e) for e in ends), max_seqlen_q=6, causal=causal
    )
    for s, (N_q, N_k) in enumerate(lengths):
        rows, keys = slice(ends[0][s], ends[0][s] + N_q), slice(ends[1][s], ends[1][s] + N_k)
        one = [x[where][None].transpose(1, 2) for x, where in ((q, rows), (k, keys), (v, keys))]
        expected, expected_lse = plain(*one, causal=causal)
        torch.testing.assert_close(o[rows], expected[0].transpose(0, 1))
        torch.testing.assert_close(lse[:, rows], expected_lse[0])
    assert not o[13:].any() and lse[:, 13:].isneginf().all()


@pytest.mark.parametrize("name", MODULES)
def test_solution_has_the_contract_of_the_reference(name):
    own, wanted = (inspect.signature(f) for f in (solution(name), reference(name)))
    assert [(p.name, p.kind, p.default) for p in own.parameters.values()] == [
        (p.name, p.kind, p.default) for p in wanted.parameters.values()
    ]


def _bad_indices(call):
    for index in (
        n for n, x in call.items() if isinstance(x, torch.Tensor) and x.dtype == torch.int32
    ):
        x = call[index]
        yield f"{index} of int64", call | {index: x.long()}
        yield f"{index} a list", call | {index: x.tolist()}
        yield f"{index} too short", call | {index: x[:-1]}
        yield f"{index} of another rank", call | {index: x[None]}
        yield f"{index} below 0", call | {index: -1 - x}
        yield f"{index} too large", call | {index: x + 100}


def _bad(name):
    call = call_of(name)
    keys, values = KEYS[name]
    for each in ("q", keys, values):
        yield f"{each} of another rank", call | {each: call[each][0]}
        yield f"{each} a list", call | {each: [[1.0]]}
    for other in (keys, values):
        x = call[other]
        yield f"{other} of another dtype", call | {other: x.half()}
        yield f"{other} on another device", call | {other: x.to("meta")}
        yield f"{other} of another D", call | {other: x[..., :-1]}
    axis = 1 if name == "split_kv_decode" else -2
    wide = call_of(name, H=4, H_kv=3)
    yield "3 key heads for 4", call | {n: wide[n] for n in (keys, values)}
    yield "values of fewer heads", call | {values: call[values].narrow(axis, 0, 1)}
    yield "integers", call | {n: call[n].long() for n in ("q", keys, values)}
    yield "D of 257", call_of(name, D=257)
    yield from _bad_indices(call)
    if name != "varlen_forward":
        yield "two queries", call | {"q": call["q"].expand(-1, -1, 2, -1)}
        yield "k of another batch", call | ({"k": call["k"][:1]} if "k" in call else
                                            {"q": call["q"][:1]})  # fmt: skip
    if name == "split_kv_decode":
        yield "no splits", call | {"num_splits": 0}
        yield "half a split", call | {"num_splits": 1.5}
    if name == "paged_decode":
        yield "pages of no key", call | {n: call[n][:, :0] for n in (keys, values)}
        yield "a needed entry is no page", call | {"block_table": ints([5, 1, 7], [2, 0, 0])}
    if name == "varlen_forward":
        yield "ends not monotone", call | {"cu_seqlens_q": ints(0, 6, 5)}
        yield "ends that start late", call | {"cu_seqlens_k": ints(1, 4, 10)}
        yield "no ends", call | {"cu_seqlens_q": ints(), "cu_seqlens_k": ints()}
        yield "max_seqlen_q too small", call | {"max_seqlen_q": 4}
        yield "max_seqlen_q a fraction", call | {"max_seqlen_q": 5.0}


BAD = [
    pytest.param(name, call, id=f"{name}-{what}") for name in MODULES for what, call in _bad(name)
]


@pytest.mark.parametrize(("name", "call"), BAD)
def test_a_bad_call_gets_the_same_sentence_from_reference_and_solution(name, call):
    said = []
    for function in (reference(name), solution(name)):
        with pytest.raises(ValueError, match="must") as error:
            function(**call)
        said.append(str(error.value))
    kernels_take_no_fp64 = said[0].replace(", torch.float64", "")
    assert said[1] in (said[0], kernels_take_no_fp64)


@pytest.mark.parametrize("name", MODULES)
def test_values_of_index_tensors_are_looked_at_on_a_cpu_alone(name):
    call = {
        n: x.to("meta") if isinstance(x, torch.Tensor) else x for n, x in call_of(name).items()
    }
    module = load_module(sources.solution_text(name), f"<solution {name}>")
    checks = {"split_kv_decode": "check_inputs", "paged_decode": "check_inputs",
              "varlen_forward": "check_ends"}  # fmt: skip
    arguments = inspect.signature(getattr(module, checks[name])).parameters
    getattr(module, checks[name])(**{n: call[n] for n in arguments})  # meta tensors have none


@pytest.mark.parametrize(("name", "empty"), [
    ("split_kv_decode", {"B": 0}), ("split_kv_decode", {"H": 0}), ("split_kv_decode", {"N": 0}),
    ("paged_decode", {"B": 0}), ("paged_decode", {"H": 0}), ("varlen_forward", {"H": 0}),
])  # fmt: skip
def test_sizes_of_zero(name, empty):
    call = call_of(name, **empty)
    if "N" in empty:
        call["cache_seqlens"] = ints(0, 0)
    for function in (reference(name), solution(name)):
        with iocount.count_io():
            o, lse = function(**call)
        assert not o.any() and lse.isneginf().all()


@pytest.mark.parametrize("D", [40, 128, 256])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", MODULES)
def test_head_dimensions_and_dtypes(name, dtype, D):
    call = call_of(name, dtype=dtype, D=D)
    with iocount.count_io():
        o, lse = solution(name)(**call)
    wide = {n: x.double() if torch.is_tensor(x) and x.is_floating_point() else x
            for n, x in call.items()}  # fmt: skip
    expected, expected_lse = reference(name)(**wide)
    rounding = {torch.float16: 4e-3, torch.float32: 1e-5, torch.bfloat16: 3e-2}[dtype]
    assert o.dtype == dtype and lse.dtype == torch.float32
    assert (o - expected).abs().max() < rounding
    finite = expected_lse.isfinite()
    assert torch.equal(finite, lse.isfinite())
    assert (lse - expected_lse)[finite].abs().max() < 1e-4
