"""When two runs count as wrong alike, and how places of wrong numbers are worded."""

from types import SimpleNamespace

import pytest
import torch

from flashlab.grader import bank, structure


def test_outputs_with_the_same_nan_agree():
    nan = torch.tensor([1.0, torch.nan])
    reference = {"y": torch.tensor([1.0, 2.0])}
    assert bank.same_outputs({"y": nan}, {"y": nan.clone()}, reference)
    assert not bank.same_outputs({"y": nan}, {"y": nan.flip(0)}, reference)


def test_outputs_equal_to_the_reference_are_no_evidence():
    right = torch.tensor([1.0, 2.0])
    assert not bank.same_outputs({"y": right}, {"y": right}, {"y": right})
    almost = {"y": right, "lse": right * (1 + 1e-6)}
    reference = {"y": right * (1 + 1e-3), "lse": right}
    assert bank.same_outputs(almost, almost | {"y": right * (1 + 9e-4)}, reference)
    assert not bank.same_outputs(almost, almost | {"y": right * (1 + 9e-4)}, reference, wrong="y")


def test_single_rows_and_columns_are_worded_as_such():
    bad = torch.zeros(1, 1, 8, 4, dtype=torch.bool)
    bad[0, 0, 5, 2] = True
    run = SimpleNamespace(tiles={}, reference={})
    assert structure._rows(run, "o", bad, bad) == ["Of 8 rows of o, only row 5 is wrong."]
    assert structure._columns(bad) == ["Only column 2 of 4 is wrong."]


@pytest.mark.parametrize("output", ["lse", "scale"])
def test_a_number_a_row_has_heads_and_rows_but_no_columns(output):
    ref = torch.ones(2, 3, 4)
    got = ref.clone()
    got[1, 2, 3] = 2.0
    result = SimpleNamespace(where=SimpleNamespace(output=output), limit=0.1)
    raw = SimpleNamespace(outputs={output: got})
    run = SimpleNamespace(
        result=result, raw=raw, reference={output: ref}, tiles={"BLOCK_M": 16}, inputs={}
    )
    heads, rows = structure._places(run)
    assert heads == "Only 1 of 6 heads are wrong: (b, h) = (1, 2)."
    assert "3" in rows and "column" not in rows
