"""Chapter 02's kernels and pictures: fused equals apart, counted bytes, the ladder's numbers."""

import math

import pytest
import torch

from flashlab import hardware
from flashlab.bench import standard as bench
from flashlab.iocount import count_io
from flashlab.viz import fusion, memory_ladder
from flashlab.viz.profile import profile
from flashlab.worked import chain


@pytest.mark.core
@pytest.mark.parametrize("shape", [(2, 37, 37), (3, 20, 50), (1, 50, 20), (1, 1, 1)])
def test_steps_are_torchs_and_the_fused_kernel_equals_them(shape):
    generator = torch.Generator().manual_seed(shape[1])
    s = torch.randn(shape, generator=generator)
    N_q, N_k = shape[-2:]
    hidden = torch.ones(N_q, N_k, dtype=torch.bool).triu(1 + N_k - N_q)
    masked = (s.double() * 0.3).masked_fill(hidden, -math.inf)
    expected = torch.softmax(masked, -1).nan_to_num(0.0)
    with count_io():
        apart = chain.apart(s, ("scale", "mask", "softmax"), factor=0.3)
        fused = chain.fused(s, ("scale", "mask", "softmax"), factor=0.3)
        dropped = chain.apart(s, factor=0.3, p=0.4, seed=5)
        at_once = chain.fused(s, factor=0.3, p=0.4, seed=5)
    for got in (apart, fused):
        assert (got.double() - expected).abs().max() < 1e-6
    torch.testing.assert_close(at_once, dropped, rtol=1e-6, atol=1e-7)
    kept = dropped != 0
    torch.testing.assert_close(dropped[kept], apart[kept] / 0.6)
    if s.numel() > 1000:
        assert float(kept.sum() / (expected > 0).sum()) == pytest.approx(0.6, abs=0.05)


def test_an_unknown_step_names_those_there_are():
    with pytest.raises(ValueError, match="scale, mask, softmax, dropout, not 'relu'"):
        chain.step("relu", torch.zeros(2, 2))


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_each_separate_kernel_moves_two_matrices_and_the_fused_one_two_in_all(dtype):
    explorer = fusion.fusion_explorer()
    offered = {c.name: c.values for c in explorer.controls}
    for count in offered["steps"]:
        for N in offered["N"]:
            f = fusion.fusion(N, fusion.CHAINS[count - 1], dtype)
            assert set(f.apart.values()) == {(f.matrix, f.matrix)} and f.one == (f.matrix,) * 2
            assert f.matrix == N * N * getattr(torch, dtype).itemsize
    assert "4 x less" in explorer.at(dtype=dtype).caption
    assert "as many" in explorer.at(dtype=dtype, steps=1).caption


def test_the_ladder_gets_smaller_and_faster_upwards():
    for key in memory_ladder.KNOWN:
        levels = memory_ladder.ladder(key)
        speeds = [level.bandwidth for level in levels]
        assert speeds == sorted(speeds, reverse=True)
        assert levels[-1].bytes == max(level.bytes for level in levels)
        assert levels[1].per_sm * hardware.GPUS[key].sms == levels[1].bytes
    with pytest.raises(ValueError, match="no L2 bandwidth of L4"):
        memory_ladder.ladder("L4")


def test_the_ladder_moves_the_scores_in_the_time_that_its_speed_says():
    picture = memory_ladder.ladder_explorer().at(gpu="A100-80", N=8192)
    hbm = {row[0]: row for row in picture.rows}["HBM"]
    assert hbm[4] == f"{8192 * 8192 * 2 / 2.039e12 * 1e6:.3g} us" and hbm[5] == "yes"
    assert "9.6 x faster" in picture.caption


def test_durations_and_amounts_choose_their_unit():
    assert [memory_ladder.duration(x) for x in (2e-3, 2e-6, 2e-9)] == ["2 ms", "2 us", "2 ns"]
    amounts = [memory_ladder.amount(x) for x in (2e9, 3.5e6, 4e3, 5)]
    assert amounts == ["2 GB", "3.5 MB", "4 KB", "5 bytes"]


def test_the_profile_counts_every_step_and_refuses_without_a_gpu(capsys, monkeypatch):
    costs = bench.costs(1, 1, 64, 16)
    assert set(costs) == {*bench.STEPS, bench.ONE_KERNEL}
    assert costs["scale"] == (64 * 64, 2 * 64 * 64 * 2)
    assert costs[bench.ONE_KERNEL][1] == 4 * 64 * 16 * 2
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert bench.main("standard") == 1
    assert "needs an NVIDIA GPU" in capsys.readouterr().out


def test_a_profile_shows_each_steps_share_of_the_time():
    rows = []
    for number, (step, (flops, moved)) in enumerate(bench.costs(2, 4, 128, 64).items(), 1):
        ms = {"torch": float(number), "ours": 1.0}
        sizes = {"B": 2, "H": 4, "N": 128, "D": 64}
        rows.append({"step": step, "flops": flops, "bytes": moved, "ms": ms, **sizes})
    picture = profile(rows)
    assert [row[1] for row in picture.rows[1:]] == [*bench.STEPS, bench.ONE_KERNEL]
    elementwise = (2 + 3 + 4 + 5) / (1 + 2 + 3 + 4 + 5 + 6)
    assert f"take {100 * elementwise:.0f} % of PyTorch's time" in picture.caption
    assert "3.0 times faster than all six" in picture.caption
    moved = 2 * 2 * 4 * 128 * 128 * 2
    assert picture.rows[2][4] == f"{moved / 2.0 / 1e9:.2f}"


def test_each_timed_kernel_moves_the_bytes_that_its_row_says():
    q, k, v = (torch.randn(1, 1, 128, 64).half() for _ in range(3))
    costs = bench.costs(1, 1, 128, 64)
    for step, (ours, peer) in bench.ours_and_torch(q, k, v).items():
        with count_io(races=False) as tally:
            ours()
        assert tally.bytes == costs[step][1], step
        assert peer().shape[:2] == (1, 1)
