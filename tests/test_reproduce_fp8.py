"""Table 3 of FlashAttention-3: which part brings the gain, small; the paper's numbers, slowly."""

import pytest
import torch

from flashlab import cli
from flashlab.reproduce import fa3_fp8_error as table_3
from flashlab.reproduce.table import Table

WHOLE = "FP8 FlashAttention-3"


def test_the_rotation_brings_the_gain():
    found = table_3.mean_errors(seeds=2, N=2112, rows=64)
    gain = {name: error / found[WHOLE] for name, error in found.items()}
    assert gain["FP8 baseline"] > 1.3
    assert gain["FP8 without the rotation"] > 1.15
    assert 0.9 < gain["FP8 without block scales"] < 1.1
    assert gain["FP16 FlashAttention-2, -3"] < 0.1
    assert found["FP16 baseline"] > found["FP16 FlashAttention-2, -3"]


def test_without_outliers_there_is_nothing_to_rotate(monkeypatch):
    monkeypatch.setattr(table_3, "outliers", lambda x, generator: x)
    found = table_3.mean_errors(seeds=2, N=528, rows=64)
    assert 0.8 < found["FP8 without the rotation"] / found[WHOLE] < 1.25


def test_inputs_and_reference():
    (q, k, v), signs = table_3.inputs(0, N=512, D=64, rows=8)
    assert q.dtype == torch.float64 and list(k.shape) == [1, 1, 512, 64]
    assert set(signs.tolist()) == {-1.0, 1.0}
    assert 5 < float((k.abs() > 5).sum()) < 60  # one in a thousand has a deviation of 10
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    assert torch.allclose(table_3.exact(q, k, v), expected, atol=1e-12)


@pytest.mark.slow
def test_the_papers_numbers_within_30_percent(capsys):
    table = table_3.table()
    assert isinstance(table, Table) and len(table.rows) == len(table_3.PAPER) + 3
    for row in table.rows:
        assert row.ratio == pytest.approx(1, abs=0.3), row.what
    assert table.rows[-2].ours > 2 and table.rows[-1].ours < 1.2  # the rotation, the blocks
    assert cli.main(["reproduce", "fa3-fp8-error"]) == 0
    said = capsys.readouterr().out
    assert "baseline / FlashAttention-3" in said and "ours/paper" in said
