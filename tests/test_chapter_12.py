"""Chapter 12: what its cells say of the record, its sliders, and the page of what was built."""

import itertools
import json

import pytest
import torch

from flashlab import broken, exercises, hardware, sources
from flashlab.bench import records
from flashlab.capstone import ladder, peers, text, train
from flashlab.capstone.gpt import GPT2_MEDIUM, Size
from flashlab.grader.trials import one_thread
from flashlab.render.certificate import certificate, measured
from flashlab.viz import fits, gpt_step
from flashlab.workspace import Workspace

PLAN = train.Plan(Size(len(text.ALPHABET), 32, 1, 1, 16), B=1, N=16, steps=3, characters=500)


def chapter() -> dict[str, str]:
    (path,) = (sources.course_dir() / "chapters").glob("12_*.ipynb")
    return {c["id"]: "".join(c["source"]) for c in json.loads(path.read_text())["cells"]}


def run(capsys, *cells: str, **names) -> str:
    for cell in cells:
        exec(compile(chapter()[cell], cell, "exec"), names)
    return capsys.readouterr().out


@pytest.fixture(scope="module")
def record():
    return records.load("capstone")


@pytest.fixture(scope="module")
def runs():
    with one_thread():
        return [train.train(PLAN, getattr(peers, n), n) for n in ("sdpa", "standard")]


def test_the_record_has_every_length_and_says_what_did_not_fit(record):
    assert record["facts"]["card"] == "NVIDIA H200" and record["facts"]["date"]
    assert [row["N"] for row in record["rows"]] == [1024, 2048, 4096, 8192, 16384, 8192]
    tokens = [row["B"] * row["N"] for row in record["rows"]]
    assert tokens == [16384] * 5 + [8192]
    assert [row["ms"]["standard"] is None for row in record["rows"]] == [*[False] * 4, True, False]
    assert record["rows"][4]["peak_bytes"]["standard"] is None
    assert record["small_gpt"]["steps"] == train.ON_GPU.steps


def test_what_the_text_says_of_the_recorded_losses(record):
    calm, hasty = record["small_gpt"], record["hasty_gpt"]
    assert calm["plan"]["rate"] == train.ON_GPU.rate == 0.00015 and hasty["plan"]["rate"] == 0.001
    assert calm["plan"]["width"] > hasty["plan"]["width"], "with a smaller model"
    assert set(calm["runs"]) == {"ours", "sdpa flash", "sdpa flash again", "standard"}
    apart = {name: run_["apart"] for name, run_ in calm["runs"].items()}
    assert max(apart.values()) < 0.02 and apart["sdpa flash again"] > 0
    assert min(hasty["runs"][name]["apart"] for name in ("ours", "standard")) > 0.1
    theirs = hasty["runs"]["sdpa flash"]["losses"]
    for run_ in hasty["runs"].values():
        assert all(abs(a - b) < 0.002 for a, b in zip(run_["losses"][:11], theirs, strict=False))
        assert abs(run_["losses"][-1] - theirs[-1]) < 0.005
        assert len(run_["losses"]) * hasty["every"] == hasty["steps"]


def test_what_the_text_says_of_the_recorded_steps(record):
    gains = [row["ms"]["sdpa flash"] / row["ms"]["ours"] for row in record["rows"]]
    assert min(gains) > 1 and gains[:5] == sorted(gains[:5]), "it grows with N"
    standard = [row["ms"]["standard"] for row in record["rows"][:3]]
    ratios = [later / sooner for sooner, later in itertools.pairwise(standard)]
    assert [round(ratio, 1) for ratio in ratios] == [1.5, 1.8]
    for row in record["rows"]:
        peak = row["peak_bytes"]
        assert peak["ours"] == pytest.approx(peak["sdpa flash"], rel=1e-3)
        for name in row["launched"]:
            assert row["ms"][name] > ladder.LONG_MS
    assert "CUDA graphs" in record["facts"]["how"]


def test_ratios_are_those_of_the_record(capsys, record):
    said = run(capsys, "imports", "speed-own", record=record)
    row = record["rows"][0]
    assert f"{row['ms']['standard'] / row['ms']['ours']:.2f} x faster than standard" in said
    assert said.count("does not fit") == 1
    layer = record["layer_bytes"]
    assert f"{layer['standard'] / layer['ours']:.0f} x less" in said


def test_mfu_is_flops_over_time_and_peak(record):
    row = record["rows"][0]
    tokens, weights = row["B"] * row["N"], 12 * 24 * 1024**2 + 50304 * 1024
    work = tokens * (6 * weights + 6 * 24 * 1024 * row["N"])
    share = work / (row["ms"]["ours"] / 1e3) / hardware.GPUS["H200"].peak("bfloat16")
    assert gpt_step.values(record, row, "MFU")["ours"] == pytest.approx(100 * share)


def test_what_the_text_says_of_the_sliders():
    for card in ("A100-80", "H200"):
        room = hardware.GPUS[card].memory_gb * 1e9
        assert fits.longest(GPT2_MEDIUM, room, "standard") == 8192
    found = fits.kept(GPT2_MEDIUM, 1, 8192)
    assert (round(found.flash / 1e6), round(found.standard / 1e9)) == (13, 53)
    said = chapter()["fits-explain"]
    assert "13 MB, against 53 GB" in said and "8,192" in said


def test_the_page_says_what_was_passed_and_measured(runs, tmp_path):
    workspace = Workspace.current()
    workspace.record_check("triad", "0" * 64, "pass", 97.5, "cpu")
    broken.deal(5).name(1, "a")
    page = certificate(runs, ("triad: your own",), "ada <takes>")
    shown = page._repr_html_()
    for told in (
        f"1 of {len(exercises.SYLLABUS)} exercises passed.",
        "01 triad",
        "97.5",
        "triad: your own",
        "3 steps on 1 sequences of 16 characters, float32",
        "Seed 5: ",
        "of 80 points",
    ):
        assert told in shown and told in repr(page)
    assert "ada &lt;takes&gt;" in shown and "ada <takes>" not in shown
    saved = page.save()
    assert saved == workspace.root / "certificate.html" and shown in saved.read_text()
    assert page.save(tmp_path / "other.html").is_file()


def test_the_page_before_anything_was_done(runs):
    shown = certificate(runs)._repr_html_()
    assert "0 of" in shown and "Not begun" in shown


def test_the_table_has_a_row_a_run(runs):
    head, first, second = measured(runs)
    assert len(head) == len(first) == len(second)
    assert (first[0], second[0]) == ("sdpa", "standard")
    assert first[3] == "0.0e+00" and float(second[3]) == pytest.approx(train.apart(*runs), rel=0.1)
    if not torch.cuda.is_available():
        assert "MFU" not in head and "kept for backward" in head


def test_chapter_and_lab_lead_to_each_other():
    (lab,) = (sources.course_dir() / "labs").glob("12_*.ipynb")
    assert f"../labs/{lab.name}" in chapter()["next"]
    (path,) = (sources.course_dir() / "chapters").glob("12_*.ipynb")
    assert f"../chapters/{path.name}" in lab.read_text()
