"""Chapters use a learner's kernel only while that very text last passed its check."""

import pytest
import torch

import flashlab
from flashlab import kernels, sources
from flashlab.iocount import count_io
from flashlab.workspace import Workspace

SLUG = "vector_scale"


@pytest.mark.core
def test_only_a_passed_text_is_used():
    workspace, mine = Workspace.current(), "x = 1\n" + sources.solution_text(SLUG)
    assert "solution" in kernels.passed_or_solution(SLUG)[1]
    workspace.fill(SLUG, mine)
    assert "solution" in kernels.passed_or_solution(SLUG)[1]
    workspace.record_check(SLUG, sources.text_hash(mine), "pass", 100, "cpu")
    function, whose = kernels.passed_or_solution(SLUG)
    assert "your own" in whose and function is flashlab.kernels.vector_scale
    workspace.kernel_path(SLUG).write_text(mine + "\n\nz = 2\n")
    assert "solution" in kernels.passed_or_solution(SLUG)[1]


@pytest.mark.core
def test_the_solution_runs_under_the_enclosing_recorder():
    function, _ = kernels.passed_or_solution(SLUG)
    x = torch.randn(100)
    with count_io() as tally:
        y = function(x, 2.0)
    assert torch.equal(y, x * 2) and tally.load_bytes() == 400
    assert torch.equal(function(x, 3.0), x * 3)
