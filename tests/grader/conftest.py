"""What the grader's tests share: texts in folders, a quick check, a look at processes."""

import contextlib
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from flashlab import aot, sources
from flashlab.grader import pool
from flashlab.grader.report import Report
from flashlab.grader.run import check

HERE = Path(__file__).resolve().parent
QUICK = pool.Limits(cpu_seconds=2, wall_seconds=6.0, memory_bytes=256 << 20)
STATUS = re.compile(r"^# .*Status: ([a-z_, ]+)$", re.M)


def texts(folder: str) -> list[Path]:
    """The answers of a folder; each says in its first comment which status it must get."""
    return sorted((HERE / folder).glob("*.py"))


def expected(path: Path) -> set[str]:
    """The statuses that an answer may get."""
    said = STATUS.search(path.read_text(encoding="utf-8"))
    return {word.strip() for word in said.group(1).split(",")}


def slug(path: Path) -> str:
    """The exercise that an answer is for."""
    said = re.search(r"^# .*Exercise: (\w+)", path.read_text(encoding="utf-8"), re.M)
    return said.group(1) if said else "vector_scale"


def quick(text: str, slug: str = "vector_scale", **options: object) -> Report:
    """A check with short limits and without diagnosis."""
    options = {"limits": QUICK, "diagnose": False, **options}
    return check(slug, text, **options)


def below(pid: int | None = None) -> set[int]:
    """All processes below ``pid`` (this one), by number."""
    found: set[int] = set()
    waiting = [pid or os.getpid()]
    while waiting:
        tasks = Path(f"/proc/{waiting.pop()}/task")
        with contextlib.suppress(OSError):
            texts = [(task / "children").read_text() for task in tasks.iterdir()]
            new = {int(number) for text in texts for number in text.split()} - found
            found |= new
            waiting += new
    return found


def still_there(gone: set[int], seconds: float = 10.0) -> set[int]:
    """Those of the processes that still live after a while."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and (left := {p for p in gone if _alive(p)}):
        time.sleep(0.05)
    return left


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def workers(made: pool.Pool) -> set[int]:
    """Processes below the lanes of a pool."""
    lanes = set(map(int, Path(f"/proc/{made._server.pid}/task/{made._server.pid}/children")
                    .read_text().split()))  # fmt: skip
    return below(made._server.pid) - lanes


@pytest.fixture(scope="session")
def solution() -> str:
    """The text of vector_scale's solution."""
    return sources.solution_text("vector_scale")


@pytest.fixture(scope="session", autouse=True)
def warm_pool() -> Iterator[pool.Pool]:
    """One server, and one compiler, for all tests; gone at their end."""
    made = pool.default()
    aot.warm()
    yield made
    made.close()
