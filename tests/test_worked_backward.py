"""The steps to the Hopper backward compile for sm_90 anywhere, with each set of versions."""

from pathlib import Path

import pytest
import torch

from flashlab import aot
from flashlab.worked import flash3_backward_in_order, flash3_backward_roles
from flashlab.worked import flash3_backward_steps as steps

FIRST = {
    steps.STEPS[0]: (flash3_backward_in_order, "backward_in_order"),
    steps.STEPS[1]: (flash3_backward_roles, "backward_roles"),
}


def compiled(step: str, D: int, causal: bool) -> aot.Compiled:
    """The step's kernel for sm_90."""
    module, name = FIRST.get(step, (None, "flash3_backward"))
    text = Path(module.__file__).read_text() if module else steps.text(step)
    x, lse = torch.zeros(1, 2, 1024, D, dtype=torch.bfloat16), torch.zeros(1, 2, 1024)
    rows = aot.inspect(
        text, f"<{step}>", lambda m: getattr(m, name)(x, x, x, x, lse, x, causal=causal), (90,)
    )
    (row,) = [row for row in rows if f"def {row.kernel}(" in text]
    return row


@pytest.mark.parametrize("step", steps.STEPS)
def test_each_step_compiles_for_hopper(step: str) -> None:
    row = compiled(step, 128, causal=True)
    assert row.ok, row.sentence
    assert row.counts["wgmma"] and row.counts["tma"] and row.counts["mbarrier"]
    assert bool(row.counts["setmaxnreg"]) == (step != steps.STEPS[0]), "roles share registers"
    assert not any("serial" in note for note in row.notes)


def test_a_line_to_take_back_stands_once(tmp_path, monkeypatch) -> None:
    changed = tmp_path / "flash3_backward.py"
    changed.write_text(
        steps.WHOLE.read_text().replace("AHEAD_AT = gl.constexpr(64)", "AHEAD_AT = 64")
    )
    monkeypatch.setattr(steps, "WHOLE", changed)
    with pytest.raises(
        ValueError, match="AHEAD_AT.* must stand once in flash3_backward.py, not 0"
    ):
        steps.text(steps.STEPS[2])
