"""The same jobs on a real Dask cluster of this machine, a worker killed in the middle."""

import os
import signal
import threading
import time

import pytest

from flashlab import sources
from flashlab.classroom import grade, grade_plan, shards_dask
from flashlab.classroom.course import Course
from flashlab.classroom.grade import Options
from flashlab.classroom.report_write import TABLE
from flashlab.classroom.sandbox import Sandbox
from flashlab.classroom.store import FOLDER, Store
from tests.classroom.conftest import hand_in, make_course

SLUG, LAB = "vector_scale", "lab00"


def test_without_dask_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "distributed", None)

    with pytest.raises(ValueError, match=r"flashlab-course\[dask\]"):
        next(shards_dask.mark("tcp://127.0.0.1:1", []))


def submissions(folder, count: int) -> Course:
    course = make_course(folder, "00")
    for number in range(count):
        text = sources.solution_text(SLUG) + f"# {number}\n"
        hand_in(course, LAB, f"s{number}", {SLUG: text})
    return course


@pytest.mark.classroom
@pytest.mark.filterwarnings("ignore")  # Dask's own, of processes that die
def test_a_worker_killed_in_the_middle_loses_nothing(tmp_path) -> None:
    distributed = pytest.importorskip("distributed", reason="not run: needs the extra dask")
    course = submissions(tmp_path / "course", 6)
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(processes=True, silence_logs=50, **options) as cluster:
        pids = [worker.process.pid for worker in cluster.workers.values()]
        killer = threading.Thread(target=_kill_later, args=(Store(course.dir / FOLDER), pids[0]))
        killer.start()
        code = grade.main(str(course.dir), Options(scheduler=cluster.scheduler_address))
        killer.join()
        graded_there = (course.dir / TABLE).read_text()
        assert _gone(pids[0])

    assert code == 0
    assert len(Store(course.dir / FOLDER).keys()) == 6
    assert graded_there.count(",100,pass,") == 6


@pytest.mark.classroom
@pytest.mark.filterwarnings("ignore")
def test_a_job_that_kills_workers_is_put_aside(tmp_path, monkeypatch) -> None:
    distributed = pytest.importorskip("distributed", reason="not run: needs the extra dask")
    import dask

    course = submissions(tmp_path / "course", 1)
    [job] = grade_plan.plan(course, course.labs[LAB], Sandbox()).jobs.values()
    monkeypatch.setattr(shards_dask.grade_job, "run_bytes", _die)
    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None}
    few = dask.config.set({"distributed.scheduler.allowed-failures": 1})
    with few, distributed.LocalCluster(processes=True, silence_logs=50, **options) as cluster:
        [result] = shards_dask.mark(cluster.scheduler_address, [job])

    assert result["key"] == job["key"]
    assert result["exercises"][SLUG]["status"] == "grader_error"


def test_nobody_at_the_address(monkeypatch) -> None:
    pytest.importorskip("distributed", reason="not run: needs the extra dask")
    monkeypatch.setattr(shards_dask, "CONNECT_SECONDS", 1)

    with pytest.raises(ValueError, match="no Dask scheduler answers"):
        list(shards_dask.mark("tcp://127.0.0.1:9", []))


def _die(data: bytes) -> bytes:
    os._exit(1)


def _kill_later(store: Store, pid: int) -> None:
    """Kill a worker as soon as a first result is there, with more to come."""
    end = time.monotonic() + 200
    while not store.keys() and time.monotonic() < end:
        time.sleep(0.1)
    os.kill(pid, signal.SIGKILL)


def _gone(pid: int) -> bool:
    end = time.monotonic() + 10
    while time.monotonic() < end:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.2)
    return False
