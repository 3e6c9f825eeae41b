"""200 submissions of lab 04: killed three times, every mark as expected, the cost as promised."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.classroom.conftest import ROOT

MINUTES, CORE_HOURS = 45, 6.0


@pytest.mark.slow
def test_a_simulated_class(tmp_path: Path, totals: Counter[str]) -> None:
    script = ROOT / "scripts" / "simulate_class.py"

    run = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "class"), "--workers", "2"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    print(run.stdout)
    assert run.returncode == 0, run.stdout + run.stderr  # marks, and the second run's minute
    assert run.stdout.count("killed when") == 3
    seconds = float(re.search(r"all graded after (\d+) s", run.stdout)[1])
    hours = float(re.search(r"submissions: ([\d.]+) core-hours", run.stdout)[1])
    failing, mistakes, named = map(int, re.search(
        r"mistakes: (\d+) of (\d+) fail, (\d+) are named", run.stdout).groups())  # fmt: skip
    totals["submissions of a simulated class"] += 200
    assert failing == mistakes and named >= 0.95 * mistakes
    assert seconds < 60 * MINUTES
    assert hours <= CORE_HOURS
