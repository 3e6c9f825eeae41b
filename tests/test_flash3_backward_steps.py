"""The steps to the Hopper backward give the same gradients, and what chapter 08 says of them."""

import pytest
import torch

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
