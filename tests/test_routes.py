"""``flashlab.attention``: which kernels take which call, whose they are, and what is refused."""

import math
from dataclasses import replace

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa

import flashlab
from flashlab import autograd, kernels, numerics, routes, sources
from flashlab.reference import dropout as reference_dropout
from flashlab.reference.attention import flash_forward as reference
from flashlab.reference.honest import honest_attention
from flashlab.worked import flash3_backward
from flashlab.workspace import Workspace


def inputs(B, H, N_q, N_k, D, dtype=torch.float32, H_kv=None):
    generator = torch.Generator().manual_seed(N_k)
    shapes = [(B, H, N_q, D), *[(B, H_kv or H, N_k, D)] * 2]
    return [torch.randn(*shape, generator=generator).to(dtype) for shape in shapes]


def passes(slug, line="# mine\n"):
    """Put a text of one's own that last passed its check into the workspace; returns it."""
    text = line + sources.solution_text(slug)
    Workspace.current().fill(slug, text, force=True)
    Workspace.current().record_check(slug, sources.text_hash(text), "pass", 100, "cpu")
    return text


def plan_of(q, k, v, **options):
    return routes.plan(routes.call_of(q, k, v, **options))


SHAPES = [(2, 4, 37, 37, 16, 2), (1, 2, 20, 45, 24, 2), (1, 3, 40, 20, 16, 1)]


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "x".join(map(str, s)))
def test_output_and_gradients(shape, causal):
    *sizes, H_kv = shape
    q, k, v = inputs(*sizes, dtype=torch.float16, H_kv=H_kv)
    do = torch.randn_like(q)
    findings = autograd.check_gradients(flashlab.attention, q, k, v, do, causal=causal)
    assert all(f.status == "pass" for f in findings), [f.sentence for f in findings]


def test_as_sdpa_where_both_say_the_same():
    q, k, v = (x.requires_grad_() for x in inputs(2, 2, 33, 33, 16))
    ours, torchs = flashlab.attention(q, k, v, causal=True), sdpa(q, k, v, is_causal=True)
    do = torch.randn_like(q)
    grads = [torch.autograd.grad(o, (q, k, v), do) for o in (ours, torchs)]
    for got, wanted in zip((ours, *grads[0]), (torchs, *grads[1]), strict=True):
        torch.testing.assert_close(got, wanted, atol=1e-5, rtol=1e-5)


def test_causal_is_bottom_right():
    q, k, v = inputs(1, 1, 3, 8, 16)
    o = flashlab.attention(q, k, v, causal=True)
    torch.testing.assert_close(o[0, 0, 2], reference(q[:, :, 2:], k, v)[0][0, 0, 0])
    assert not torch.allclose(o, sdpa(q, k, v, is_causal=True))


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_decode_takes_its_own_kernel(causal):
    q, k, v = inputs(2, 4, 1, 600, 16, H_kv=2)
    assert plan_of(q, k, v).route == "decode"
    o = flashlab.attention(q, k, v, causal=causal)
    limits = numerics.limits(
        {"o": reference(q.double(), *(x.double().repeat_interleave(2, 1) for x in (k, v)))[0]},
        [{"o": h["o"]} for h in honest_attention(q, k, v)],
        {"q": q, "k": k, "v": v},
        q.dtype,
    )
    wanted = sdpa(q.double(), k.double(), v.double(), enable_gqa=True)
    assert numerics.compare({"o": o}, {"o": wanted}, limits)[0].status == "pass"


def test_one_query_that_is_learnt_is_no_decoding():
    q, k, v = inputs(1, 1, 1, 40, 16)
    q.requires_grad_()
    assert plan_of(q, k, v).route == "training"
    with torch.no_grad():
        assert plan_of(q, k, v).route == "decode"
    o = flashlab.attention(q, k, v)
    (dq,) = torch.autograd.grad(o.sum(), q)
    (wanted,) = torch.autograd.grad(sdpa(q, k, v).sum(), q)
    torch.testing.assert_close(dq, wanted, atol=1e-5, rtol=1e-5)


def test_dropout_drops_what_its_seed_says_and_repeats_key_heads():
    q, k, v = (x.requires_grad_() for x in inputs(1, 4, 21, 33, 16, H_kv=2))
    options = {"p": 0.25, "seed": 7, "causal": True}
    o = flashlab.attention(q, k, v, causal=True, dropout_p=0.25, seed=7)
    wide = [k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)]
    wanted, lse = reference_dropout.flash_dropout(q, *wide, **options)
    torch.testing.assert_close(o, wanted, atol=1e-5, rtol=1e-5)
    grads = torch.autograd.grad(o.sum(), (q, k, v))
    dq, dk, dv = reference_dropout.flash_dropout_backward(
        q, *wide, wanted, lse, torch.ones_like(o), **options
    )
    dk, dv = (x.unflatten(1, (2, 2)).sum(2) for x in (dk, dv))
    for got, grad in zip(grads, (dq, dk, dv), strict=True):
        torch.testing.assert_close(got, grad, atol=2e-5, rtol=1e-5)


