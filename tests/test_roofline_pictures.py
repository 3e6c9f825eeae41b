"""The roofline's data, shares and measurement: numbers that a reader sees, had another way."""

import pytest
import torch

from flashlab import hardware
from flashlab.bench import records
from flashlab.bench import roofline as measuring
from flashlab.viz import roofline
from flashlab.viz.shares import shares


@pytest.mark.parametrize("dtype", ["float32", "float16", "float8_e4m3fn"])
def test_points_follow_from_counting_elements(dtype):
    N, D, size = 512, 64, roofline.itemsize(dtype)
    r = roofline.roofline("H200", dtype, N=N, D=D)
    q, s = N * D * size, N * N * size
    moved = [2 * q + s, 2 * s, 2 * s, 2 * s, s + 2 * q, 4 * q]
    assert [p.bytes for p in r.points] == moved
    flops = [2 * N * N * D, N * N, 5 * N * N, 2 * N * N, 2 * N * N * D]
    assert [p.flops for p in r.points] == [*flops, sum(flops)]
    for p in r.points:
        assert p.seconds == pytest.approx(p.flops / p.attainable)
        assert p.waits_for == ("memory" if p.intensity < p.peak / p.bandwidth else "arithmetic")


def test_elementwise_steps_wait_for_memory_on_every_gpu_at_every_size():
    for key, gpu in hardware.GPUS.items():
        for dtype in gpu.tflops:
            for N in (256, 16384):
                r = roofline.roofline(key, dtype, N=N, D=256)
                waits = {p.name: p.waits_for for p in r.points}
                assert {waits[s] for s in ("mask", "softmax", "dropout")} == {"memory"}


def test_the_explorer_draws_every_place_it_offers_and_says_the_same_in_words():
    explorer = roofline.roofline_explorer()
    offered = {c.name: c.values for c in explorer.controls}
    for gpu in offered["gpu"]:
        for dtype in offered["dtype"]:
            picture = explorer.at(gpu=gpu, dtype=dtype)
            assert hardware.GPUS[gpu].name in picture.title
            assert (dtype in hardware.GPUS[gpu].tflops) == ("no " not in picture.caption)
    for step in offered["step"]:
        assert step in explorer.at(step=step).caption
    wide = explorer.at(N=16384, D=16)
    assert wide.rows[-1][0] == roofline.FUSED and wide.rows[-1][-1] == "arithmetic"


def test_shares_add_up_and_have_a_colour_each():
    bars = {"a": {"x": 1.0, "y": 3.0}, "b": {"x": 2.0, "y": 2.0}}
    picture = shares("t", bars, "c")
    assert picture.rows[1:] == [("a", "25.0 %", "75.0 %"), ("b", "50.0 %", "50.0 %")]
    with pytest.raises(ValueError, match="6 parts"):
        shares("t", {"a": dict.fromkeys("tuvwxyz", 1.0)}, "c")


def test_time_shares_are_those_of_the_points():
    r = roofline.roofline()
    rows = {row[0]: row[1:] for row in roofline.step_shares(r).rows[1:]}
    whole = sum(p.seconds for p in r.points[:-1])
    expected = tuple(f"{100 * p.seconds / whole:.1f} %" for p in r.points[:-1])
    assert rows["time at least"] == expected


def test_a_measured_roofline_has_no_point_above_its_roof():
    record = measuring.measure("cpu", (256, (1, 8, 64)))
    assert record["N"] == 256 and [row["K"] for row in record["rows"]] == [1, 8, 64]
    for row in record["rows"]:
        k = row["K"]
        assert row["intensity"] == pytest.approx(2 * 256**2 * k / (4 * (2 * 256 * k + 256**2)))
        roof = hardware.roofline(record["peak"], record["bandwidth"], row["intensity"])
        assert 0 < row["flops"] <= roof * (1 + 1e-9)
    assert record["facts"]["torch"] == torch.__version__
    assert roofline.measured(record).rows[1][0] == "1"


@pytest.mark.parametrize("path", sorted(records.FOLDER.glob("*.json")), ids=lambda p: p.stem)
def test_a_record_says_where_and_when_it_was_made(path):
    record = records.load(path.stem)
    assert set(records.FACTS) <= set(record["facts"])
    assert record["facts"]["card"] in records.said(record)


def test_what_was_not_recorded_is_none():
    assert records.load("no_such_record") is None


def test_the_bench_of_a_gpu_says_so_where_there_is_none(capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert measuring.main("roofline") == 1
    assert "chapter 01 measures a CPU" in capsys.readouterr().out
