"""The capstone: the model, its text, its FLOPs and memory, and losses beside SDPA's."""

import json
import math
from dataclasses import replace

import pytest
import torch

from flashlab import cli, memory, routes
from flashlab.capstone import flops, gpt, ladder, peers, text, train
from flashlab.grader import trials
from flashlab.reproduce import fa2
from flashlab.viz import fits, gpt_step, training


@pytest.fixture(autouse=True)
def one_thread():
    """Tensors this small are quicker on one thread, beside other tests above all."""
    with trials.one_thread():
        yield


TINY = gpt.Size(len(text.ALPHABET), 64, layers=2, heads=2, width=32)
PLAN = train.Plan(TINY, B=2, N=32, steps=6, characters=4000)


def model(size=TINY, **changes):
    return gpt.GPT(replace(size, **changes))


def some(B, N, seed=0):
    draw = torch.Generator().manual_seed(seed)
    return text.batch(text.encode(text.story(2000)), B, N, draw)


def test_a_token_depends_on_earlier_ones_alone():
    tokens, _ = some(1, 20)
    changed = tokens.clone()
    changed[0, 12] = (changed[0, 12] + 1) % TINY.vocabulary
    before, after = (model()(x, peers.sdpa)[0] for x in (tokens, changed))
    torch.testing.assert_close(before[:, :12], after[:, :12])
    assert not torch.allclose(before[:, 12:], after[:, 12:], atol=1e-4)


def test_a_cache_gives_the_scores_of_the_whole_sequence():
    tokens, _ = some(2, 24)
    net = model()
    with torch.no_grad():
        whole, _ = net(tokens, peers.sdpa)
        for attend in (peers.sdpa, routes.course_attention):
            scores, past = net(tokens[:, :20], attend)
            found = [scores]
            for n in range(20, 24):
                scores, past = net(tokens[:, n : n + 1], attend, past)
                found.append(scores)
            torch.testing.assert_close(torch.cat(found, 1), whole, atol=1e-5, rtol=1e-4)
    assert past[0][0].shape == (2, TINY.heads, 24, TINY.D)


def test_several_new_rows_on_a_cache_are_bottom_right():
    tokens, _ = some(1, 24)
    net = model()
    with torch.no_grad():
        whole, _ = net(tokens, peers.sdpa)
        _, past = net(tokens[:, :15], routes.course_attention)
        rest, _ = net(tokens[:, 15:], routes.course_attention, past)
    torch.testing.assert_close(rest, whole[:, 15:], atol=1e-5, rtol=1e-4)


def test_what_it_writes_is_of_its_seed_and_needs_no_cache():
    beginning, net = some(1, 10)[0], model(longest=32)
    written = net.write(beginning, 12, routes.course_attention, seed=1)
    assert written.shape == (1, 22) and torch.equal(written[:, :10], beginning)
    draw, tokens = torch.Generator().manual_seed(1), beginning
    for _ in range(12):  # the whole sequence again for each token
        chances = torch.softmax(net(tokens, peers.sdpa)[0][:, -1], -1)
        tokens = torch.cat([tokens, torch.multinomial(chances, 1, generator=draw)], 1)
    assert torch.equal(written, tokens)
    assert not torch.equal(written, net.write(beginning, 12, peers.sdpa, seed=2))


def test_the_start_is_near_a_uniform_guess_and_of_its_seed():
    tokens, targets = some(4, 32)
    loss = model().loss(tokens, targets, peers.sdpa)
    assert abs(loss.item() - math.log(TINY.vocabulary)) < 0.1
    first, same, other = (gpt.GPT(TINY, seed).token.weight for seed in (0, 0, 1))
    assert torch.equal(first, same) and not torch.equal(first, other)


def test_the_text_is_made_of_its_alphabet_and_its_seed():
    story = text.story(5000, seed=3)
    assert len(story) >= 5000 and story == text.story(5000, seed=3) != text.story(5000, seed=4)
    assert text.decode(text.encode(story)) == story
    for line in story.splitlines():
        who, _, many, what = line.split()[:4]
        assert line.endswith(f"so {who} has {many} {what}."), "the end asks for the beginning"
    tokens, targets = some(3, 16)
    assert torch.equal(tokens[:, 1:], targets[:, :-1])