def test_a_seed_is_drawn_from_torchs_generator():
    q, k, v = inputs(1, 1, 16, 16, 16)
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn.append(flashlab.attention(q, k, v, dropout_p=0.5))
    assert torch.equal(drawn[0], drawn[1]) and not torch.equal(drawn[0], drawn[2])


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_jagged_sequences_take_the_varlen_kernel():
    lengths, (H, D) = (5, 1, 40), (2, 16)
    rows = [[torch.randn(n, H, D) for n in lengths] for _ in range(3)]
    q, k, v = (torch.nested.nested_tensor(x, layout=torch.jagged).transpose(1, 2) for x in rows)
    assert plan_of(q, k, v).route == "varlen"
    o = flashlab.attention(q, k, v, causal=True)
    assert o.shape[:2] == (3, H) and o.is_nested
    for got, one in zip(o.transpose(1, 2).unbind(), zip(*rows, strict=True), strict=True):
        alone = (x.transpose(0, 1)[None] for x in one)
        wanted = sdpa(*alone, is_causal=True)[0].transpose(0, 1)
        torch.testing.assert_close(got, wanted, atol=1e-5, rtol=1e-5)
    with pytest.raises(ValueError, match="no backward pass"):
        flashlab.attention(q.detach().requires_grad_(), k, v)


def test_your_own_first_else_the_course_and_each_said_once(capsys):
    call = routes.call_of(*(x.requires_grad_() for x in inputs(1, 1, 8, 8, 16)))
    before = routes.plan(call)
    assert before.whose == tuple(
        f"flash2_{way}: the course's solution, since no text of yours has passed yet"
        for way in ("forward", "backward")
    )
    text = passes("flash2_forward")
    after = routes.plan(call)
    assert after.whose[0] == "flash2_forward: your own" and "course" in after.whose[1]
    assert (
        after.functions.forward.__wrapped__
        is kernels.entry("flash2_forward").flash2_forward.__wrapped__
    )
    Workspace.current().kernel_path("flash2_forward").write_text(text + "\n# changed\n")
    assert "course" in routes.plan(call).whose[0]
    for _ in range(2):
        flashlab.attention(*(x.requires_grad_() for x in inputs(1, 1, 8, 8, 16)))
    assert capsys.readouterr().out.count("flash2_backward") <= 1


def test_a_large_call_on_a_cpu_is_told_what_it_costs(capsys, monkeypatch):
    monkeypatch.setattr(routes.attend, "_said", set())
    flashlab.attention(*inputs(1, 1, 16, 16, 16))
    assert "interpreter" not in capsys.readouterr().out
    monkeypatch.setattr(routes.attend, "MANY_SCORES", 255)
    for _ in range(2):
        flashlab.attention(*inputs(1, 1, 16, 16, 16))
    assert capsys.readouterr().out.count("need a GPU") == 1


def test_earlier_kernels_of_yours_come_before_the_courses_later_ones():
    call = routes.call_of(*(x.requires_grad_() for x in inputs(1, 1, 8, 8, 16)))
    for slug in ("flash_forward", "backward_delta", "flash_backward_dkdv", "flash_backward_dq"):
        assert "flash2" in routes.plan(call).whose[1]
        passes(slug)
    assert routes.plan(call).whose == (
        "flash_forward: your own",
        "backward_delta, flash_backward_dkdv, flash_backward_dq: your own",
    )
    grouped = routes.call_of(*(x.requires_grad_() for x in inputs(1, 2, 8, 8, 16, H_kv=1)))
    assert "flash2" in routes.plan(grouped).whose[0]


HOPPER = routes.Call(256, 64, torch.bfloat16, False, True, False, False, True)


def test_hopper_takes_its_own_kernels_where_they_fit():
    assert [w.split(":")[0] for w in routes.plan(HOPPER).whose] == [
        "flash3_forward",
        "flash3_backward",
    ]
    for change in ({"D": 32}, {"dtype": torch.float32}, {"hopper": False}):
        assert "flash2" in routes.plan(replace(HOPPER, **change)).whose[0]
    passes("flash2_backward")
    assert routes.plan(HOPPER).whose[1] == "flash2_backward: your own", "your own comes first"
    assert "flash3_backward" in routes.plan(HOPPER, own=False).whose[1]


@pytest.mark.hopper
@pytest.mark.parametrize("layout", ["dense", "odd strides"])
def test_gradients_on_hopper(layout):
    q, k, v = (x.cuda() for x in inputs(1, 4, 200, 300, 64, torch.bfloat16, H_kv=2))
    if layout != "dense":  # TMA cannot describe rows 65 apart
        q, k, v = (torch.nn.functional.pad(x, (0, 1))[..., :64] for x in (q, k, v))
    assert routes.call_of(q, k, v).hopper == (layout == "dense")
    findings = autograd.check_gradients(
        routes.course_attention, q, k, v, torch.randn_like(q), causal=True
    )
    assert all(f.status == "pass" for f in findings), [f.sentence for f in findings]


class Launches:
    """A kernel that keeps the grid of each launch."""

    def __init__(self, kernel):
        self.kernel, self.grids = kernel, []

    def __getitem__(self, grid):
        self.grids.append(grid)
        return self.kernel[grid]


