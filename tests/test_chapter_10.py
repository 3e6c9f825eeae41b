"""Chapter 10: what torch dispatches to, shares and SMs, packs, pages, and the table of bytes."""

import json
import re
import textwrap

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa

from flashlab import kernels, sources
from flashlab.bench import decode, dispatch, records
from flashlab.bench.dispatch import ALSO, ERROR, HEADS, Call
from flashlab.iocount import bounds, count_io
from flashlab.viz import bytes_saved, decode_splits, packing, pages
from flashlab.viz import dispatch as shown


def chapter() -> dict[str, str]:
    (path,) = (sources.course_dir() / "chapters").glob("10_*.ipynb")
    return {c["id"]: "".join(c["source"]) for c in json.loads(path.read_text())["cells"]}


def run(capsys, *cells: str, **names) -> str:
    for cell in cells:
        exec(compile(chapter()[cell], cell, "exec"), names)
    return capsys.readouterr().out


@pytest.mark.parametrize("also", ALSO)
def test_what_runs_on_a_cpu_is_what_torch_says_that_it_chose(also):
    call = Call(also=also)
    (q, k, v), more = call.inputs("cpu")
    chosen = torch._fused_sdp_choice(q, k, v, **more)  # 0 math, 1 flash
    found = dispatch.attempt(call, "cpu")
    assert found.ran == ("math", "flash")[chosen]
    assert (found.refused["flash"] == "") == (found.ran == "flash")
    assert found.refused["math"] == "" and found.refused["cudnn"] == dispatch.NO_KERNEL


def test_heads_that_do_not_fit_are_an_error_until_they_are_grouped():
    assert dispatch.ran(Call(heads=HEADS[2]), "cpu") == ERROR
    assert "same num_heads" in dispatch.refusal(Call(heads=HEADS[2]), "cpu", "flash")
    assert dispatch.ran(Call(heads=HEADS[1]), "cpu") == "flash"


@pytest.mark.parametrize(
    ("operator", "backend"),
    [
        ("aten._scaled_dot_product_flash_attention.default", "flash"),
        ("aten._scaled_dot_product_flash_attention_for_cpu.default", "flash"),
        ("aten._scaled_dot_product_efficient_attention.default", "efficient"),
        ("aten._scaled_dot_product_cudnn_attention.default", "cudnn"),
        ("aten.bmm.default", "math"),
    ],
)
def test_the_operator_names_the_backend(operator, backend, monkeypatch):
    class Operators(dispatch._Operators):
        def __exit__(self, *error):
            self.names = ["aten.mul.Tensor", operator]
            return super().__exit__(*error)

    monkeypatch.setattr(dispatch, "_Operators", Operators)
    assert dispatch.ran(Call(), "cpu") == backend


def test_a_reason_is_the_one_of_its_own_backend():
    where = " (Triggered internally at sdp_utils.cpp:1.)"
    said = [
        "Memory efficient kernel not used because:" + where,
        "Memory Efficient attention has been runtime disabled." + where,
        "Flash attention kernel not used because:" + where,
        "Expected query, key and value to all be of dtype: {Half, BFloat16}." + where,
        "CuDNN attention kernel not used because:" + where,
    ]
    assert dispatch.reason(said, "No available kernel.", "flash").startswith("Expected query")
    assert "runtime disabled" in dispatch.reason(said, "No available kernel.", "efficient")
    assert dispatch.reason(said, "No available kernel.", "cudnn") == "torch gives no reason."
    assert dispatch.reason([], "Too odd.\nmore", "math") == "Too odd."


def test_a_record_gives_back_what_was_found():
    found = {call: dispatch.attempt(call, "cpu") for call in (Call(), Call(also=ALSO[5]))}
    record = json.loads(json.dumps(dispatch.to_record({"card": "x"}, found)))
    assert {call: dispatch.recorded(record, call) for call in found} == found
    with pytest.raises(KeyError):
        dispatch.recorded(record, Call(D=128))


