"""The experiment with compiled kernels, tried through the recorder: the GPU only compiles it."""

import pytest
import torch

from flashlab import sources
from flashlab.sources import mutant


@pytest.fixture
def runs(monkeypatch):
    monkeypatch.syspath_prepend(str(sources.course_dir() / "scripts"))
    import compiled_runs

    draw = compiled_runs.draw_sizes

    def small(family, rng):
        sizes = dict(draw(family, rng))
        return {
            n: 2 + s % 40 // 2 * 2 if n in ("N_q", "N_k", *"MNK") else s for n, s in sizes.items()
        }

    monkeypatch.setattr(compiled_runs, "draw_sizes", small)
    return compiled_runs


def test_the_solutions_pass_in_every_dtype_and_layout(runs):
    every = runs.families()
    assert {f.variant for f in every} == set(runs.VARIANTS)
    some = {(f.slug, f.layout, f.variant[:4]): f for f in every}
    done = [one for f in some.values() for one in runs.judge_family(f, [3], "cpu")]
    assert {one.status for one in done} == {"pass"}
    assert {one.output for one in done} == {"o", "lse", "dq", "dk", "dv", "c"}
    assert 0.01 < max(one.ratio for one in done) < 1


def test_a_wrong_kernel_fails(runs, monkeypatch):
    from flashlab import exercises

    exercise = exercises.get("flash_forward")
    wrong = mutant(sources.solution_text("flash_forward"), exercise.mistakes[0])
    monkeypatch.setattr(sources, "solution_text", lambda slug: wrong)
    family = runs.Family("flash_forward", "fp16", 64, "contiguous", 0, True)
    assert any(one.status != "pass" for one in runs.judge_family(family, range(4), "cpu"))


def test_sizes_do_not_specialise_and_innermost_strides_do(runs):
    from flashlab.loading import load_module

    module = load_module(sources.solution_text("flash_forward"), "flash_forward.py")
    runs.unspecialise(module)
    free = {p.name for p in module.flash_fwd_kernel.params if p.do_not_specialize}
    assert {"N_q", "H", "sm_scale", "stride_qm", "stride_lh"} <= free
    assert not free & {"q_ptr", "stride_qd", "stride_lm", "D", "BLOCK_M"}


def test_a_tensor_moves_with_its_strides(runs):
    x = torch.arange(24.0).view(2, 3, 4).transpose(0, 2)[1:, :, :1]
    y = runs.moved(x, "cpu")
    assert torch.equal(x, y) and x.stride() == y.stride()
    assert runs.moved(0.5, "cpu") == 0.5


def test_rates_are_told_by_dtype(runs, capsys):
    import false_failures

    good = runs.Family("flash_forward", "fp16", 64, "contiguous", 0, True)
    bad = runs.Family("flash_forward", "bf16", 64, "contiguous", 0, True)
    done = [
        runs.Judged(good, 0, "o", "pass", 0.25),
        runs.Judged(good, 0, "lse", "pass", 0.5),
        runs.Judged(bad, 1, "o", "wrong", 9.0),
        runs.Judged(bad, 2, "o", "pass", 0.1),
    ]
    assert false_failures.tell(done) == 1
    said = capsys.readouterr().out
    assert "fp16      0 of 1 correct runs failed: 0.00%" in said and "o 0.25, lse 0.50" in said
    assert "bf16      1 of 2 correct runs failed: 50.00%" in said
