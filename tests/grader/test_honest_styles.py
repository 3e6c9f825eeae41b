"""Unusual but honest answers lose nothing by the lists of what an answer may use."""

import ast
from pathlib import Path

import pytest

from flashlab import exercises
from flashlab.grader import contract, escapes, lint
from tests.grader.conftest import quick, texts

HONEST = texts("honest")
SCALE = exercises.get("vector_scale")


@pytest.mark.parametrize("path", HONEST, ids=lambda p: p.stem)
def test_an_honest_style_is_above_suspicion(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))

    assert contract.contract(SCALE, tree) is None
    assert lint.lint(SCALE, tree) is None
    assert escapes.escape(tree) is None


@pytest.mark.slow
@pytest.mark.parametrize("path", HONEST, ids=lambda p: p.stem)
def test_an_honest_style_passes(path: Path) -> None:
    report = quick(path.read_text(encoding="utf-8"))

    assert report.passed, report.headline


def test_there_are_enough() -> None:
    assert len(HONEST) >= 10
