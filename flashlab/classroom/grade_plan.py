"""What is to be graded: the payload of each submission and the key under which it is kept.

A key is a hash of the answers, the seeds, the tier and the grader itself: the same work is done
once, and another grader, torch or Triton grades anew. Floor: front.
"""

import functools
import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from flashlab import exercises, sources
from flashlab.classroom import answers, seeds
from flashlab.classroom.answers import Submission
from flashlab.classroom.course import Course, Lab
from flashlab.classroom.sandbox import NONE, Sandbox

PACKAGE = Path(__file__).resolve().parents[1]
GRADER = (
    "exercises grader reference iocount aot pipeline exercise.py numerics.py error_budget.py "
    "errormap.py holes.py transplant.py sources.py loading.py hardware.py compiler.py "
    "system.py stubs classroom/grade_job.py classroom/seeds.py classroom/seeds_draw.py "
    "classroom/seeds_lists.py"
).split()


@dataclass(frozen=True)
class Plan:
    """A lab's submissions, the payload of each that has answers, and the commitment."""

    lab: Lab
    submissions: tuple[Submission, ...]
    jobs: dict[str, dict[str, Any]]  # student -> payload
    commitment: str


def plan(course: Course, lab: Lab, sandbox: Sandbox, tier: str = "cpu", attempt: int = 1) -> Plan:
    """Read what was handed in and draw every student's seeds."""
    key = seeds.lab_key(course.secret, lab.name, attempt)
    found = answers.collect(course, lab)
    jobs = {}
    for one in found:
        if one.texts:
            drawn = {slug: _seeds(key, one.student, slug) for slug in one.texts}
            jobs[one.student] = _payload(one, drawn, sandbox, tier)
    return Plan(lab, tuple(found), jobs, seeds.commitment(key))


def _seeds(key: bytes, student: str, slug: str) -> dict[str, int]:
    names = [case.name for case in exercises.get(slug).cases]
    return seeds.case_seeds(key, student, slug, names)


def _payload(
    one: Submission, drawn: dict[str, dict[str, int]], sandbox: Sandbox, tier: str
) -> dict[str, Any]:
    what = {
        "grader": grader_version(),
        "answers": dict(sorted(one.texts.items())),
        "seeds": drawn,
        "tier": tier,
        "sandboxed": sandbox.kind != NONE,
    }
    key = hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()
    same = {"student": one.student, "lab": one.lab, "tier": tier, "sandbox": asdict(sandbox)}
    return {"key": key, **same, "answers": one.texts, "seeds": drawn}


def of_shard(jobs: Sequence[dict[str, Any]], shard: str) -> list[dict[str, Any]]:
    """The jobs of one part of several, such as ``"2/8"``; all for an empty text.

    Raises:
        ValueError: it is no part.
    """
    if not shard:
        return list(jobs)
    number, _, count = shard.partition("/")
    if not (number.isdigit() and count.isdigit() and 1 <= int(number) <= int(count)):
        raise ValueError(f"--shard wants a part such as 2/8, not {shard!r}")
    return [job for job in jobs if int(job["key"][:8], 16) % int(count) == int(number) - 1]


@functools.cache
def grader_version() -> str:
    """A hash of all that a mark depends on: the grader's files, the solutions, torch, Triton."""
    paths = [p for part in GRADER for p in sorted((PACKAGE / part).rglob("*.py"))]
    paths += [PACKAGE / part for part in GRADER if part.endswith(".py")]
    paths += sorted((sources.course_dir() / "solutions").glob("*.py"))
    total = hashlib.sha256(f"torch {version('torch')} triton {version('triton')}".encode())
    for path in paths:
        total.update(path.name.encode() + b"\0" + path.read_bytes())
    return total.hexdigest()
