"""The comparer and its error budget."""

import runpy
from pathlib import Path

import pytest
import torch

from flashlab import numerics
from flashlab.reference.honest import honest_attention, honest_attention_backward

SCRIPT = Path(__file__).parents[1] / "scripts" / "false_failures.py"
ALLOWED = {"float16": 1e-2, "float32": 2e-5}


def call(N_q=24, N_k=37, D=16, dtype="float16", causal=False, H=2, H_kv=2, size=1.0, seed=0):
    g = torch.Generator().manual_seed(seed)

    def tensor(heads, rows):
        return (torch.randn(1, heads, rows, D, generator=g) * size).to(getattr(torch, dtype))

    q, k, v = tensor(H, N_q), tensor(H_kv, N_k), tensor(H_kv, N_k)
    return {"q": q, "k": k, "v": v, "causal": causal, "sm_scale": None}


def judged(inputs, got, tiles=None, tf32=False, reference=None):
    exact = {n: t.double() if isinstance(t, torch.Tensor) else t for n, t in inputs.items()}
    reference = reference or honest_attention(**exact)[0]
    honest = honest_attention(**inputs)
    limits = numerics.limits(reference, honest, inputs, inputs["q"].dtype, tf32=tf32)
    return {f.output: f for f in numerics.compare(got, reference, limits, tiles)}


def right(inputs):
    return honest_attention(**inputs)[0]


@pytest.mark.parametrize("dtype", ["float16", "float32", "bfloat16"])
@pytest.mark.parametrize("sizes", [(24, 37, False), (5, 21, True), (40, 20, True), (1, 1, False)])
def test_honest_answers_pass(dtype, sizes):
    N_q, N_k, causal = sizes
    inputs = call(N_q, N_k, dtype=dtype, causal=causal, H=4)
    assert {f.status for f in judged(inputs, right(inputs)).values()} == {"pass"}


@pytest.mark.parametrize("N_q, N_k", [(0, 5), (5, 0)])
def test_empty_sizes_pass(N_q, N_k):
    inputs = call(N_q, N_k)
    got = right(inputs)
    assert not got["o"].any() and (got["lse"] == -torch.inf).all()
    assert {f.status for f in judged(inputs, got).values()} == {"pass"}


def test_rows_without_a_key_are_zero_and_minus_infinity():
    got = right(call(N_q=40, N_k=20, causal=True))
    assert not got["o"][:, :, :20].any() and (got["lse"][:, :, :20] == -torch.inf).all()
    assert got["lse"][:, :, 20:].isfinite().all()


def test_honest_attention_equals_torch():
    inputs = call(30, 30, dtype="float64", causal=True, H=4, H_kv=2)
    q, k, v = (inputs[n] for n in "qkv")
    expected = torch.nn.functional.scaled_dot_product_attention(
        q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1), is_causal=True
    )
    for answer in honest_attention(**inputs):
        torch.testing.assert_close(answer["o"], expected)


def test_honest_gradients_equal_autograd():
    inputs = call(9, 14, dtype="float64", causal=True, H=4, H_kv=2)
    leaves = {n: inputs[n].clone().requires_grad_() for n in "qkv"}
    do = torch.randn(1, 4, 9, 16, generator=torch.Generator().manual_seed(3)).double()
    scores = leaves["q"] @ leaves["k"].repeat_interleave(2, 1).transpose(-1, -2) / 4
    seen = torch.arange(14)[None] <= torch.arange(9)[:, None] + 5
    p = scores.masked_fill(~seen, -torch.inf).softmax(-1)
    (p @ leaves["v"].repeat_interleave(2, 1)).backward(do)
    for answer in honest_attention_backward(inputs["q"], inputs["k"], inputs["v"], do, True):
        for name, leaf in zip(("dq", "dk", "dv"), leaves.values(), strict=True):
            torch.testing.assert_close(answer[name], leaf.grad)


