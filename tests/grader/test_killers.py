"""Honest code that kills a naive grader: each ends in its status, says which, leaves nothing."""

import time
from pathlib import Path

import pytest

from flashlab.grader import pool
from tests.grader.conftest import expected, quick, still_there, texts, workers

SAYS = {
    "endless_loop": "never ends",
    "sleeper": "never ends",
    "segmentation_fault": "SIGSEGV",
    "abort": "SIGABRT",
    "os_exit": "code 3",
    "system_exit": "SystemExit",
    "raises": "missing key",
    "empty_body": "got None",
    "wrong_shape": "shape [16], got [17]",
    "wrong_dtype": "float64",
    "wrong_device": "device cpu, got meta",
    "wrong_count": "got tuple of 2",
    "misspelt_name": "'vector_scales': rename it",
    "wrong_signature": "vector_scale(x, a), got vector_scale(x, factor)",
    "deep_recursion": "calls itself without end",
    "forty_gigabytes": "more memory",
    "memory_by_bits": "more memory",
    "input_mutated": "changed its input x",
    "asks_for_input": "line 5",
}


@pytest.mark.parametrize("path", texts("killers"), ids=lambda p: p.stem)
def test_it_ends_in_its_status(path: Path, solution: str) -> None:
    quick(solution, cases=["one-block"])
    start = time.monotonic()

    report = quick(path.read_text(encoding="utf-8"))

    assert report.status in expected(path), report.headline
    assert SAYS.get(path.stem, "") in report.headline
    assert time.monotonic() - start < 15
    assert report.points == 0
    assert not still_there(workers(pool.default()), seconds=2)
    assert quick(solution, cases=["one-block"]).passed


def test_a_syntax_error_names_its_line() -> None:
    report = quick("# one\n\n\ndef vector_scale(x, a)\n    return x\n")

    assert report.status == "contract"
    assert "line 4" in report.headline
    assert report.cases == []


def test_printed_text_is_cut_and_kept() -> None:
    report = quick("def vector_scale(x, a):\n    print('seen')\n    raise SystemExit")

    assert report.cases[0].printed == "seen\n"
    flooded = quick("def vector_scale(x, a):\n    print('y' * 1_000_000)")
    assert len(flooded.cases[0].printed) == 64 << 10
