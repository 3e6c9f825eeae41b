"""Chapter 06: memory that autograd keeps, the backward walk, chunks, recorded speeds."""

import json
import math
import re

import pytest
import torch

from flashlab import memory, sources
from flashlab.bench import backward, records
from flashlab.viz import backward_walk, kept_memory, pass_speed
from flashlab.worked import plain, rabe_staats


def chapter() -> dict[str, str]:
    (path,) = (sources.course_dir() / "chapters").glob("06_*.ipynb")
    return {c["id"]: "".join(c["source"]) for c in json.loads(path.read_text())["cells"]}


def tensors(B, H, N, D, dtype=torch.float32, grad=True):
    draw = torch.Generator().manual_seed(N)
    made = (torch.randn(B, H, N, D, generator=draw).to(dtype) for _ in range(3))
    return [x.requires_grad_(grad) for x in made]


@pytest.mark.parametrize("form", plain.FORMS)
@pytest.mark.parametrize("sizes", [(1, 1, 16, 8), (2, 3, 40, 16)], ids=str)
def test_autograd_keeps_what_the_explorer_computes(form, sizes):
    B, H, N, D = sizes
    q, k, v = tensors(*sizes, torch.float16)
    found = memory.kept_by_autograd(lambda: plain.plain_attention(q, k, v, form), (q, k, v))
    computed = kept_memory.kept(N, D, heads=B * H, form=form).autograd
    assert [x.nbytes for x in found] == list(computed.values())


@pytest.mark.parametrize("form", ["plain", "causal"])
def test_the_plain_form_is_attention(form):
    q, k, v = tensors(2, 2, 20, 8, torch.float64, grad=False)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=form != "plain")
    torch.testing.assert_close(plain.plain_attention(q, k, v, form), expected)


def test_kept_counts_each_memory_once_and_nothing_without_a_gradient():
    x = torch.randn(10, requires_grad=True)
    (found,) = memory.kept_by_autograd(lambda: (x.exp() * 2).exp().sum() + 0, (x,))[1:]
    assert found.nbytes == 40
    assert len(memory.kept_by_autograd(lambda: x.detach().exp())) == 0


def test_peak_is_the_most_at_one_time():
    x = torch.zeros(256)  # 1 KB

    def run():
        a = x + 1
        b = a + 1
        del a
        return b + 1

    assert memory.peak_bytes(run) == 2048
    assert memory.peak_bytes(lambda: x.view(16, 16).t()) == 0
    assert memory.peak_bytes(lambda: x.add_(1)) == 0


def test_the_longest_sequence_fits_and_the_next_does_not():
    sizes = {"D": 64, "heads": 16, "form": "causal, dropout", "layers": 24}
    for which in (0, 1):
        n = kept_memory.longest(80e9, which, **sizes)
        assert kept_memory.kept(n, **sizes).totals[which] <= 80e9
        assert kept_memory.kept(n + 1, **sizes).totals[which] > 80e9