@pytest.mark.parametrize("name", ["ours", "standard"])
def test_each_loss_is_within_1e_4_of_sdpas(name):
    attend = {"ours": routes.course_attention, "standard": peers.standard}[name]
    steps = []
    run = train.train(PLAN, attend, name, lambda *told: steps.append(told))
    beside = train.train(PLAN, peers.sdpa, "sdpa")
    assert train.apart(run, beside) < 1e-4
    assert run.losses != beside.losses, "another attention rounds differently"
    assert run.losses[-1] < run.losses[0] - 0.2
    assert [told[:2] for told in steps] == [(n, 6) for n in range(1, 7)]
    assert run.tokens_per_second == pytest.approx(64 / run.seconds)
    assert run.peak_bytes is None


def test_a_wrong_attention_is_seen_in_the_losses():
    wrong = train.train(PLAN, lambda q, k, v, causal: peers.sdpa(q, k, v), "no mask")
    assert train.apart(wrong, train.train(PLAN, peers.sdpa, "sdpa")) > 1e-3


def test_flops_are_those_that_torch_counts():
    from torch.utils.flop_counter import FlopCounterMode

    B, N = 2, 32
    tokens, targets = some(B, N)
    with FlopCounterMode(display=False) as counter:
        model().loss(tokens, targets, peers.standard).backward()
    assert counter.get_total_flops() == flops.step_flops(TINY, B, N, causal=False)
    less = flops.step_flops(TINY, B, N, causal=False) - flops.step_flops(TINY, B, N)
    assert less == 6 * TINY.layers * B * N * N * TINY.width
    paper = fa2.Model("", flops.weights(TINY), TINY.layers, TINY.width).flops_per_token(N)
    assert flops.step_flops(TINY, B, N, causal=False) == B * N * sum(paper)


def test_gpt2_medium_has_its_size():
    assert 12 * 24 * 1024**2 + 50304 * 1024 == flops.weights(gpt.GPT2_MEDIUM)
    assert gpt.GPT2_MEDIUM.D == 64 and round(flops.weights(gpt.GPT2_MEDIUM) / 1e6) == 354


@pytest.mark.parametrize("N", [16, 48])
def test_what_attention_keeps_is_what_autograd_keeps(N):
    B, net = 3, model()
    pair = some(B, N)
    besides, total = (*net.parameters(), *pair), {}
    for name, attend in (("standard", peers.standard), ("flash", routes.course_attention)):
        kept = memory.kept_by_autograd(lambda a=attend: net.loss(*pair, a), besides)
        total[name] = sum(x.untyped_storage().nbytes() for x in kept)
    said = fits.kept(TINY, B, N, itemsize=4)
    assert total["standard"] - total["flash"] == said.standard - said.flash
    assert said.states == 16 * sum(p.numel() for p in net.parameters())


def test_longest_is_where_it_stops_fitting():
    size, room = gpt.GPT2_MEDIUM, 80e9
    N = fits.longest(size, room, "standard")
    for length, fit in ((N, True), (2 * N, False)):
        found = fits.kept(size, 1, length)
        assert (found.states + found.standard <= room) == fit
    assert fits.longest(size, 1e9, "flash") == 0
    assert "at no length here" in fits.picture(512, "T4").caption or fits.longest(
        size, 16e9, "standard"
    )


def test_a_ladder_measures_each_attention_and_length():
    climbed = ladder.Ladder(TINY, "cpu", {"a": peers.sdpa, "b": peers.standard})
    rows = list(climbed.climb([(2, 16), (1, 48)], rounds=2))
    assert [(row.B, row.N) for row in rows] == [(2, 16), (1, 48)]
    for row in rows:
        assert set(row.ms) == {"a", "b"} and min(row.ms.values()) > 0
        said = fits.kept(TINY, row.B, row.N, itemsize=4)
        assert row.peak_bytes["b"] - row.peak_bytes["a"] == said.standard - said.flash
    assert json.loads(json.dumps(rows[0].as_dict()))["N"] == 16
    assert climbed.work(rows[0]) == flops.step_flops(TINY, 2, 16)
    made = ladder.Row(2, 16, {"a": 500.0, "b": None}, {"a": 3_000_000, "b": None})
    first, second = climbed.told(made, peak=4 * flops.step_flops(TINY, 2, 16))
    assert "3.00 MB" in first and "64 tokens/s" in first and "50.0 % MFU" in first
    assert second.endswith("b         out of memory")
    assert "MFU" not in climbed.told(made)[0]


