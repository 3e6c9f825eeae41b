"""From results to marks: what each student gets for each exercise of a lab. Floor: front."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flashlab.classroom.answers import Submission
from flashlab.classroom.course import Lab

NOT_HANDED_IN, NOT_GRADED = "not handed in", "not graded yet"
UNMARKED = ("grader_error", NOT_GRADED)  # an error of ours, or work to do: no mark, and no 0


@dataclass(frozen=True)
class Mark:
    """Points of one exercise; None where there is no mark yet.

    ``check`` is what the check gives, ``steps`` what each step does.
    """

    slug: str
    status: str
    check: float | None
    steps: tuple[float, ...]
    of: float
    entry: Mapping[str, Any] = field(default_factory=dict)  # of the result

    @property
    def points(self) -> float | None:
        """All points, or None."""
        return None if self.check is None else round(self.check + sum(self.steps), 2)


@dataclass(frozen=True)
class Graded:
    """One submission with its marks."""

    submission: Submission
    marks: tuple[Mark, ...]
    key: str = ""
    sandbox: str = ""
    tier: str = ""
    seconds: float = 0.0

    @property
    def points(self) -> float | None:
        """The lab's points; None if an exercise has no mark."""
        found = [mark.points for mark in self.marks]
        return None if None in found else round(sum(found), 2)

    @property
    def of(self) -> float:
        return sum(mark.of for mark in self.marks)


def graded(submission: Submission, lab: Lab, key: str, result: Mapping | None) -> Graded:
    """The marks of a submission from its result; None is a result that is not there yet."""
    found = result or {}
    marks = tuple(
        _mark(slug, lab, submission, result, found.get("exercises", {}).get(slug))
        for slug in lab.slugs
    )
    return Graded(
        submission,
        marks,
        key,
        found.get("sandbox", ""),
        found.get("tier", ""),
        found.get("seconds", 0.0),
    )


def _mark(
    slug: str, lab: Lab, submission: Submission, result: Mapping | None, entry: Mapping | None
) -> Mark:
    points = lab.points[slug]
    none = (0.0,) * len(points.steps)
    if slug not in submission.texts:
        return Mark(slug, NOT_HANDED_IN, 0.0, none, points.total)
    if result is None or entry is None:
        return Mark(slug, NOT_GRADED, None, none, points.total)
    if entry["status"] in UNMARKED:
        return Mark(slug, entry["status"], None, none, points.total, entry)
    share = min(max(float(entry["points"]) / 100, 0.0), 1.0)
    steps = tuple(
        worth if right else 0.0 for worth, right in zip(points.steps, entry["steps"], strict=True)
    )
    check = round(points.check * share, 2)
    return Mark(slug, entry["status"], check, steps, points.total, entry)
