"""Saved figures of the bench on their roofline: by hand, without a GPU, and through the CLI."""

import json
import math

import pytest

from flashlab import cli
from flashlab.viz import bench_roofline

NAN = float("nan")


def row(N=1024, causal=False, **ms):
    return {"B": 2, "H": 4, "N": N, "D": 64, "causal": causal, "ms": ms}


RECORD = {
    "facts": {"card": "NVIDIA H200", "torch": "2.11.0+cu130", "triton": "3.6.0",
              "cudnn": "91900", "date": "2026-11-29"},
    "ceilings": {"matmul_tflops": 700.0, "copy_tbs": 4.0},
    "rows": [
        row(causal=True, ours=0.01, cudnn=NAN),
        row(**{"ours": 0.0125, "sdpa flash": 0.013, "standard": 0.1, "FA1 order": 2.0}),
    ],
    "memory_mb": {},
    "data_sheet": None,
}  # fmt: skip


def test_points_by_hand():
    work = 4 * 2 * 4 * 1024 * 1024 * 64
    found = {p.name: p for p in bench_roofline.points(RECORD, RECORD["rows"][1])}
    ours, standard = found["this course"], found["standard, three kernels"]
    assert ours.tflops == pytest.approx(work / 0.0125e-3 / 1e12)
    tensor, matrix, rows = 2 * 4 * 1024 * 64 * 2, 2 * 4 * 1024 * 1024 * 2, 2 * 4 * 1024 * 4
    assert ours.intensity == pytest.approx(work / (4 * tensor + rows))
    assert standard.intensity == pytest.approx(work / (4 * tensor + 4 * matrix))
    assert standard.attainable == pytest.approx(4.0 * standard.intensity)
    assert ours.attainable == pytest.approx(min(700.0, 4.0 * ours.intensity))
    tiles = 1024 // 64
    first = found["keys outside, as FA1"]
    assert first.intensity == pytest.approx(
        work / (tensor * (2 + 3 * tiles - 1) + 2 * rows * (2 * tiles - 1))
    )


def test_what_could_not_run_is_left_out_and_causal_work_is_half():
    (point,) = bench_roofline.points(RECORD, RECORD["rows"][0])
    assert point.name == "this course"
    assert point.tflops == pytest.approx(2 * 2 * 4 * 1024 * 1024 * 64 / 0.01e-3 / 1e12)


def test_the_title_says_card_date_and_versions():
    assert bench_roofline.title(RECORD) == (
        "Forward pass, fp16: NVIDIA H200, 2026-11-29, torch 2.11.0, Triton 3.6.0, cuDNN 9.19"
    )


def test_the_explorer_starts_where_most_versions_ran():
    explorer = bench_roofline.bench_roofline(RECORD)
    assert explorer.start == {"size": "D 64, full, N 1,024"}
    other = explorer.at(size="D 64, causal, N 1,024")
    assert "this course" in repr(other) and "cuDNN" not in other.svg
    with pytest.raises(ValueError, match="no rows"):
        bench_roofline.bench_roofline({**RECORD, "rows": []})


def test_names_in_the_picture_do_not_lie_on_each_other():
    picture = bench_roofline.picture(RECORD, RECORD["rows"][1])
    names = [p.name for p in bench_roofline.points(RECORD, RECORD["rows"][1])]
    at = [picture.svg.split(f">{name} ")[0].rsplit('y="', 1)[1].split('"')[0] for name in names]
    gaps = [b - a for a, b in zip(map(float, at), map(float, at[1:]), strict=False)]
    assert len(names) == 4 and all(gap >= 17.9 for gap in gaps)


def test_draw_needs_no_gpu(tmp_path, capsys):
    saved = tmp_path / "figures.json"
    saved.write_text(json.dumps(RECORD))
    assert cli.main(["bench", "flash_forward", "--draw", str(saved)]) == 0
    page = (tmp_path / "figures.html").read_text()
    assert page.count("<svg ") == 2 and "http://" not in page.replace("http://www.w3.org", "")
    assert "standard, three kernels" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "says"), [(None, "cannot be read"), ("[", "cannot be read"), ("{}", "is no record")]
)
def test_another_file_is_refused_with_a_sentence(tmp_path, capsys, text, says):
    saved = tmp_path / "x.json"
    if text is not None:
        saved.write_text(text)
    assert cli.main(["bench", "flash_forward", "--draw", str(saved)]) == 2
    assert says in capsys.readouterr().err
    assert cli.main(["bench", "triad", "--draw", str(saved)]) == 2


def test_nan_survives_the_file(tmp_path):
    saved = tmp_path / "x.json"
    saved.write_text(json.dumps(RECORD))
    assert math.isnan(bench_roofline.load(saved)["rows"][0]["ms"]["cudnn"])
