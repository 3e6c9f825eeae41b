"""References of chapters 01 to 03 against torch, and the contract that their solutions share."""

import importlib
import inspect

import pytest
import torch

from flashlab import exercises, sources
from flashlab.loading import load_module
from flashlab.reference import cost, matmul, merge, softmax, vector

SLUGS = (
    "attention_cost",
    "triad",
    "row_softmax",
    "tiled_matmul",
    "online_softmax",
    "merge_partials",
)


def solution(slug):
    return load_module(sources.solution_text(slug), f"<solution {slug}>")


def drawn(*shape, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0)).to(dtype)


def test_softmax_is_that_of_torch():
    x = 30 * drawn(5, 17)
    p, lse = softmax.online_softmax(x)
    torch.testing.assert_close(p, torch.softmax(x, 1), rtol=0, atol=1e-14)
    torch.testing.assert_close(lse, torch.logsumexp(x, 1), rtol=0, atol=1e-13)
    assert torch.equal(softmax.row_softmax(x), p)


def test_softmax_of_rows_of_minus_infinity_and_of_no_columns():
    x = drawn(3, 4)
    x[1] = -torch.inf
    p, lse = softmax.online_softmax(x)
    assert not p[1].any() and lse[1] == -torch.inf and p[::2].all()
    p, lse = softmax.online_softmax(x[:, :0])
    assert p.shape == (3, 0) and (lse == -torch.inf).all()


def test_matmul_is_that_of_torch():
    a, b = drawn(5, 9), drawn(9, 4)
    torch.testing.assert_close(matmul.tiled_matmul(a, b), a @ b, rtol=0, atol=1e-14)
    assert not matmul.tiled_matmul(a[:, :0], b[:0]).any()


def test_merging_parts_gives_attention_over_all_keys():
    s, v = 3 * drawn(1, 1, 6, 20), drawn(1, 1, 20, 4)
    parts = [slice(0, 3), slice(3, 3), slice(3, 20)]
    o = torch.stack([torch.softmax(s[..., i], 3).nan_to_num(0) @ v[:, :, i] for i in parts])
    lse = torch.stack([torch.logsumexp(s[..., i], 3) for i in parts])
    o[1] = torch.nan  # an empty part adds nothing, whatever its o
    got, total = merge.merge_partials(o, lse)
    torch.testing.assert_close(got, torch.softmax(s, 3) @ v, rtol=0, atol=1e-14)
    torch.testing.assert_close(total, torch.logsumexp(s, 3), rtol=0, atol=1e-14)
    none, total = merge.merge_partials(o[1:2], lse[1:2])
    assert not none.any() and (total == -torch.inf).all()
    none, total = merge.merge_partials(o[:0], lse[:0])
    assert not none.any() and (total == -torch.inf).all()


def test_triad_rounds_once():
    x, y = drawn(1000, dtype=torch.float16), drawn(1000, dtype=torch.float16).flip(0)
    assert torch.equal(vector.triad(x, y, 1.7), (x.double() + 1.7 * y.double()).half())


def test_cost_of_one_head_counted_by_hand():
    assert cost.attention_cost(1, 1, 3, 4, 5, dtype_bytes=2) == {
        "qk": (2 * 12 * 5, 2 * (15 + 20 + 12)),
        "softmax": (5 * 12, 2 * (12 + 12)),
        "pv": (2 * 12 * 5, 2 * (12 + 20 + 15)),
    }
    layer = cost.attention_cost(2, 3, 3, 4, 5, dtype_bytes=2)
    assert layer["pv"] == (6 * 120, 6 * 94)