@pytest.mark.hopper
@pytest.mark.filterwarnings("ignore:.*defaults to a non-deterministic algorithm")  # SDPA's own
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("D", [64, 128])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["fp16", "bf16"])
def test_training_on_hopper_runs_its_backward_and_gives_sdpas_gradients(
    monkeypatch, dtype, D, causal
):
    launches = Launches(flash3_backward.flash3_backward_kernel)
    monkeypatch.setattr(flash3_backward, "flash3_backward_kernel", launches)
    q, k, v = (x.cuda() for x in inputs(2, 4, 517, 517, D, dtype))
    do = torch.randn_like(q)

    def by_torch(q, k, v, *, causal):
        return sdpa(q, k, v, is_causal=causal)

    grads = []
    for attend in (flashlab.attention, by_torch):
        findings = autograd.check_gradients(attend, q, k, v, do, causal=causal)
        assert all(f.status == "pass" for f in findings), [f.sentence for f in findings]
        leaves = [x.clone().requires_grad_() for x in (q, k, v)]
        o = attend(*leaves, causal=causal)
        o.backward(do)
        grads.append([o.detach(), *(x.grad for x in leaves)])
        assert launches.grids == [(5, 4, 2)] * 2, "128 keys a program, both calls"
    for ours, torchs, found in zip(*grads, findings, strict=True):
        apart = (ours.double() - torchs.double()).abs().max()
        assert apart <= 2 * found.limit, f"{found.output}: {apart:.2g} apart"


def test_the_course_alone_when_told():
    passes("flash2_forward")
    call = routes.call_of(*inputs(1, 1, 8, 8, 16))
    assert routes.plan(call, own=False).whose[0] == "flash2_forward: the course's solution"


def test_nothing_of_size_n_squared_is_saved():
    q, k, v = (x.requires_grad_() for x in inputs(1, 1, 64, 64, 16))
    o = flashlab.attention(q, k, v)
    assert sum(x.numel() for x in o.grad_fn.saved_tensors) == 4 * 64 * 16 + 64


@pytest.mark.parametrize("N_q, N_k", [(0, 5), (5, 0)])
def test_nothing_to_attend_to(N_q, N_k):
    q, k, v = (x.requires_grad_() for x in inputs(1, 2, N_q, N_k, 16))
    o = flashlab.attention(q, k, v)
    grads = torch.autograd.grad(o.sum(), (q, k, v))
    assert not o.any() and not any(g.any() for g in grads)


REFUSED = [
    ({"attn_mask": torch.ones(8, 8, dtype=torch.bool)}, "takes no mask"),
    ({"is_causal": True}, "bottom-right"),
    ({"scale": 0.5}, "sm_scale"),
    ({"enable_gqa": True}, "leave it out"),
    ({"window": 3}, "no window"),
    ({"dropout_p": 1.0}, "dropout_p must be a number from 0 to below 1, not 1.0"),
    ({"dropout_p": 0.1, "seed": -1}, "seed"),
]


@pytest.mark.parametrize("options, match", REFUSED, ids=lambda x: x if isinstance(x, str) else "")
def test_refused_with_a_sentence(options, match):
    with pytest.raises(ValueError, match=match):
        flashlab.attention(*inputs(1, 1, 8, 8, 16), **options)


def test_a_mask_in_fourth_place_is_refused_and_none_is_no_mask():
    q, k, v = inputs(1, 1, 8, 8, 16)
    with pytest.raises(ValueError, match="takes no mask"):
        flashlab.attention(q, k, v, torch.zeros(8, 8))
    same = flashlab.attention(q, k, v, None, sm_scale=1 / math.sqrt(16))
    assert torch.equal(same, flashlab.attention(q, k, v, attn_mask=None))


def wrong_inputs():
    q, k, v = inputs(1, 2, 8, 8, 16)
    yield "q must be a tensor", (q[0], k, v)
    yield "dtype", (q.double(), k.double(), v.double())
    yield "k must be torch.float32 on cpu like q", (q, k.half(), v)
    yield "H_kv a divisor of 2", (q, k.repeat(1, 2, 1, 1), v)
    yield "v must have shape", (q, k, v[:, :, :4])
    yield "D from 1 to 256", tuple(torch.zeros(1, 1, 4, 300) for _ in range(3))
    yield "k must have shape", (q, k[..., :8], v)


@pytest.mark.parametrize(
    "match, wrong", list(wrong_inputs()), ids=lambda x: x if type(x) is str else ""
)
def test_wrong_inputs_are_named(match, wrong):
    with pytest.raises(ValueError, match=match):
        flashlab.attention(*wrong)


def test_the_table_ends_with_a_row_for_all():
    assert all(route.when and route.forward for route in routes.ROUTES)
    anything = routes.Call(2, 8, torch.float32, True, True, False, False, True)
    assert routes.ROUTES[-1].fits(anything)
    assert any(piece.fits(anything) for piece in routes.ROUTES[-1].forward)
    assert any(piece.fits(anything) for piece in routes.ROUTES[-1].backward)