@pytest.mark.parametrize("dtype", ALLOWED)
def test_budget_is_small(dtype):
    inputs = call(dtype=dtype)
    assert judged(inputs, right(inputs))["o"].limit < ALLOWED[dtype]


def test_wrong_values_are_located():
    inputs = call(40, 40)
    got = right(inputs)
    got["o"][0, 1, 32:] *= 1.5
    found = judged(inputs, got, {"BLOCK_M": 16, "BLOCK_N": 32})["o"]
    assert found.status == "wrong" and "times the allowed" in found.sentence
    assert found.where["heads"] == [[0, 1]]
    assert found.where["rows"] == list(range(32, 40))
    tile_map = found.where["tile_map"]
    assert [len(tile_map), len(tile_map[0])] == [3, 1]
    assert tile_map[0][0] < 1 < tile_map[2][0]
    index = found.where["index"]
    assert index[:2] == [0, 1] and index[2] >= 32
    assert found.where["got"] == pytest.approx(1.5 * found.where["expected"], rel=1e-2)
    assert 1 <= len(found.where["samples"]) <= 5


@pytest.mark.parametrize("times, status", [(0.9, "pass"), (2, "precision"), (40, "wrong")])
def test_precision_lies_between_one_and_eight_limits(times, status):
    inputs = call(dtype="float32")
    got = right(inputs)
    limit = judged(inputs, got)["o"].limit
    got["o"][0, 0, 0, 0] += times * limit
    assert judged(inputs, got)["o"].status == status


def test_nan_fails_and_is_located():
    inputs = call()
    got = right(inputs)
    got["o"][0, 0, 3] = torch.nan
    found = judged(inputs, got)["o"]
    assert found.status == "nan" and found.error is None and found.where["rows"] == [3]


def test_nan_of_the_reference_is_expected():
    reference = {"y": torch.tensor([1.0, torch.nan])}
    limits = numerics.limits(reference, [reference], {}, torch.float32)
    same = numerics.compare({"y": torch.tensor([1.0, torch.nan])}, reference, limits)
    other = numerics.compare({"y": torch.tensor([1.0, 2.0])}, reference, limits)
    assert [same[0].status, other[0].status] == ["pass", "wrong"]


@pytest.mark.parametrize("value", [0.0, torch.inf, -1e30])
def test_infinities_of_lse_must_match(value):
    inputs = call(N_q=40, N_k=20, causal=True)
    got = right(inputs)
    got["lse"][0, 0, 2] = value
    found = judged(inputs, got)["lse"]
    assert found.status == "wrong" and found.where["rows"] == [2]


def test_lse_has_its_own_limit():
    inputs = call()
    got = right(inputs)
    score = (inputs["q"].double() @ inputs["k"].double().transpose(-1, -2)).abs().max() / 4
    found = judged(inputs, got)["lse"]
    eps = torch.finfo(torch.float32).eps
    assert found.limit == pytest.approx(4 * eps * (6 + 2 * float(score)))  # sqrt(D) / 4 is 1
    got["lse"] += 1e-4
    assert judged(inputs, got)["lse"].status == "precision"
    got["lse"] += 0.1
    assert judged(inputs, got)["lse"].status == "wrong"


def test_scaling_q_in_half_precision_is_precision_not_wrong():
    inputs = call(D=24, seed=2)
    scaled = inputs | {"q": inputs["q"] * 24**-0.5, "sm_scale": 1.0}
    statuses = {n: f.status for n, f in judged(inputs, right(scaled)).items()}
    assert statuses == {"o": "pass", "lse": "precision"}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_scores_added_up_one_by_one_pass(dtype):
    """As a kernel may do it: D roundings of a sum that its first product made large."""
    inputs = call(60, 90, D=128, dtype=dtype)
    inputs["q"][..., 0] = 11.3
    inputs["k"][..., 0] = -120.0
    q, k = inputs["q"].float(), inputs["k"].float()
    s = torch.zeros(1, 2, 60, 90)
    for d in range(128):
        s = torch.addcmul(s, q[..., :, None, d], k[..., None, :, d])
    s = s * 128**-0.5
    m = s.amax(-1, keepdim=True)
    p = torch.exp(s - m)
    l_sum = p.sum(-1, keepdim=True)
    o = p.to(inputs["v"].dtype).float() @ inputs["v"].float() / l_sum
    got = {"o": o.to(inputs["v"].dtype), "lse": (m + torch.log(l_sum))[..., 0]}
    assert {n: f.status for n, f in judged(inputs, got).items()} == {"o": "pass", "lse": "pass"}


