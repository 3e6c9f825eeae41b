"""Chapter 09's pictures, record and words: formats, the explorer, the kernel's figures."""

import json
import re

import pytest
import torch

from flashlab import sources
from flashlab.bench import records
from flashlab.viz import fp8_formats, incoherent
from flashlab.viz.pass_speed import pass_speed, rates
from flashlab.worked import fp8_hopper, fp8_prepare


def cells() -> dict[str, str]:
    (path,) = (sources.course_dir() / "chapters").glob("09_*.ipynb")
    return {c["id"]: "".join(c["source"]) for c in json.loads(path.read_text())["cells"]}


@pytest.mark.parametrize("name", fp8_formats.FORMATS)
def test_a_format_holds_what_its_row_says(name):
    kind = fp8_formats.FORMATS[name]
    edges = torch.tensor([kind.smallest, kind.largest, kind.largest * 4, kind.smallest / 2.1])
    got = kind.round(edges.double()).tolist()
    assert got == [kind.smallest, kind.largest, kind.largest, 0]


def test_scales_change_nothing_for_floats_and_everything_for_integers():
    floats = [fp8_formats.normal_error("e4m3", 2.0**n)[0] for n in (-2, 0, 3, 6)]
    assert max(floats) / min(floats) < 1.05
    whole = [fp8_formats.normal_error("int8", 2.0**n)[0] for n in (0, 2, 4)]
    assert whole[0] > 3 * whole[1] > 9 * whole[2]
    assert fp8_formats.normal_error("e4m3", 2.0**10)[2] > 0.5  # cut off
    assert fp8_formats.worst("e4m3", 10.0) == pytest.approx(1 / 17, rel=0.05)
    assert fp8_formats.worst("e5m2", 10.0) == pytest.approx(1 / 9, rel=0.05)


@pytest.mark.parametrize("D", [32, 64, 128])
def test_a_rotation_keeps_scores_and_helps_where_outliers_meet(D):
    found = incoherent.scores(30, D)
    as_it_is, rotated = found.row["as it is"], found.row["rotated"]
    assert float(rotated.norm()) == pytest.approx(float(as_it_is.norm()))
    assert float(rotated.abs().max()) < 0.4 * float(as_it_is.abs().max())
    assert found.rms("rotated", large=True) < found.rms("as it is", large=True) / 4
    ratio = found.rms("rotated", large=False) / found.rms("as it is", large=False)
    assert 0.6 < ratio < 1.4


def test_without_outliers_it_changes_nothing():
    found = incoherent.scores(1, 64)
    for large in (True, False):
        ratio = found.rms("rotated", large) / found.rms("as it is", large)
        assert 0.7 < ratio < 1.4


def test_the_record_is_of_hopper_and_fast():
    record = records.load("fp8_hopper")
    assert "H200" in record["facts"]["card"] and record["facts"]["date"]
    full = {r["N"]: rates(r)["ours"] for r in record["rows"] if " full " in r["cell"]}
    assert full[1024] < full[4096] < full[16384] < 1979
    for row in record["rows"]:
        assert row["ms"]["with quantisation"] > row["ms"]["ours"]
        assert 0 < row["quantisation_ms"] < row["ms"]["with quantisation"]
    explorer = pass_speed(record)
    assert "FP8" in explorer.at().title and "with rounding" in repr(explorer.at())


def test_what_the_text_says_of_one_launch_is_in_the_record():
    found, words = records.load("fp8_hopper")["one_launch"], cells()
    times = found["4096"]
    gain = {n: round(100 * t / times["kernel"] - 100) for n, t in times.items() if n != "kernel"}
    assert gain == {"three launches": 22, "one launch": 17}
    assert "17 % on top of the kernel, and 22 % with three launches" in words["launch-explain"]
    alone = found["alone at 4096"]
    assert alone["one launch"] / times["kernel"] < 0.2
    assert 1 - alone["one launch"] / alone["three launches"] == pytest.approx(1 / 7, abs=0.02)
    assert (
        f"it would take {alone['one launch that does not wait, and is wrong']:.0f}"
        in (words["launch-explain"])
    )
    moved = 3 * 16384 * 2048 * (2 + 1)  # bytes: fp16 in, FP8 out
    assert round(moved / 1e6) == 302 and round(moved / 4.29e6) == 70


def test_what_the_text_says_of_other_versions_is_in_the_record():
    tried, words = records.load("fp8_hopper")["variants"], cells()
    block, turns = tried["cycles of a block"], tried["in turns"]
    first, second = tried["first run"], tried["second run"]
    assert round(sum(block.values()), -1) == 3680 and "3,680" in words["limit-idea"]
    products = 2 * 2 * 64 * 256 * 128 / 4096  # two warpgroups, two products; 4,096 a cycle
    for busy in (products, 2 * 130 * 8):
        assert busy / sum(block.values()) == pytest.approx(0.56, abs=0.01)
    assert 130 * 8 / 8 / block["softmax"] == pytest.approx(1 / 16, abs=0.002)
    chains = first["maxima in four chains"]
    assert first["that, an eighth of the exponentials as polynomials"] < chains
    assert max(v for n, v in first.items() if "wrong" not in n) == first["the kernel"]
    assert second["warpgroups in turns"] < second["the kernel"]
    assert abs(turns["softmax"] / block["softmax"] - 1) < 0.01
    assert f"{turns['softmax']:,} cycles" in words["limit-explain"]


def test_the_chapters_key_order_is_the_kernels():
    code = cells()["layout"]
    formula = re.search(r"\[(c // 16.*) for c in range\(16\)\]", code)[1]
    shown = [eval(formula, {"c": c}) for c in range(16)]
    assert sorted(shown) == list(range(16))
    held = [[2 * t, 2 * t + 1, 8 + 2 * t, 9 + 2 * t] for t in range(4)]
    assert [shown[4 * t : 4 * t + 4] for t in range(4)] == held
    assert f"return {formula}" in _source()
    assert "permute([0, 1, 3, 2, 4])" in _source(fp8_hopper)


def _source(module=fp8_prepare) -> str:
    with open(module.__file__, encoding="utf-8") as file:
        return file.read()


def test_the_chapters_numbers_in_words_are_true():
    words = cells()
    assert 448 / 2.0**-6 == pytest.approx(28_000, rel=0.03) and "28,000" in words["takeaway"]
    assert "off by 65 %" in words["outliers-explain"] and 2.718281828**0.5 == pytest.approx(
        1.65, 0.01
    )