def test_the_memory_explorer_answers_at_every_place():
    explorer = kept_memory.kept_memory()
    for control in explorer.controls:
        for value in control.values:
            picture = explorer.at(**{control.name: value})
            assert len(picture.rows) >= 4 and "nan" not in picture.svg
    once, twice = (kept_memory.kept(n, 64, heads=4).totals for n in (1024, 2048))
    assert (twice[0] / once[0], twice[1] / once[1]) == (4, 2)


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize(("N", "block"), [(12, 4), (14, 4), (5, 8), (1, 1)])
def test_the_walk_ends_at_autograds_gradients(N, block, causal):
    w = backward_walk.walk(N=N, block=block, causal=causal, seed=N)
    ends = [step for step in w.steps if step.phase == "finish"]
    assert len(ends) == 2 * -(-N // block)
    for step in ends:
        for name, values in step.sums.items():
            assert values == pytest.approx(w.exact[name][step.row].tolist(), abs=1e-12)
    n = -(-N // block)
    assert w.steps[-1].tiles == (n * (n + 1) if causal else 2 * n * n)
    assert max(step.off for step in w.steps) < 1e-14
    for step in w.steps:
        assert not causal or step.phase != "tile" or step.j <= step.i


def test_the_chapters_words_on_the_walk_are_true():
    cells = chapter()
    for code, words, causal in (
        ("walk", "walk-explain", False), ("walk-causal", "walk-causal-explain", True)
    ):  # fmt: skip
        n, block = map(int, re.findall(r"\d+", cells[code]))
        tiles = backward_walk.walk(N=n, block=block, causal=causal).steps[-1].tiles
        assert f"{tiles} tiles" in cells[words]


def test_the_backward_player_says_every_step():
    player = backward_walk.backward_walk(N=6, block=4, causal=True)
    assert "from autograd" in player.frames[-1].caption
    assert all("role=" in frame.svg and len(frame.facts) >= 7 for frame in player.frames)
    with pytest.raises(ValueError, match="1 to 24"):
        backward_walk.backward_walk(N=25)


@pytest.mark.parametrize("chunks", [(32, 16), (7, 64), (100, 3)], ids=str)
def test_chunks_give_attention_and_its_gradients(chunks):
    q, k, v = tensors(1, 2, 50, 8, torch.float64)
    both = []
    for run in (
        plain.plain_attention,
        lambda *x: rabe_staats.chunked_attention(*x, query_chunk=chunks[0], key_chunk=chunks[1]),
    ):
        o = run(q, k, v)
        both.append([o, *torch.autograd.grad(o, (q, k, v), torch.cos(o.detach()))])
    for expected, got in zip(*both, strict=True):
        torch.testing.assert_close(got, expected, rtol=0, atol=1e-12)


def test_chunks_hold_less_than_a_matrix():
    q, k, v = tensors(1, 1, 512, 16, grad=False)
    chunked = memory.peak_bytes(
        lambda: rabe_staats.chunked_attention(q, k, v, query_chunk=32, key_chunk=64)
    )
    assert chunked < 512 * 512 * 4 / 4 < memory.peak_bytes(lambda: plain.plain_attention(q, k, v))


def test_the_record_has_the_benchs_form_and_the_rates_that_were_noted():
    record = records.load("flash2_backward")
    assert {"card", "date", "torch", "triton"} <= set(record["facts"])
    cells = [(r["D"], pass_speed.causal(r, "flash2_backward"), r["N"]) for r in record["rows"]]
    assert cells == backward.GRID
    for row in record["rows"]:
        convention = 10 * row["B"] * row["H"] * row["N"] ** 2 * row["D"]
        assert row["work"] == convention / (2 if pass_speed.causal(row, "flash2_backward") else 1)
        assert row["B"] * row["N"] == backward.TOKENS and row["H"] * row["D"] == backward.WIDTH
        assert {"ours", "sdpa flash", "cudnn"} <= set(row["ms"])


def test_the_chapters_words_on_speed_and_memory_are_true():
    cells = chapter()
    assert "cuDNN's uses what Hopper has, and is ahead" in cells["speed-explain"]
    for row in records.load("flash2_backward")["rows"]:
        rates = pass_speed.rates(row)
        assert rates["sdpa flash"] < rates["ours"] < rates["cudnn"]
    assert "two and a half times as high" in cells["keeps-explorer-explain"]
    plainly, dropped = (
        kept_memory.kept(8192, 64, heads=64, form=form).totals[0] for form in plain.FORMS[::2]
    )
    assert dropped / plainly == pytest.approx(2.5, abs=0.01)


def test_speeds_are_drawn_with_whatever_was_measured():
    record = json.loads(json.dumps(records.load("flash2_backward")))
    for row in record["rows"]:
        row["ms"] |= {"standard": 10 * row["ms"]["ours"], "flex": math.nan}
    explorer = pass_speed.pass_speed(record)
    (control,) = explorer.controls
    assert list(control.values) == ["D 128, full", "D 128, causal", "D 64, full", "D 64, causal"]
    for which in control.values:
        picture = explorer.at(which=which)
        assert "10.00 times that of standard, five kernels" in picture.caption
        assert "Flex" not in repr(picture) and "nan" not in picture.svg
        assert "standard, five kernels" in repr(picture)
    with pytest.raises(ValueError, match="--out FILE"):
        pass_speed.pass_speed({**record, "rows": []})


def test_what_was_looked_at_is_freed():
    x = torch.randn(10, requires_grad=True)
    with memory._Watch() as watch:
        found = memory.kept_by_autograd(lambda: (x.exp() * 2).exp().sum() + 0, (x,))
        assert watch.now == 80  # both exponentials keep their results
        del found
        assert watch.now == 0, "a graph that holds its own outputs would stay for ever"
    with pytest.raises(RuntimeError, match="no backward pass can follow"):
        memory.kept_by_autograd(lambda: x.exp().sum().backward())
