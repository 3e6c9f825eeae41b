"""Chapter 07: programs on multiprocessors, warps of a block, recorded speeds, training FLOPs."""

import json
import math
import re

import pytest
import torch

from flashlab import count_io, hardware, kernels, sources
from flashlab.bench import forward, records
from flashlab.reference.cost import attention_cost
from flashlab.reproduce import fa2
from flashlab.viz import pass_speed, warp_split, waves
from flashlab.worked import flash1
from flashlab.worked import warp_split as split
from flashlab.worked.shared_memory import Shared

A100, H200 = hardware.GPUS["A100-80"], hardware.GPUS["H200"]


def chapter() -> dict[str, str]:
    (path,) = (sources.course_dir() / "chapters").glob("07_*.ipynb")
    return {c["id"]: "".join(c["source"]) for c in json.loads(path.read_text())["cells"]}


@pytest.mark.parametrize("name", split.SPLITS)
@pytest.mark.parametrize(
    "sizes", [(16, 32, 8, 3, 4), (32, 16, 16, 1, 2), (8, 8, 4, 5, 8)], ids=str
)
def test_each_split_is_attention_with_the_traffic_of_the_closed_form(name, sizes):
    block_m, block_n, D, tiles, warps = sizes
    draw = torch.Generator().manual_seed(block_m)
    q, k, v = (
        5 * torch.randn(n, D, generator=draw, dtype=torch.float64)
        for n in (block_m, tiles * block_n, tiles * block_n)
    )
    found = split.SPLITS[name](q, k, v, block_n=block_n, warps=warps)
    s = q @ k.mT / math.sqrt(D)
    torch.testing.assert_close(found.o, torch.softmax(s, -1) @ v, rtol=0, atol=1e-12)
    torch.testing.assert_close(found.lse, torch.logsumexp(s, -1), rtol=0, atol=1e-12)
    named = {"block_m": block_m, "block_n": block_n, "D": D, "tiles": tiles, "warps": warps}
    assert found.traffic == split.traffic(name, **named)


def test_a_single_warp_has_nobody_to_wait_for_but_itself():
    sizes = {"block_m": 16, "block_n": 16, "D": 8, "tiles": 2, "warps": 1}
    by_keys, by_queries = (split.traffic(name, **sizes) for name in ("keys", "queries"))
    assert by_keys.read == 0 and by_queries.written == 0
    assert by_keys.operands - by_queries.operands == 16 * 8 * 2  # q anew at the second tile


def test_shared_memory_wants_a_barrier_between_writing_and_reading():
    shared, x = Shared(), torch.zeros(3, 2)
    shared.put("a", x)
    with pytest.raises(RuntimeError, match="read before a barrier"):
        shared.take("a")
    shared.barrier()
    assert shared.take("a") is x
    with pytest.raises(RuntimeError, match="written again before a barrier"):
        shared.put("a", x)
    shared.barrier()
    shared.put("a", x)
    assert (shared.written, shared.read, shared.barriers) == (48, 24, 2)


def test_programs_are_dealt_to_whoever_is_free_first():
    found = waves.deal([4, 1, 1, 1, 5], 2)
    assert (
        found.lanes == ((4,), (1, 1, 1, 5))
        and found.ends == [4, 8]
        and found.time == 8
        and found.used == 2
    )
    assert found.busy == 12 / 16
    assert waves.deal([3], 4).ends == [3, 0, 0, 0]


@pytest.mark.parametrize("sms", [58, 108, 132])
@pytest.mark.parametrize("heads", [1, 16, 128])
def test_equal_programs_come_in_waves(heads, sms):
    first, second = waves.deals(heads, 2048, sms)
    blocks = 2048 // waves.BLOCK
    assert first.time == math.ceil(heads / sms) * blocks * blocks
    assert second.time == math.ceil(heads * blocks / sms) * blocks
    assert first.work == second.work == heads * blocks * blocks
    assert first.used == min(heads, sms)


def test_the_model_has_the_programs_and_tiles_of_the_kernels(monkeypatch):
    monkeypatch.setattr(waves, "BLOCK", 64)
    q, k, v = (torch.randn(1, 3, 256, 16).half() for _ in range(3))
    after, _ = kernels.passed_or_solution("flash2_forward")
    for found, run in zip(waves.deals(3, 256, 4), (flash1.flash1_forward, after), strict=True):
        with count_io() as tally:
            run(q, k, v)
        assert math.prod(tally.launches[0].grid) == found.programs
    for causal in (False, True):
        with count_io() as tally:
            after(q[:, :1], k[:, :1], v[:, :1], causal=causal)
        by_program = {}
        for step in tally.per_step:
            if step.loops:
                by_program.setdefault(step.program, set()).add(step.loops[0][1])
        visited = [len(by_program[p]) for p in sorted(by_program)]
        assert visited == waves.tiles_by_block(256, causal)


def test_long_blocks_first_ends_no_later_and_near_the_least():
    for heads in (1, 2, 8):
        for sms in (58, 108, 132):
            least = sum(waves.tiles_by_block(16384, True)) * heads / sms
            ends = [
                waves.deal(waves.tiles_by_block(16384, True, first) * heads, sms).time
                for first in (True, False)
            ]
            assert least <= ends[0] <= ends[1]
            assert ends[0] <= least + 128


def test_the_recorded_forward_has_the_benchs_form():
    record = records.load("flash2_forward")
    assert {"card", "date", "torch", "triton"} <= set(record["facts"])
    slug = record["slug"]
    cells = [(r["D"], pass_speed.causal(r, slug), r["N"]) for r in record["rows"]]
    assert cells == forward.GRID
    for row, (D, causal, N) in zip(record["rows"], forward.GRID, strict=True):
        assert row["work"] == forward.flops(row["B"], row["H"], N, D, causal)
        assert row["cell"] == forward.name_of(D, causal, N)


