"""What a worker says of a run is judged, whatever it says."""

import pytest

from flashlab import exercises
from flashlab.grader import trials, verdict
from flashlab.grader.exchange import Reply

FLASH = exercises.get("flash_forward")


@pytest.mark.parametrize(
    "sizes",
    [(0, 0), (-16, 16), (1 << 20, 16), (1 << 16, 1 << 16)],
    ids=lambda sizes: str(sizes[0]),
)
def test_tiles_that_no_gpu_takes_size_no_case(sizes: tuple[int, int]) -> None:
    launch = {"tiles": dict(zip(("BLOCK_M", "BLOCK_N"), sizes, strict=True))}

    assert verdict.observed(FLASH, {"launches": [launch]}).get("BLOCK_M") is None
    good = {"tiles": {"BLOCK_M": 64, "BLOCK_N": 32}}
    assert verdict.observed(FLASH, {"launches": [good]}) == good["tiles"]


def test_fewer_results_than_were_counted_break_the_contract() -> None:
    trial = trials.trial(FLASH, FLASH.cases[0], FLASH.tiles(FLASH.cases[0].pairs[0]))
    returned = {"type": "tuple", "count": 2, "items": []}

    run = verdict.judge(FLASH, trial, Reply({"returned": returned}))

    assert run.result.status == "contract"
