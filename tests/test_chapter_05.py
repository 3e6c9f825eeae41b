"""Chapter 05: curves over the chip's size, sparse patterns, the L2's part, published numbers."""

import json
import re

import ipywidgets
import pytest
import torch

from flashlab import hardware, kernels, sources
from flashlab.bench import records, sparse
from flashlab.iocount import bounds, count_io
from flashlab.viz import io_curves, l2_reuse, loop_orders, sparse_pattern


def chapter() -> dict[str, str]:
    (path,) = (sources.course_dir() / "chapters").glob("05_*.ipynb")
    return {c["id"]: "".join(c["source"]) for c in json.loads(path.read_text())["cells"]}


@pytest.mark.parametrize("D", [64, 128, 256])
@pytest.mark.parametrize(("way", "factor"), [("flash1", 3), ("flash2", 2)])
def test_each_order_crosses_standard_attention_where_the_chapter_says(D, way, factor):
    """12 D^2 / M = 4 and 8 D^2 / M = 4, for long sequences."""
    for M, cheaper in ((factor * D * D * 9 // 10, False), (factor * D * D * 11 // 10, True)):
        now = io_curves.io(65536, D, io_curves.rule(M, D))
        assert (now.total(way) < now.total("standard")) == cheaper


@pytest.mark.parametrize("D", [64, 128])
def test_curves_follow_the_theorem_with_the_constants_of_the_table(D):
    N, M = 16384, 64 * D * 4
    now = io_curves.io(N, D, io_curves.rule(M, D))
    law = bounds.theta("flash", N, D, M)
    flash1 = sum(now.moved["flash1"][name] for name in "qkvo") / 2
    flash2 = sum(now.moved["flash2"][name] for name in "qkvo") / 2
    assert flash1 == N * D + 12 * law and flash2 == 2 * N * D + 8 * law
    assert now.total("standard") / 2 == 4 * bounds.theta("standard", N, D, M)
    assert all(held <= M for held in now.held.values())


def test_the_curves_say_when_tiles_do_not_fit_and_when_tiling_does_not_pay():
    explorer = io_curves.io_curves()
    assert "do not fit" in explorer.at(tiles="128 x 128", sram=32).caption
    assert "64 KB, so they fit" in explorer.at(tiles="128 x 128", sram=64).caption
    assert explorer.at(D=256).caption.count("more bytes") == 2
    assert explorer.at().caption.count("fewer bytes") == 2
    row = {cells[0]: cells for cells in explorer.at().rows}["flash, keys outside"]
    assert row[1] == "64 x 200" and row[5] == "-"


def test_the_orders_move_what_the_chapter_says():
    call, said = chapter()["rounds"], chapter()["rounds-explain"]
    N, D, block = map(int, re.findall(r"\d+", call))
    keys, queries = (order[-1].totals for order in loop_orders.visits(N, D, block, block))
    assert "64 KB" in chapter()["rule"] and N * D * 2 == 64 << 10
    assert (keys["load Q"], keys["load K, V"]) == (256 << 10, 128 << 10)
    assert queries["load K, V"] == 512 << 10
    assert all(f"{kb} KB" in said for kb in (256, 128, 512))


def test_the_l2_lets_through_what_a_walk_by_hand_does():
    N, D = 256, 64  # two blocks of queries, K and V of 65,536 bytes
    head, q = 2 * N * D * 2, N * D * 2
    at = {"N": N, "D": D, "heads": 1}
    assert l2_reuse.reuse(**at, sms=1, l2_bytes=head).dram == q + head
    assert l2_reuse.reuse(**at, sms=1, l2_bytes=head // 2).dram == q + 2 * head
    assert l2_reuse.reuse(**at, sms=2, l2_bytes=head // 2).dram == q + head  # in step
    assert l2_reuse.reuse(**at, sms=2, l2_bytes=0).dram == q + 2 * head
    three = l2_reuse.reuse(N, D, 3, sms=3, l2_bytes=head)
    assert (three.running, three.wanted) == (2, 2 * head)


@pytest.mark.parametrize("gpu", ["T4", "A100-80", "H200"])
@pytest.mark.parametrize("N", [1024, 16384, 262144])
def test_dram_gives_between_each_byte_once_and_all_that_is_asked_for(gpu, N):
    card, before = hardware.GPUS[gpu], None
    for megabytes in (1e6, card.l2_mb, 1, 0):
        r = l2_reuse.reuse(N, 64, 16, card.sms, megabytes * 2**20)
        assert r.distinct <= r.dram <= r.asked
        assert before is None or r.dram >= before
        before = r.dram
    assert before == r.asked
    assert l2_reuse.reuse(N, 64, 16, card.sms, 2**40).dram == r.distinct


def test_the_model_meets_the_counters_of_the_h200():
    record, h200 = records.load("attention_counters"), hardware.GPUS["H200"]
    size = record["sizes"]
    heads = size["B"] * size["H"]
    r = l2_reuse.reuse(size["N"], size["D"], heads, h200.sms, h200.l2_mb * 2**20)
    flash = next(row for row in record["rows"] if row["kernel"] == "flash")
    assert r.dram == pytest.approx(flash["dram_read"], rel=0.01)


def test_the_sms_received_the_closed_form():
    record = records.load("flash_counters")
    N, D = record["sizes"]["N"], record["sizes"]["D"]
    row = record["rows"][0]
    form = bounds.flash_forward_bytes(1, 64, N, N, D, row["block_m"], 64, 2)
    assert row["received_by_sms"] == sum(load for load, _ in form.values())
    at = {"N": N, "D": D, "heads": 64, "sms": 132, "l2_bytes": 0}
    assert l2_reuse.reuse(**at).asked == row["received_by_sms"]


@pytest.mark.parametrize("name", sparse_pattern.PATTERNS)
def test_a_pattern_moves_what_the_kernel_moves_over_it(name):
    squares = sparse_pattern.pattern(name)
    forward, _ = kernels.passed_or_solution("block_sparse_forward")
    q, k, v = (torch.randn(1, 1, 128, 16).half() for _ in range(3))
    with count_io() as tally:
        forward(q, k, v, squares[None], block_m=16, block_n=16)
    share = (tally.load_bytes("k_ptr") + tally.load_bytes("v_ptr")) / (8 * 2 * k.nbytes)
    s = sparse_pattern.sparse(squares, 1024, 64)
    assert share == s.share == float(squares.double().mean())
    assert s.sparse["k"] == s.share * s.dense["k"]
    assert {k: s.sparse[k] for k in ("q", "o", "lse")} == {
        k: s.dense[k] for k in ("q", "o", "lse")
    }
    assert s.empty_rows == (1024 if name == "none" else 0)


def parts(widget, kind):
    inside = [w for child in getattr(widget, "children", ()) for w in parts(child, kind)]
    return ([widget] if type(widget) is kind else []) + inside


def test_the_editor_follows_its_squares_and_its_list():
    editor = sparse_pattern.PatternEditor()
    box = editor.widget()
    shown = parts(box, ipywidgets.HTML)[-1]
    buttons = parts(box, ipywidgets.ToggleButton)
    start, length, _ = parts(box, ipywidgets.SelectionSlider)
    assert buttons[7].tooltip == "queries 0, keys 7: dropped"
    assert buttons[8].tooltip == "queries 1, keys 0: kept" and not buttons[7].description
    assert shown.value == editor.at().figure()
    buttons[7].value = True
    assert buttons[7].tooltip == "queries 0, keys 7: kept"
    assert editor.mask[0, 0, 7] and editor.mask.sum() == sum(b.value for b in buttons)
    assert shown.value == sparse_pattern.draw(editor.squares, 4096, 64).figure()
    length.value = 1024
    assert shown.value == sparse_pattern.draw(editor.squares, 1024, 64).figure()
    start.value = "none"
    assert not editor.mask.any() and not any(b.value for b in buttons)
    assert "1,024 queries see no key" in shown.value
    buttons[0].value = True
    assert editor.mask.sum() == 1 and "896 queries see no key" in shown.value


def run(cell: str, capsys, **names) -> str:
    exec(compile(chapter()[cell], cell, "exec"), names)
    return capsys.readouterr().out


def test_the_memory_table_gives_every_entry_of_the_paper(capsys):
    said = run("memory-table", capsys)
    pairs = re.findall(r"(?:standard|flash) +([\d,]+) \(paper (\w+)\)", said)
    known = [(ours.replace(",", ""), paper) for ours, paper in pairs if paper != "none"]
    assert len(known) == 8 and all(ours == paper for ours, paper in known)
    assert "66,816" in said and "66,816 MB" in chapter()["memory-explain"]


def test_statistics_are_the_share_that_the_chapter_says():
    for block_n in (64, 128, 256, 512):
        form = bounds.moved_bytes(
            bounds.flash1_forward_bytes(1, 1, 1024, 1024, 64, 64, block_n, 2)
        )
        share = 100 * (form["m"] + form["l"]) / sum(form[name] for name in "qkvo")
        assert round(share) in (3, 4)
    assert "add 3 % to 4 %" in chapter()["figure-idea"]


def test_a_record_of_the_sparse_kernel_is_shown_with_card_and_date(capsys, monkeypatch):
    facts = {"card": "H200", "date": "2026-12-01", "torch": "2.11.0"}
    rows = [
        {"share": share, "ms": {"ours": ms, "ours dense": 4.0, "flex": 9.0}}
        for share, ms in ((1.0, 4.0), (0.5, 2.2), (0.1, 0.5))
    ]
    monkeypatch.setattr(records, "load", lambda name: {"facts": facts, "rows": rows})
    said = run("sparse-recorded", capsys, records=records)
    assert "H200 on 2026-12-01" in said
    assert "10% of the blocks: 0.50 ms (FlexAttention 9.00), 8.0 times faster" in said
    assert "0.76 ms at 10 %" in said


def test_the_recorded_time_is_a_line_over_the_share():
    times = {
        row["share"]: row["ms"]["ours"] for row in records.load("block_sparse_forward")["rows"]
    }
    line = times[1.0] - 0.9 * (times[1.0] - times[0.5]) / 0.5
    assert times[0.1] == pytest.approx(line, rel=0.1)


def test_the_bench_and_the_chapter_name_the_same_sizes():
    said = f"B {sparse.B}, H {sparse.H}, N {sparse.N:,}, D {sparse.D}, blocks of {sparse.BLOCK}"
    assert said in chapter()["sparse-recorded-idea"]
