"""The bench of a ring: its rounds on gloo, what it counts, what it does on one GPU."""

import pytest
import torch

from flashlab import sources
from flashlab.bench import ring as bench
from flashlab.bench import ring_rank
from flashlab.holes import without_markers
from flashlab.loading import load_module


def test_the_bench_runs_on_gloo_and_divides_one_gpus_time(monkeypatch):
    monkeypatch.setattr(bench, "H", 4)
    monkeypatch.setattr(bench, "H_KV", 2)
    monkeypatch.setattr(bench, "D", 16)
    monkeypatch.setattr(bench, "LEAST_S", 0.001)
    monkeypatch.setattr(bench, "ROUNDS", 2)
    monkeypatch.setattr(bench, "MESSAGES", (1024,))
    module = load_module(without_markers(sources.solution_text("ring_attention")), "ring.py")
    found = bench.measure(2, module, (32,), "gloo", torch.float32)
    (row,) = found["rows"]
    assert set(row["ms"]) == {"one GPU", "ring", "no overlap", "in order"}
    assert row["share"]["ring"] == pytest.approx(row["ms"]["one GPU"] / 2 / row["ms"]["ring"])
    block = 2 * 2 * 16 * 16 * 4  # k and v: two heads, 16 rows, D 16, fp32
    assert row["sent_bytes"] == 2 * block  # keys and values there, their gradient home
    assert found["link_gbs"][1024] > 0 and found["facts"]["GPUs"] == "2"
    assert "ring" in bench.line(row)
    ranks = [{"one GPU": [4.0, 6.0, 8.0], "ring": [3.0, 9.0, 4.0]}] * 2
    assert bench.row(32, 2, ranks)["share"]["ring"] == 3.0 / 4.0


def test_the_bench_wants_two_gpus_and_on_one_times_a_rank_alone(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert bench.main("ring_attention") == 1
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert bench.main("ring_attention", mine=True) == 1
    assert capsys.readouterr().out.count("needs two NVIDIA GPUs") == 2
    monkeypatch.setattr(ring_rank, "main", lambda module, slug, out: module.merge.__module__)
    assert bench.main("ring_attention") != "flashlab.worked.merge_pair", "it puts that in itself"


def test_no_overlap_waits_before_it_computes():
    order = []

    def send(block, group, way=1):
        order.append("sent")
        return block + way, []

    def arrived(travelling):
        order.append("arrived")
        return travelling[0]

    pass_on = bench.at_once(send, arrived)
    assert pass_on(1, None) == (2, []) and order == ["sent", "arrived"]
    assert pass_on(1, None, -1) == (0, [])