def _bad():
    zero = torch.zeros
    sizes = {"B": 1, "H": 1, "N_q": 1, "N_k": 1, "D": 1, "dtype_bytes": 2}
    yield "attention_cost", "a negative size", sizes | {"N_k": -1}
    yield "attention_cost", "a float", sizes | {"D": 64.0}
    yield "attention_cost", "a bool", sizes | {"B": True}
    yield "attention_cost", "no bytes", sizes | {"dtype_bytes": 0}
    yield "triad", "two dimensions", {"x": zero(2, 3), "y": zero(2, 3), "a": 1.0}
    yield "triad", "integers", {"x": zero(3).int(), "y": zero(3).int(), "a": 1.0}
    yield "triad", "a tensor for a", {"x": zero(3), "y": zero(3), "a": zero(())}
    yield "triad", "a list for y", {"x": zero(3), "y": [1.0], "a": 1.0}
    yield "triad", "another length", {"x": zero(3), "y": zero(4), "a": 1.0}
    yield "triad", "mixed dtypes", {"x": zero(3), "y": zero(3).half(), "a": 1.0}
    yield "triad", "mixed devices", {"x": zero(3), "y": zero(3, device="meta"), "a": 1.0}
    for slug in ("row_softmax", "online_softmax"):
        yield slug, "one dimension", {"x": zero(3)}
        yield slug, "a number", {"x": 1.0}
        yield slug, "integers", {"x": zero(3, 4).long()}
    yield "tiled_matmul", "one dimension", {"a": zero(3), "b": zero(3, 4)}
    yield "tiled_matmul", "a list", {"a": zero(3, 4), "b": [[1.0]]}
    yield "tiled_matmul", "integers", {"a": zero(3, 4).int(), "b": zero(4, 5).int()}
    yield "tiled_matmul", "mixed dtypes", {"a": zero(3, 4), "b": zero(4, 5).half()}
    yield "tiled_matmul", "mixed devices", {"a": zero(3, 4), "b": zero(4, 5, device="meta")}
    yield "tiled_matmul", "another K", {"a": zero(3, 4), "b": zero(5, 4)}
    o, lse = zero(2, 1, 3, 4, 8), zero(2, 1, 3, 4)
    yield "merge_partials", "four dimensions", {"o": o[0], "lse": lse}
    yield "merge_partials", "no columns", {"o": o[..., :0], "lse": lse}
    yield "merge_partials", "integers", {"o": o.long(), "lse": lse}
    yield "merge_partials", "another shape", {"o": o, "lse": lse[:1]}
    yield "merge_partials", "no tensor", {"o": o, "lse": None}
    yield "merge_partials", "lse in fp16", {"o": o, "lse": lse.half()}
    yield "merge_partials", "mixed devices", {"o": o, "lse": lse.to("meta")}


@pytest.mark.parametrize(
    ("slug", "call"), [pytest.param(s, c, id=f"{s}-{name}") for s, name, c in _bad()]
)
def test_a_bad_call_gets_the_same_sentence_from_reference_and_solution(slug, call):
    said = []
    for function in (reference(slug), getattr(solution(slug), slug)):
        with pytest.raises(ValueError, match="must") as error:
            function(**call)
        said.append(str(error.value))
    assert said[1] in (said[0], said[0].replace(", torch.float64", ""))


def reference(slug):
    module, name = exercises.get(slug).reference.split(":")
    return getattr(importlib.import_module(module), name)


@pytest.mark.parametrize("slug", SLUGS)
def test_solution_has_the_signature_of_the_reference(slug):
    wanted = inspect.signature(reference(slug)).parameters.values()
    own = inspect.signature(getattr(solution(slug), slug)).parameters.values()
    assert [(p.name, p.kind, p.default) for p in wanted] == [
        (p.name, p.kind, p.default) for p in own
    ]


def test_kernels_refuse_what_does_not_fit_on_chip():
    with pytest.raises(ValueError, match=r"x must have C <= 32768.*32769"):
        solution("row_softmax").row_softmax(torch.zeros(1, 32769))
    with pytest.raises(ValueError, match=r"o must have D <= 256.*257"):
        solution("merge_partials").merge_partials(
            torch.zeros(1, 1, 1, 1, 257), torch.zeros(1, 1, 1, 1)
        )