def test_tf32_widens_the_budget():
    inputs = call(dtype="float32")
    tight, wide = (judged(inputs, right(inputs), tf32=t)["o"].limit for t in (False, True))
    assert 2**10 < wide / tight <= 2**12  # all of it but what fp32 sums may drift


def test_no_honest_answer_means_exact():
    reference = {"n": 6, "y": torch.tensor([1.0, 2.0])}
    limits = numerics.limits(reference, [], {}, torch.float32)
    found = numerics.compare({"n": 7, "y": torch.tensor([1.0, 2.0])}, reference, limits)
    assert [f.status for f in found] == ["wrong", "pass"]
    assert found[0].sentence == "n is off by 1, and must be exactly equal"


def test_fp8_band_refuses_too_small_an_error():
    exact = torch.randn(64, 16, generator=torch.Generator().manual_seed(0)).double()
    honest = [{"o": exact * (1 + e), "o:band": True} for e in (0.04, 0.05)]
    limits = numerics.limits({"o": exact}, honest, {}, torch.float16)
    for error, status in [(0.001, "wrong"), (0.03, "pass"), (0.07, "pass"), (0.2, "precision")]:
        assert (
            numerics.compare({"o": exact * (1 + error)}, {"o": exact}, limits)[0].status == status
        )


def test_numbers_that_have_to_come_are_asked_for():
    """Rounded to the other side of a tie an error is as small, and wrong all the same."""
    ref = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64) * 1.03
    nearest = torch.tensor([1.0, 2.0, 3.0, torch.nan], dtype=torch.float64)
    honest = [{"y": ref * 1.03, "y:band": True, "y:exact": nearest}]
    limits = numerics.limits({"y": ref}, honest, {}, torch.float32)
    for got, status in (([1.0, 2.0, 3.0, 4.25], "pass"), ([1.0, 2.0, 3.2, 4.0], "precision")):
        [found] = numerics.compare({"y": torch.tensor(got)}, {"y": ref}, limits)
        assert found.status == status, found.sentence
    assert found.sentence == "y is not the nearest number in 1 of 4 elements"
    assert found.where["index"] == [2]


def test_floor_of_an_exercise_is_kept():
    exact = {"y": torch.ones(3)}
    limits = numerics.limits(exact, [{"y": torch.ones(3), "y:floor": 0.25}], {}, torch.float32)
    assert numerics.compare({"y": torch.full((3,), 1.2)}, exact, limits)[0].status == "pass"


def test_missing_output_and_shape_are_errors():
    limits = numerics.limits({"y": torch.ones(3)}, [], {}, torch.float32)
    with pytest.raises(ValueError, match="expected an output 'y'"):
        numerics.compare({}, {"y": torch.ones(3)}, limits)
    with pytest.raises(ValueError, match=r"shape \[3\], not \[2\]"):
        numerics.compare({"y": torch.ones(2)}, {"y": torch.ones(3)}, limits)


def test_worst_finding_is_the_most_severe():
    inputs = call()
    got = right(inputs)
    got["o"][0, 0, 0, 0] += 1
    got["lse"][0, 0, 0] = torch.nan
    assert numerics.worst(list(judged(inputs, got).values())).output == "lse"


def test_random_correct_runs_do_not_fail(capsys, monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    script = runpy.run_path(str(SCRIPT))
    assert script["main"](["--runs", "200"]) == 0
    assert "0 of 200 correct runs failed" in capsys.readouterr().out