def test_forward_speeds_are_drawn():
    record = records.load("flash2_forward")
    explorer = pass_speed.pass_speed(record)
    row = record["rows"][-1]
    picture = explorer.at(which="D 64, causal")
    assert picture.title.startswith("Forward pass, fp16: NVIDIA H200")
    assert "4 B H N^2 D" in picture.caption and explorer.title.startswith("Forward")
    said = f"{row['ms']['cudnn'] / row['ms']['ours']:.2f} times that of SDPA, cuDNN"
    assert said in picture.caption
    with pytest.raises(ValueError, match="flashlab bench flash2_forward --out FILE"):
        pass_speed.pass_speed({**record, "rows": []})


def test_the_papers_tables_hold_what_its_abstract_claims():
    (low1, high1), (low2, high2) = (fa2.percent_of_peak(version, 312) for version in fa2.CLAIMED)
    assert (round(low1), round(high1), round(low2), round(high2)) == (16, 33, 37, 73)
    assert round(high2) == fa2.CLAIMED["FlashAttention-2"][1]
    assert "stays below 25 % at D = 128" in chapter()["speed-paper-explain"]
    for (D, causal), rates in fa2.FORWARD.items():
        first, second = rates.values()
        assert D == 64 or max(first) / 312 < 0.25
        slow = [n for n, rate in zip(fa2.LENGTHS, second, strict=True) if rate / 312 < 0.5]
        assert slow == [] or causal and max(slow) <= 1024
    assert fa2.speed_up(64) == pytest.approx(2, abs=0.15)
    assert 2.5 < fa2.speed_up(128) < 3.5
    for rates in fa2.FORWARD.values():
        assert all(len(rate) == len(fa2.LENGTHS) for rate in rates.values())


@pytest.mark.parametrize("N", [2048, 8192])
@pytest.mark.parametrize("model", fa2.MODELS.values(), ids=lambda m: m.name)
def test_model_flops_of_attention_are_its_products_forward_and_twice_backward(model, N):
    cost = attention_cost(1, model.hidden // 128, N, N, 128, dtype_bytes=2)
    forward_flops = cost["qk"][0] + cost["pv"][0]
    parameters, attention = model.flops_per_token(N)
    assert attention * N == 3 * forward_flops * model.layers
    assert parameters == 6 * model.params
    weights = 12 * model.layers * model.hidden**2  # of attention 4, of the two layers after it 8
    assert weights == pytest.approx(model.params, rel=0.1)


def test_the_chapters_words_on_warps_and_waves_are_true():
    cells = chapter()
    one_tile = split.traffic("keys", block_m=128, block_n=64, D=64, tiles=1, warps=4)
    pattern = r"leaves (\d+) rows of (\d+) numbers of (\d) bytes, ([\d,]+) bytes"
    said = re.search(pattern, cells["warps-simulated-explain"]).groups()
    rows, numbers, size, left = (int(x.replace(",", "")) for x in said)
    assert rows * numbers * size == left
    statistics = 4 * (4 * 128) + 4 * (3 * 128)  # maxima of all rows, sums of the others'
    assert one_tile.written == 4 * left + statistics
    said = cells["programs-explorer-explain"]
    assert f"From {A100.sms} heads on" in said and f"{A100.sms} and then 20 more" in said
    full = waves.deals(128, 8192, A100.sms)[0]
    assert sum(end == full.time for end in full.ends) == 128 - A100.sms == 20
    assert waves.deals(1, 8192, A100.sms)[1].programs == 64
    assert "From 108 heads on, one for each: of those offered, 128" in said
    by_keys, by_queries = (
        split.traffic(name, block_m=128, block_n=64, D=64, tiles=8, warps=4).sums_bytes
        for name in ("keys, merged late", "queries")
    )
    assert "a quarter as large" in cells["warps-registers-explain"] and by_keys == 4 * by_queries
    assert by_keys // 128 > hardware.MAX_REGISTERS_PER_THREAD


def test_the_chapters_words_on_speed_are_true():
    cells = chapter()
    peak = H200.peak() / 1e12
    assert "three times as fast" in cells["speed-paper-explain"]
    assert peak / A100.tflops["float16"] == pytest.approx(3, abs=0.25)
    found = [pass_speed.rates(row) for row in records.load("flash2_forward")["rows"]]
    assert "is ahead of both at every size here" in cells["speed-explain"]
    for rates in found:
        assert rates["sdpa flash"] < rates["ours"] < rates["cudnn"]
    assert "hardly more than a third" in cells["speed-explain"]
    assert max(rates["sdpa flash"] for rates in found) / peak == pytest.approx(1 / 3, abs=0.04)
    assert "alone would give 1.9" in cells["causal-time-explain"]
    assert round(16**2 / (16 * 17 / 2), 1) == 1.9
    (row,) = (
        r
        for r in records.load("flash_forward")["rows"]
        if (r["D"], r["N"], r["causal"]) == (64, 4096, False)
    )
    assert row["B"] * row["H"] == 128 and "Even 128 programs" in cells["heads-explain"]
    assert row["ms"]["FA1 order"] / row["ms"]["ours"] == pytest.approx(4, abs=0.3)


def test_one_head_and_one_tile_read_well():
    explorer = waves.waves()
    assert "1 of them has work" in explorer.at(heads=1).caption
    assert "1 program" in explorer.at(heads=1).svg
    explorer = warp_split.warp_split()
    assert "over 1 tile " in explorer.at(tiles=1).caption
    assert "0 bytes between warps and no barrier" in explorer.at(split="queries").caption
