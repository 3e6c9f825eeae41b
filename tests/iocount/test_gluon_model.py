"""Gluon kernels in the model of one SM: what is late is seen, what hangs is said."""

import pytest
import torch

from flashlab import iocount, sources
from flashlab.iocount import KernelError, RaceError
from flashlab.loading import load_module
from flashlab.reference import described
from flashlab.worked import gluon_copy


def solution(old: str = "", new: str = ""):
    text = sources.solution_text("flash3_forward")
    assert text.count(old) == 1 or not old
    text = text.replace(old, new) if old else text
    return load_module(text, f"<flash3 {hash(new)}>").flash3_forward


@pytest.mark.parametrize("rows", [1, 32, 100])
def test_tma_copies_rows_and_counts_only_those_inside(rows):
    x = torch.randn(rows, 64).half()
    with iocount.count_io() as tally:
        y = gluon_copy.copy_rows(x)
    assert torch.equal(x, y)
    assert tally.by_tensor({"x": x, "y": y}) == {"x": (x.nbytes, 0), "y": (0, y.nbytes)}


def test_reading_before_the_copy_landed_is_a_race_with_its_line():
    with iocount.count_io(), pytest.raises(RaceError, match="may still be filling it") as error:
        gluon_copy.copy_rows(torch.randn(40, 64).half(), WAIT=False)
    assert "tma_store" in error.value.source


def test_a_hang_names_where_every_role_waits():
    forward = solution(
        "mbarrier.wait(empty.index(stage), phase ^ 1)", "mbarrier.wait(empty.index(stage), phase)"
    )
    q = torch.randn(1, 1, 64, 64).half()
    with iocount.count_io(), pytest.raises(KernelError, match="producer 2 waits for parity 0"):
        forward(q, q, q)


def test_a_tma_store_before_the_first_row_is_refused_as_on_a_gpu():
    forward = solution("tma_store(o_desc, [b, h, row, 0]", "tma_store(o_desc, [b, h, row - 1, 0]")
    q = torch.randn(1, 1, 64, 64).half()
    with iocount.count_io(), pytest.raises(KernelError, match="starts at .*-1"):
        forward(q, q, q)


WRONG = {
    "every second column": lambda: torch.zeros(1, 2, 8, 128).half()[..., ::2],
    "rows of 68 elements": lambda: torch.zeros(1, 2, 8, 68).half()[..., :64],
    "D 32": lambda: torch.zeros(1, 2, 8, 32).half(),
    "fp32": lambda: torch.zeros(1, 2, 8, 64),
}


@pytest.mark.parametrize("which", WRONG)
def test_what_tma_cannot_express_is_a_value_error_of_contract_and_solution(which):
    x = WRONG[which]()
    for forward in (solution(), described.flash3_forward):
        with pytest.raises(ValueError, match="q must"):
            forward(x, x, x)