def test_out_of_memory_is_a_row_without_a_figure(monkeypatch):
    def fails():
        raise torch.cuda.OutOfMemoryError

    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    assert ladder.peak_bytes(fails) is None
    climbed = ladder.Ladder(TINY, "cpu", {"a": peers.sdpa, "b": peers.standard})
    monkeypatch.setattr(climbed, "_peak", lambda fn, B, N, a: 1 if a is peers.sdpa else None)
    row = climbed.row(1, 16, rounds=1)
    assert row.ms["b"] is None and row.ms["a"] > 0


def test_a_step_whose_graph_has_no_room_is_launched(monkeypatch):
    climbed = ladder.Ladder(TINY, "cpu", {"a": peers.sdpa, "b": peers.standard})
    made = []
    monkeypatch.setattr(
        climbed, "_replay", lambda fn: made.append(fn) or (fn if len(made) == 1 else None)
    )
    row = climbed.row(1, 16, rounds=2)
    assert row.launched == ("b", "a") and min(row.ms.values()) > 0
    assert made.count(made[0]) == 2, "the first one was tried beside the other, then alone"


def test_a_plan_can_be_made_shorter(monkeypatch):
    assert (
        train.here().steps == (train.ON_GPU if torch.cuda.is_available() else train.ON_CPU).steps
    )
    monkeypatch.setenv("FLASHLAB_CAPSTONE_STEPS", "3")
    assert train.here().steps == 3
    monkeypatch.setenv("FLASHLAB_CAPSTONE_STEPS", "0")
    with pytest.raises(ValueError, match="from 1, not '0'"):
        train.here()


def test_the_curve_says_what_it_draws():
    picture = training.losses("Losses", {"a": [3.0, 2.0, 1.5], "b": [3.0, 2.5, 1.25]})
    assert picture.svg.count("<polyline") == 2
    assert picture.rows[1:] == [
        ("a", "3.0000", "1.5000", "1.5000"),
        ("b", "3.0000", "1.2500", "1.2500"),
    ]
    watch = training.Watch("mine")
    for n, loss in enumerate((3.0, 2.0), 1):
        watch(n, 2, loss)
    page = watch.html(2, 2, 5.0)
    assert "2 steps in 5 s, loss 2.000" in page and 'max="2" value="2"' in page


def test_the_bench_refuses_what_it_would_ignore(capsys):
    assert cli.main(["bench", "gpt", "--mine"]) == 2
    assert "leave --mine away" in capsys.readouterr().err
    if not torch.cuda.is_available():
        assert cli.main(["bench", "gpt"]) == 1
        assert "needs an NVIDIA GPU" in capsys.readouterr().out


RECORD = {
    "slug": "gpt",
    "facts": {"card": "NVIDIA H200", "date": "2026-11-30", "torch": "2", "triton": "3"},
    "rows": [
        {
            "B": 16, "N": 1024,
            "ms": {"ours": 200.0, "sdpa flash": 250.0, "standard": None},
            "peak_bytes": {"ours": 30e9, "sdpa flash": 30e9, "standard": None},
        }
    ] * 2,
}  # fmt: skip


def test_a_record_is_drawn_with_what_did_not_fit():
    time = gpt_step.picture(RECORD, 0, "time")
    assert "SDPA, flash has 1.25 times this course's time" in time.caption
    assert "standard attention does not fit" in time.caption
    assert time.rows[1] == ("1,024", "16", "200", "250", "out of memory")
    work = flops.step_flops(gpt.GPT2_MEDIUM, 16, 1024)
    mfu = gpt_step.values(RECORD, RECORD["rows"][0], "MFU")["ours"]
    assert mfu == pytest.approx(100 * work / 0.2 / 989e12)
    assert gpt_step.values(RECORD, RECORD["rows"][0], "tokens a second")["ours"] == 16384 / 200


@pytest.mark.gpu
def test_on_a_gpu_300_steps_stay_within_0_02():
    ours = train.train(train.ON_GPU, routes.course_attention, "ours")
    assert train.apart(ours, train.train(train.ON_GPU, peers.sdpa, "sdpa")) < 0.02
