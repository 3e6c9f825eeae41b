"""What is asked of the operating system, and what macOS has instead; the latter runs here too."""

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from flashlab import system

ROOT = Path(__file__).parents[1]
HOLD = """
import subprocess, sys, time
mine = bytearray(b"x") * (64 << 20)
child = subprocess.Popen([sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"])
time.sleep(60)
"""


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "LINUX", False)


@pytest.fixture
def family():
    """A process of some 64 MB and its child, in a group of their own."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD], stdout=subprocess.PIPE, start_new_session=True
    )
    process.stdout.readline()
    yield process
    process.stdout.close()
    system.kill(process.pid)
    process.wait()


def gone(pid: int) -> bool:
    end = time.monotonic() + 10
    while time.monotonic() < end:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


def test_processes_are_seen_by_other_means_too(family, monkeypatch) -> None:
    here = system.below(family.pid), system.look(family.pid, os.getpid())
    monkeypatch.setattr(system, "LINUX", False)
    there = system.below(family.pid), system.look(family.pid, family.pid)

    assert len(here[0]) == 1 and there[0] == here[0]
    assert there[1][0] == 2
    table = system._table()
    assert table[family.pid][0] == os.getpid() and table[family.pid][1] > 64 << 20


def test_a_process_and_what_is_below_it_are_killed(family, elsewhere) -> None:
    [child] = system.below(family.pid)
    system.kill(family.pid)

    assert family.wait(10) == -signal.SIGKILL
    assert gone(child)


def test_the_rest_of_a_group_is_killed(family, elsewhere) -> None:
    [child] = system.below(family.pid)
    family.kill()
    family.wait(10)
    system.end_group(family.pid)

    assert gone(child)
    system.end_group(family.pid)  # nobody there: no error


def test_a_process_that_nothing_watches_ends_by_its_alarm() -> None:
    code = "from flashlab import system; system.LINUX = False; system.die_with_parent(0.2)"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport time; time.sleep(30)"], cwd=ROOT, timeout=60
    )
    assert done.returncode == -signal.SIGALRM


def test_what_cannot_be_asked_is_left_alone(elsewhere) -> None:
    assert system.cores() >= 1
    assert system.adopted(set()) == set()
    assert system.end_handle(os.getpid()) is None
    system.limit_memory(1 << 20)  # no limit: whoever watches counts
    system.hide_memory()
    system.adopt_orphans()


def test_without_ps_nothing_is_known(elsewhere, monkeypatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert system.below(os.getpid()) == [] and system.look(os.getpid(), 1) == (1, 0)


# Behind system.LINUX, for class marks, for the compiler, or a list of what may be read
MAY_ASK_LINUX = "system ring/ aot/ classroom/ bench/grading grader/audit".split()
LINUX_ALONE = re.compile(r"pidfd_open|memfd_create|sched_getaffinity|prctl\b|\"/proc|'/proc")


def test_what_linux_alone_has_is_asked_for_in_one_place() -> None:
    folder = ROOT / "flashlab"
    asking = {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*.py")
        if LINUX_ALONE.search(path.read_text(encoding="utf-8"))
    }
    allowed = {name for name in asking if name.startswith(tuple(MAY_ASK_LINUX))}
    assert "system.py" in asking and asking == allowed


def test_no_two_files_differ_by_capitals_alone() -> None:
    """A Mac's disk takes them for one."""
    names = [
        path.relative_to(ROOT).as_posix()
        for folder in ("chapters", "docs", "flashlab", "labs", "scripts", "solutions", "tests")
        for path in (ROOT / folder).rglob("*")
        if "__pycache__" not in path.parts
    ]
    assert len(names) > 300
    assert [n for n, count in Counter(map(str.lower, names)).items() if count > 1] == []
