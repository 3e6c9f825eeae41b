"""What a GPU stage may take of the host; shown with processes that need no GPU."""

import subprocess
import sys

import pytest

from flashlab import exercises, sources
from flashlab.grader import cpu, gpu, gpu_limits, pool
from flashlab.grader.report import CaseResult
from flashlab.grader.trials import Run, Trial

GREEDY = "import time; held = bytearray(300 << 20); held[::4096] = b'x' * len(held[::4096]); "
MANY = "import subprocess, sys, time; [subprocess.Popen(['sleep', '60']) for _ in range(8)]; "


@pytest.mark.parametrize(("code", "over"), [(GREEDY, "memory"), (MANY, "processes")])
def test_a_process_over_a_limit_is_ended(
    code: str, over: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_limits, "MEMORY_BYTES", 200 << 20)
    monkeypatch.setattr(gpu_limits, "PROCESSES", 6)
    command = [sys.executable, "-c", code + "time.sleep(60)"]
    with subprocess.Popen(command, start_new_session=True) as process:
        watch = gpu_limits.Watch(process.pid)
        assert process.wait(30) < 0
        watch.stop()

    assert watch.over == over


def test_a_modest_process_is_left_alone() -> None:
    with subprocess.Popen([sys.executable, "-c", "pass"], start_new_session=True) as process:
        watch = gpu_limits.Watch(process.pid)
        assert process.wait(30) == 0
        watch.stop()

    assert watch.over == ""


@pytest.mark.parametrize("status", ["oom", "timeout", "oob", "wrong"])
def test_a_case_that_would_cost_as_much_again_ends_the_stage(
    status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one(stage: gpu.Gpu, trial: Trial, folder: str) -> Run:
        result = CaseResult(trial.case.name, trial.case.group, {}, {}, status)
        return Run(trial, pool.Reply({}), result=result)

    monkeypatch.setattr(gpu.Gpu, "_one", one)
    exercise = exercises.get("vector_scale")
    answer = cpu.Answer(sources.solution_text("vector_scale"), "vector_scale.py")
    told: list[Run] = []

    stage = gpu.Gpu(exercise, answer, "gpu", {}, None, told.append)
    planned = len(stage.plan())

    assert planned > 5
    assert len(stage.run()) == len(told) == (planned if status == "wrong" else 1)
