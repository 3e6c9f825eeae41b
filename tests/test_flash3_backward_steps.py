"""The steps to the Hopper backward give the same gradients, and what chapter 08 says of them."""

import json

import pytest
import torch

from flashlab import sources
from flashlab.bench import records
from flashlab.iocount import count_io
from flashlab.viz import pass_speed
from flashlab.worked import flash3_backward_steps as steps
from tests.test_flash3_backward import HERE, MORE, check

BEFORE = steps.STEPS[:-1]  # the last one is flash3_backward itself


@pytest.mark.parametrize("name", ["ragged", "unseen"])
@pytest.mark.parametrize("step", BEFORE)
def test_gradients_equal_fp64_and_roles_keep_apart(step: str, name: str) -> None:
    with count_io(poison=True):
        check(HERE[name], torch.float16, False, "cpu", steps.function(step))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["fp16", "bf16"])
@pytest.mark.parametrize("name", HERE)
@pytest.mark.parametrize("step", BEFORE)
def test_every_small_case(step: str, name: str, dtype: torch.dtype) -> None:
    with count_io(poison=True):
        check(HERE[name], dtype, False, "cpu", steps.function(step))


@pytest.mark.hopper
@pytest.mark.parametrize("D", [64, 128])
@pytest.mark.parametrize("sizes", [*HERE.values(), MORE[0]], ids=[*HERE, "more"])
@pytest.mark.parametrize("step", BEFORE)
def test_gradients_equal_fp64_on_hopper(step: str, sizes: dict, D: int) -> None:
    check(sizes | {"D": D}, torch.float16, False, "cuda", steps.function(step))


def test_the_record_holds_every_step() -> None:
    rows = records.load("flash3_backward_steps")["rows"]
    assert len(rows) == 8 and {row["N"] for row in rows} == {4096, 16384}
    for row in rows:
        assert list(row["ms"]) == [*BEFORE, "ours", "deterministic", "cudnn"]
        assert row["work"] == 10 * row["B"] * row["H"] * row["N"] ** 2 * row["D"] / (
            2 if pass_speed.causal(row, "flash3_backward_steps") else 1
        )


def told() -> tuple[dict[str, str], dict, list[str]]:
    """Chapter 08's cells by id, the record, and the steps by their names in it."""
    (path,) = (sources.course_dir() / "chapters").glob("08_*.ipynb")
    text = {c["id"]: "".join(c["source"]) for c in json.loads(path.read_text())["cells"]}
    return text, records.load("flash3_backward_steps"), [*BEFORE, "ours"]


def test_what_chapter_08_says_of_each_steps_gain_is_in_the_record() -> None:
    text, record, names = told()
    gains = {}
    for row in record["rows"]:
        if row["N"] == 16384:
            speed = [pass_speed.rates(row)[name] for name in names]
            found = [new / old for old, new in zip(speed, speed[1:], strict=False)]
            gains[pass_speed.setting(row, record["slug"])] = dict(
                zip(names[1:], found, strict=True)
            )
    full, every = ("D 128, full", "D 64, full"), tuple(gains)
    assert len(every) == 4

    def of(step: int, cells: tuple[str, ...] = every) -> list[float]:
        return [gains[cell][names[step - 1]] for cell in cells]

    assert "Step 3 gains most, by far" in text["backward-steps-explain"]
    assert all(max(g.values()) == g[names[2]] > 1.5 for g in gains.values())
    assert "gains nothing without a mask" in text["backward-steps-explain"]
    assert all(gain < 1.04 for gain in of(2, full))
    assert "It gains nothing, and under a mask it loses" in text["backward-together-explain"]
    assert all(gain < 1.01 for gain in of(4))
    assert all(gain < 0.98 for gain in of(4, ("D 128, causal", "D 64, causal")))
    assert "11 to 15 % without a mask" in text["backward-brought-explain"]
    assert all(1.11 <= round(gain, 2) <= 1.15 for gain in of(5, full))
    assert "5 % without a mask" in text["backward-under-explain"]
    assert of(6, ("D 64, full",))[0] == pytest.approx(1.05, abs=0.01)
    assert "2 %, it changes nothing" in text["backward-under-explain"]
    assert all(abs(gain - 1) < 0.025 for gain in of(6, ("D 128, full", "D 128, causal")))
    assert "55 to 65 % of the time" in text["takeaway"]
    assert all(0.54 < 1 / gain < 0.655 for gain in of(3))


def test_what_chapter_08_says_of_additions_and_spills_is_in_the_record() -> None:
    text, record, names = told()
    assert "1.7 to 1.9 TB/s" in text["backward-added-explain"]
    (row,) = [row for row in record["rows"] if row["cell"] == "D 128 full   N 16384"]
    for name, keys in zip((*names[:3], "ours"), (64, 64, 128, 128), strict=True):
        added = 4 * row["H"] * row["N"] // keys * row["N"] * row["D"] / row["ms"][name] / 1e9
        assert 1.65 < added < 1.95, name
    since = record["since"]
    assert record["spill_bytes"][names[4]]["D 128 causal"] == since["spill_bytes_before"] == 248
    assert "spills 24 bytes" in text["backward-under-explain"] and since["spill_bytes_after"] == 24
    assert "568 in place of 567 TFLOP/s" in text["backward-under-explain"]
    assert (since["tflops_after"]["16384"], since["tflops_before"]["16384"]) == (568, 567)
    before, together, brought = (record["spill_bytes"][name] for name in names[2:5])
    for cell in before:
        if "causal" in cell:
            assert before[cell] < together[cell] > 2 * brought[cell]
        else:
            assert together[cell] < 64, "hardly anything"
    assert together["D 64 causal"] > 2 * before["D 64 causal"]
