"""Workers that die, hang or talk nonsense: replaced; what breaks two of them is put aside."""

import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from flashlab import exercises, sources
from flashlab.classroom import grade_device, grade_job, grade_pool
from flashlab.grader.report import CaseResult, Report

WORKER = """
import json, os, sys, time
for line in sys.stdin:
    job = json.loads(line)
    with open({log!r}, "a") as log:
        log.write(job["key"] + "\\n")
    if job["key"] == "kills":
        os._exit(3)
    if job["key"] == "kills once" and not os.path.exists({once!r}):
        open({once!r}, "w").close()
        os.kill(os.getpid(), 9)
    if job["key"] == "hangs":
        time.sleep(60)
    if job["key"] == "nonsense":
        print("no JSON", flush=True)
        continue
    print(json.dumps({{"key": job["key"], "text": "x" * 3_000_000}}), flush=True)
"""


def job(key: str) -> dict:
    kind = {"kind": "unsandboxed", "image": "", "gpu": False}
    return {"key": key, "student": key, "lab": "lab00", "tier": "cpu", "sandbox": kind,
            "answers": {"vector_scale": "text"}}  # fmt: skip


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    text = WORKER.format(log=str(tmp_path / "log"), once=str(tmp_path / "once"))
    (tmp_path / "worker.py").write_text(text)
    monkeypatch.setattr(grade_pool, "COMMAND", [sys.executable, str(tmp_path / "worker.py")])
    return tmp_path / "log"


def run(log: Path, keys: list[str], losses: Counter[str]) -> dict[str, dict]:
    def note(key: str) -> int:
        losses[key] += 1
        return losses[key]

    jobs = [job(key) for key in keys]
    found = list(grade_pool.mark(jobs, 2, losses.__getitem__, note, log.with_name("said")))
    assert len(found) == len(keys)
    return {result["key"]: result for result in found}


def test_every_job_is_done_once(log: Path) -> None:
    keys = [str(i) for i in range(12)]

    found = run(log, keys, Counter())

    assert sorted(found) == sorted(keys)
    assert sorted(log.read_text().split()) == sorted(keys)


def test_a_lost_worker_is_replaced_and_its_job_done_again(log: Path) -> None:
    losses: Counter[str] = Counter()

    found = run(log, ["a", "kills once", "b"], losses)

    assert "exercises" not in found["kills once"]
    assert losses == {"kills once": 1}


@pytest.mark.parametrize("key", ["kills", "nonsense", "hangs"])
def test_what_breaks_two_workers_is_put_aside(
    log: Path, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grade_pool, "JOB_SECONDS", 3.0)
    losses: Counter[str] = Counter()

    found = run(log, ["a", key, "b", "c"], losses)

    assert losses == {key: 2}
    entry = found[key]["exercises"]["vector_scale"]
    assert entry["status"] == "grader_error"
    assert log.read_text().splitlines().count(key) == 2
    assert all("exercises" not in found[other] for other in "abc")


def test_what_was_put_aside_before_is_not_tried_again(log: Path) -> None:
    found = run(log, ["kills"], Counter(kills=2))

    assert found["kills"]["exercises"]["vector_scale"]["status"] == "grader_error"
    assert not log.exists()


def test_one_submission_at_a_time_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    inside, most = [], []

    def use(number: int) -> None:
        with grade_device.alone():
            inside.append(number)
            most.append(len(inside))
            time.sleep(0.02)
            inside.remove(number)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)

    assert most == [1] * 5


def test_steps_of_an_answer_that_fails_on_a_gpu_alone_are_tried_on_the_cpu() -> None:
    exercise = exercises.get("vector_scale")
    text = sources.without_markers(sources.solution_text("vector_scale"))
    name = f"{exercise.cases[0].name} bf16"
    case = CaseResult(name, "core", {"BLOCK": 16}, {"N": 16}, "wrong", tier="gpu")
    report = Report("vector_scale", "gpu", "wrong", "y is wrong", cases=[case])

    assert grade_job._steps(exercise, text, report) == [True, True]
