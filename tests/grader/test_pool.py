"""Servers and workers: what ends with what, and what is replaced."""

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from flashlab import exercises
from flashlab.grader import cpu, pool, trials
from flashlab.grader.cpu import Answer
from tests.grader.conftest import QUICK, below, quick, still_there, workers

LOOP = "def vector_scale(x, a):\n    while True:\n        pass"
LOST = (
    "import os, time\n\n\ndef vector_scale(x, a):\n    if os.fork() == 0:\n        os.setsid()\n"
)
LOST += "    time.sleep(3600)\n"


def _jobs(text: str, count: int = 1) -> list[pool.Job]:
    exercise = exercises.get("vector_scale")
    trial = trials.trial(exercise, exercise.case("one-block"), exercise.tiles(0))
    return [cpu.job(exercise, Answer(text, "answer.py", QUICK), trial, n) for n in range(count)]


def test_replies_come_for_every_job(solution: str) -> None:
    replies = list(pool.default().run(_jobs(solution, 5)))

    assert sorted(job.tag[0] for job, _ in replies) == [0, 1, 2, 3, 4]
    assert all(reply.header and not reply.header.get("error") for _, reply in replies)


def test_leaving_early_kills_what_runs(solution: str) -> None:
    made = pool.default()
    running = made.run([*_jobs(solution), *_jobs(LOST, 3)])
    next(running)
    time.sleep(0.3)
    running.close()

    assert not still_there(workers(made))
    assert list(made.run(_jobs(solution)))[0][1].header


def test_a_killed_server_is_replaced(solution: str) -> None:
    made = pool.Pool(lanes=1)
    try:
        assert made.one(_jobs(solution)[0]).header
        os.kill(made._server.pid, signal.SIGKILL)
        assert made.one(_jobs(solution)[0]).header
    finally:
        made.close()


def test_a_killed_lane_is_replaced(solution: str) -> None:
    made = pool.Pool(lanes=1)
    try:
        made.one(_jobs(solution)[0])
        [lane] = below(made._server.pid)
        os.kill(lane, signal.SIGKILL)
        assert made.one(_jobs(solution)[0]).header
    finally:
        made.close()


def test_close_ends_everything(solution: str) -> None:
    made = pool.Pool(lanes=2)
    list(made.run(_jobs(solution, 2)))
    processes = {made._server.pid} | below(made._server.pid)
    made.close()

    assert not still_there(processes)


def test_the_server_dies_with_its_parent() -> None:
    """Also the grandchild of a worker, in a session of its own, after the parent was killed."""
    text = f"""
        import sys
        from flashlab.grader.run import check
        print("ready", flush=True)
        check("vector_scale", {LOST!r}, diagnose=False)
    """
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(text)], stdout=subprocess.PIPE, env=_env()
    )
    assert parent.stdout.readline() == b"ready\n"
    end = time.monotonic() + 30
    while len(below(parent.pid)) < 4 and time.monotonic() < end:
        time.sleep(0.05)
    processes = below(parent.pid)
    assert len(processes) >= 4  # server, lane, worker, grandchild
    parent.kill()
    parent.wait()
    parent.stdout.close()

    assert not still_there(processes)


def test_stop_interrupts_a_check_and_the_next_one_works(solution: str) -> None:
    quick(solution, cases=["one-block"])
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    start = time.monotonic()
    report = quick(LOOP, limits=pool.Limits(30, 30.0))

    assert time.monotonic() - start < 10
    assert report.headline.startswith("You stopped the check")
    assert not report.passed
    assert report.points == 0
    assert not still_there(workers(pool.default()))
    assert quick(solution, cases=["one-block"]).passed


def _env() -> dict[str, str]:
    root = str(Path(pool.PACKAGE).parent)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}


@pytest.mark.skipif(
    not shutil.which("bwrap"), reason="not run: apt-get install bubblewrap runs it"
)
def test_a_server_runs_inside_a_sandbox(solution: str) -> None:
    words = "bwrap --unshare-all --die-with-parent --ro-bind / / --dev /dev --proc /proc".split()
    made = pool.Pool(lanes=1, command=lambda server: [*words, *server])
    try:
        assert made.one(_jobs(solution)[0]).header
        assert made.one(_jobs("import os\n\n\ndef vector_scale(x, a): os._exit(4)")[0]).code == 4
    finally:
        made.close()
