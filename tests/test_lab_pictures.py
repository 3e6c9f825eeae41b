"""Pictures of a learner's own bytes and tiles: against the recorder and against a sum by hand."""

import pytest
import torch

from flashlab import count_io, kernels
from flashlab.grader.report import CaseResult, Report
from flashlab.iocount import bounds
from flashlab.render import html
from flashlab.viz import traffic, visits

N, D, BLOCK = 150, 16, 64


@pytest.fixture(scope="module")
def recorded():
    attend, _ = kernels.passed_or_solution("flash_forward")
    q, k, v = (torch.randn(1, 2, N, D).to(torch.float16) for _ in range(3))
    with count_io() as tally:
        o, lse = attend(q, k, v)
    return tally, {"q": q, "k": k, "v": v, "o": o, "lse": lse}


def test_rows_are_what_was_counted(recorded):
    tally, tensors = recorded
    budget = bounds.flash_forward_bytes(1, 2, N, N, D, BLOCK, BLOCK, 2)
    for rows in (traffic.rows_of(tally, budget), traffic.rows_of(tally, budget, tensors)):
        assert {r.name: (r.loaded, r.stored) for r in rows} == budget
        assert {r.name: r.budget for r in rows} == budget
        assert {r.name: r.often for r in rows}["k"] == 3  # once a query block
        assert not any(r.over for r in rows)


def test_the_picture_says_what_is_too_much(recorded):
    tally, _ = recorded
    free = traffic.traffic(tally)
    assert "Each byte of k and v is loaded 3.0 times." in free.caption
    assert "may load" not in repr(free)
    budget = bounds.flash_forward_bytes(1, 2, N, N, D, BLOCK, BLOCK, 2)
    assert "No tensor moves more" in traffic.traffic(tally, budget).caption
    k = budget["k"][0]
    tight = traffic.traffic(tally, {**budget, "k": (k - 100, 0)})
    assert "More than it may: k" in tight.caption
    assert f"{k:,} loaded, 100 too many" in tight.svg


def test_a_report_draws_the_bytes_of_a_pass():
    case = CaseResult("wide", "core", {}, {}, "pass", io={"x": [8, 2]}, budget={"x": [8, 2]})
    passed = Report("triad", "cpu", "pass", "It passed.", cases=[case])
    page = html.report_html(passed)
    assert page.count('aria-label="Bars of bytes.') == 2  # once open, once beside the table
    assert "10 bytes in all: 8 loaded, 2 stored. No tensor moves more than it may" in page
    failed = Report("triad", "cpu", "wrong", "It is wrong.", cases=[case])
    assert html.report_html(failed).count('aria-label="Bars of bytes.') == 1


def test_every_program_visits_every_tile(recorded):
    tally, _ = recorded
    found = visits.visited(tally)
    full, last = 2 * BLOCK * D * 2, 2 * (N - 2 * BLOCK) * D * 2
    assert found.loaded == ((full, full, last),) * 6
    assert found.passes == 18
    picture = visits.visits(tally)
    assert "6 programs visited 18 tiles, 3 each." in picture.caption
    assert "ragged" in picture.caption
    with pytest.raises(ValueError, match="1 launches"):
        visits.visited(tally, 1)


def test_programs_that_stop_early_show_as_such(recorded):
    loaded = ((8, None), (8, 8), *((8, 8),) * 20)
    v = visits.Visits("k", loaded, (1,) * 22)
    assert v.passes == 43
    assert "2 at most" in visits._caption(v) and "first 16" in visits._caption(v)


def test_no_launch_is_said():
    with count_io() as tally:
        pass
    with pytest.raises(ValueError, match="0 launches"):
        visits.visits(tally)
    assert "0 bytes in all" in traffic.traffic(tally).caption