def test_the_explorer_offers_each_call_of_the_bench_and_the_recorded_card(monkeypatch):
    found = {call: dispatch.Found("cudnn", dict.fromkeys(dispatch.BACKENDS, "")) for call in
             dispatch.calls()}  # fmt: skip
    record = dispatch.to_record({"card": "H9", "date": "today", "torch": "2"}, found)
    real = records.load
    monkeypatch.setattr(records, "load", lambda n: record if n == "dispatch" else real(n))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    explorer = shown.dispatch_explorer()
    device, *rest = explorer.controls
    offered = 1
    for control in rest:
        offered *= len(control.values)
    assert offered == len(found)
    picture = explorer.at(device="H9 (recorded)", also=ALSO[-1], D=512)
    assert picture.caption.startswith("torch runs cuDNN. Asked to, it would also run")
    assert explorer.at().caption != picture.caption


def test_the_bench_saves_what_the_explorer_reads(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert dispatch.main("dispatch", out=str(tmp_path / "none.json")) == 1
    some = dispatch.Found(
        "flash", {**dict.fromkeys(dispatch.BACKENDS, ""), "cudnn": "[1, 2], no."}
    )
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(dispatch.timing, "card", lambda: {"card": "H9"})
    monkeypatch.setattr(dispatch, "attempt", lambda call, device: some)
    assert dispatch.main("dispatch", out=str(tmp_path / "dispatch.json")) == 0
    record = json.loads((tmp_path / "dispatch.json").read_text())
    assert len(record["rows"]) == len(set(dispatch.calls()))
    assert all(dispatch.recorded(record, call) == some for call in dispatch.calls())
    assert "flash; taken by flash, efficient, math" in capsys.readouterr().out


def test_the_picture_says_why(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(records, "load", lambda name: None)
    explorer = shown.dispatch_explorer()
    rows = {row[0]: row[1:] for row in explorer.at(also="dropout_p 0.1").rows}
    assert rows["FlashAttention"][0] == "✖ refuses" and "dropout" in rows["FlashAttention"][1]
    assert rows["math"] == ("✔ runs", "-")
    assert rows["cuDNN"][0] == "not for this device"
    assert "raises an error" in explorer.at(heads=HEADS[2]).caption
    assert 'class="fl-long"' in explorer.at(also="dropout_p 0.1").figure()


def test_each_call_of_the_chapter_is_one_that_the_bench_records(capsys):
    every, names = set(dispatch.calls()), {"torch": torch, "dispatch": dispatch, "Call": Call}
    run(capsys, "dispatch-live", **names)
    calls = re.findall(r"Call\((.*?)\)", chapter()["dispatch-live"])
    assert len(calls) == 10
    assert all(eval(f"Call({one})", {"Call": Call}) in every for one in calls)


def test_torch_lays_a_causal_mask_from_the_top_left():
    q, k, v = (torch.randn(1, 1, n, 16) for n in (1, 6, 6))
    torch.testing.assert_close(sdpa(q, k, v, is_causal=True), v[:, :, :1])


@pytest.mark.parametrize("splits", [1, 3, 4, 17, 64])
@pytest.mark.parametrize("N", [1000, 8192])
def test_shares_are_those_of_the_kernel(splits, N):
    w = decode_splits.work(2, 3, 4, N, splits, 132)
    assert w.programs == sum(w.on_sm) == splits * 6
    assert w.share % decode_splits.BLOCK_N == 0
    assert (splits - w.empty - 1) * w.share < N <= (splits - w.empty) * w.share
    assert w.busiest >= w.even
    form = bounds.total_bytes(bounds.split_kv_bytes(2, 12, 3, N, 128, splits, 2))
    assert w.cache + w.parts == form and w.cache == 2 * 2 * 3 * N * 128 * 2


def test_programs_and_bytes_are_what_the_recorder_sees():
    B, H_kv, group, N, D, splits = 1, 2, 2, 200, decode_splits.D, 5
    split, _ = kernels.passed_or_solution("split_kv_decode")
    q, k = torch.randn(B, H_kv * group, 1, D).half(), torch.randn(B, H_kv, N, D).half()
    grids = []
    with count_io(on_launch=lambda kernel, grid, *rest: grids.append(grid)) as tally:
        split(q, k, k.clone(), num_splits=splits)
    w = decode_splits.work(B, H_kv, group, N, splits, 4)
    assert grids[0][0] == w.programs
    assert tally.bytes == w.cache + w.parts


def test_what_the_chapter_says_of_16_and_17_shares():
    at = {"B": 1, "H_kv": 8, "group": 4, "N": 65536, "sms": 132}
    one, sixteen, seventeen = (decode_splits.work(splits=s, **at) for s in (1, 16, 17))
    assert 132 - one.busy == 124 and "124 of 132 SMs idle" in chapter()["splits-explain"]
    assert 132 - sixteen.busy == 4 and seventeen.busy == 132
    assert sorted(seventeen.on_sm)[-5:] == [1, 2, 2, 2, 2]
    assert 1.9 < seventeen.busiest / seventeen.even < 2
    assert sixteen.busiest < seventeen.busiest
    assert decode_splits.work(1, 8, 4, 1000, 128, 132).empty == 128 - 32


def test_packs_are_counted_by_hand():
    p = packing.pack((5, 1, 6))
    assert p.ends == (0, 5, 6, 12) and p.tokens == 12 and p.padded_tokens == 18
    assert (p.scores, p.padded_scores) == (62, 108)
    assert packing.pack((4, 0, 2)).ends == (0, 4, 4, 6)
    explorer = packing.packing_explorer()
    assert "saves nothing" in explorer.at(name="all alike").caption
    assert "cu_seqlens = [0, 700, 700, 1050, 2450]" in explorer.at(name="one empty").caption
    most = max(packing.BATCHES.values(), key=len)
    assert len(most) <= len(packing.FILLS)


def test_the_longest_sequence_decides_as_the_chapter_says():
    p = packing.pack(packing.BATCHES["one long"])
    assert round(6 * (1 - p.scores / p.padded_scores)) == 5
    assert "five sixths" in chapter()["packed-explain"]


def test_pages_belong_to_one_sequence_and_hold_its_keys():
    cache, seen = pages.Cache(), set()
    for step in pages.SCRIPT:
        for name, tokens in step.items():
            cache.append(name, tokens) if tokens else cache.finish(name)
            taken = [page for table in cache.table.values() for page in table]
            assert sorted([*taken, *cache.free]) == list(range(pages.POOL))
            for owner, table in cache.table.items():
                assert len(table) == -(-cache.length[owner] // pages.PAGE)
            seen |= {(name, page) for page in cache.table.get(name, ())}
    again = {page for name, page in seen if name == "D"} & {p for n, p in seen if n == "B"}
    assert again, "D must get pages that B gave back"
    assert max(cache.length.values()) <= pages.ROOM
    with pytest.raises(MemoryError, match="has to wait"):
        cache.append("E", 1000)


def test_each_frame_draws_each_key_once():
    for frame in pages.pages_player().frames:
        keys = sum(int(row[1].split()[0]) for row in frame.facts if len(row[0]) == 1)
        slots = frame.svg.count("<rect")
        assert slots == pages.PAGE * pages.POOL
        assert slots - frame.svg.count("--fl-grey") == keys


def test_measured_sentences_hold_for_the_record(capsys):
    rows = records.load("split_kv_decode")["rows"]
    unsplit = {(r["B"], r["H"], r["N"]): r["work"] / r["ms"]["efficient"] / r["B"] / r["H"]
               for r in rows}  # fmt: skip
    alone = [rate for (B, _, _), rate in unsplit.items() if B == 1]
    assert max(alone) < 1.3 * min(alone)  # "about the same rate"
    gains = {(r["B"], r["H"]): r["ms"]["efficient"] / r["ms"]["ours"] for r in rows}
    assert min(gain for (B, _), gain in gains.items() if B == 1) > 3  # "several times faster"
    assert gains[16, 32] < 2
    for row in records.load("varlen_forward")["rows"]:
        saved = len(row["lengths"]) * max(row["lengths"]) ** 2 / sum(n * n for n in row["lengths"])
        assert 1 < row["ms"]["ours"] / row["ms"]["equal"] < saved  # "padding would have lost more"
        assert len(row["lengths"]) == 16
    said = run(capsys, "split-measured", "packed-measured", records=records)
    assert said.count("Recorded on an NVIDIA H200") == 2


def test_the_bench_measures_what_the_chapter_names():
    assert {row["D"] for row in records.load("split_kv_decode")["rows"]} == {decode.D} == {128}
    assert "D 128, one key head for each query head" in chapter()["measured-idea"]


def test_cells_say_what_is_not_recorded_and_show_what_is(capsys, monkeypatch):
    monkeypatch.setattr(records, "load", lambda name: None)
    names = {
        "records": records,
        "tried": (Call(),),
        "dispatch": dispatch,
        "words": str,
        "textwrap": textwrap,
    }
    said = run(capsys, "dispatch-recorded", "how-many-recorded", **names)
    assert said.count("Not recorded yet") == 2
    facts = {"card": "H9", "date": "2026-12-01", "torch": "2.11"}
    found = {
        Call(): dispatch.Found("cudnn", {**dict.fromkeys(dispatch.BACKENDS, ""), "flash": "No."})
    }
    kept = {
        "dispatch": dispatch.to_record(facts, found),
        "decode_splits": {
            "facts": facts,
            "rows": [{"H": 8, "N": 64, "num_splits": 1, "work": 2e9, "ms": {"ours": 1.0}}],
        },
    }
    monkeypatch.setattr(records, "load", kept.get)
    said = run(capsys, "dispatch-recorded", "how-many-recorded", **names)
    assert said.count("H9 on 2026-12-01") == 2
    assert "-> cudnn\n    flash: No." in said and "1 shares: 2.00 TB/s" in said


def test_bytes_saved_are_those_of_a_walk_by_hand():
    by_name = {(s.trick, s.of): s for s in bytes_saved.savings(8192, 8, 4, 0.8)}
    assert by_name["grouped heads", "cache"].factor == 4
    assert by_name["quantised cache", "cache"].factor == pytest.approx(256 / 132)
    assert by_name["grouped heads", "cache"].after == 2 * 32 * 8 * 8192 * 128 * 2
    token = by_name["speculative", "a token"]
    assert token.before == pytest.approx(2 * 8.03e9 + bytes_saved.cache(8, 8192))
    assert token.after * (1 - 0.8**5) / 0.2 == pytest.approx(token.before + 0.4 * 2 * 8.03e9)
    dram = by_name["fused kernel", "a layer's prefill, DRAM"]
    assert dram.after == 4 * 32 * 8192 * 128 * 2  # q, k, v and o once
    assert dram.before == 4 * 32 * 8192 * (8192 + 128) * 2


def test_what_the_chapter_says_of_drafts_and_short_contexts():
    def token(drafts, right, N=8192):
        return bytes_saved.savings(N, 8, drafts, right)[-1].factor

    assert token(8, 0.2) < 1 < token(1, 0.8)  # "with bad drafts it loses"
    assert bytes_saved.cache(8, 1024) < 0.01 * bytes_saved.WEIGHTS
    explorer = bytes_saved.savings_explorer()
    assert "51.7 % of the bytes of a step" in explorer.at(N=131072).caption
    shares = "six answers of 4 % to 49 %"
    assert shares in chapter()["lesson-idea"]
    assert (min(bytes_saved.LENGTHS), max(bytes_saved.LENGTHS)) == (0.04, 0.49)
