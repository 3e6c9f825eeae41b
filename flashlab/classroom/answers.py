"""Everything that was handed in for a lab, student by student, and what is odd about it.

``handed_in`` reads one submission; here are the folders around it. Nothing runs, no link is
followed, and one bad submission never stops the others. Floor: front.
"""

import datetime
import os
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from flashlab.classroom import handed_in
from flashlab.classroom.answers_files import NoFolder, names
from flashlab.classroom.course import Course, Lab
from flashlab.render.safe import one_line

ANSWER_BYTES = 128 << 10  # the longest solution has 12,000
CLOCK_SECONDS = 300  # by which a timestamp may lie ahead
TIMESTAMP = "timestamp.txt"
NO_TEXT = "is no text that a gradebook can hold: rename the folder"
UNSEEN = "the folder's name has blanks at an end, or letters that cannot be seen: rename it"
HIDDEN = "the folder's name starts with a dot, so it was not read: rename it"
FORMATS = ("%Y-%m-%d %H:%M:%S.%f %Z", "%Y-%m-%d %H:%M:%S %Z")


@dataclass
class Submission:
    """What one student handed in for one lab: texts and where they lay, by slug.

    ``said`` is what somebody should look at, a sentence each; nothing of it stops the grading.
    """

    student: str
    lab: str
    texts: dict[str, str] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    there: bool = True


def collect(course: Course, lab: Lab) -> list[Submission]:
    """Every student's submission of a lab, by name; students without one are in it too.

    Raises:
        ValueError: there is no folder of submissions.
    """
    top = course.dir / "submitted"
    try:
        students = names(top)
    except NoFolder as error:
        raise ValueError(f"{top} should hold the submissions: {error}") from None
    found = [_one(top / name, name, course, lab) for name in students]
    found += [Submission(name, lab.name, said=[HIDDEN]) for name in _hidden(top, lab)]
    alike = _alike(students)
    for submission in found:
        if others := alike.get(submission.student):
            same = ", ".join(repr(one_line(other, 60)) for other in others)
            submission.said.append(
                f"the same id is there as {same} too: if this is one student, keep one folder; "
                "each was graded by itself"
            )
    return found


def _hidden(top: Path, lab: Lab) -> list[str]:
    """Names that start with a dot and hold something for the lab: no student looks like that."""
    return sorted(
        n for n in os.listdir(top) if n.startswith(".") and (top / n / lab.name).is_dir()
    )


def is_text(name: str) -> bool:
    """Whether a folder's name is UTF-8; others are read as stand-ins that no database takes."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def shown(student: str) -> str:
    """An id as it is printed: on one line, and spelt out where that leaves something away."""
    line = one_line(student, 60)
    return line if line == student or len(student) > 60 else ascii(student)[:60]


def _one(folder: Path, student: str, course: Course, lab: Lab) -> Submission:
    submission = Submission(student, lab.name)
    if not is_text(student):
        submission.said.append(f"the folder's name {NO_TEXT}")
    elif not student.isprintable() or student != student.strip():
        submission.said.append(UNSEEN)
    try:
        submission.there = lab.name in names(folder)
        if submission.there:
            files = names(folder / lab.name)
            if "kernels" in files:
                names(folder / lab.name / "kernels")
            _read(folder / lab.name, files, course, lab, submission)
    except NoFolder as error:
        submission.said.append(str(error))
    return submission


def _read(
    folder: Path, files: Sequence[str], course: Course, lab: Lab, submission: Submission
) -> None:
    try:
        found = handed_in.read(folder, course, lab)
    except OSError as error:
        submission.said.append(f"{folder.name} cannot be read: {error.strerror}")
        return
    submission.said += [one_line(said) for said in (*found.problems, *found.notes)]
    for slug, text in found.texts.items():
        if len(text.encode("utf-8", "replace")) > ANSWER_BYTES:
            submission.said.append(
                f"{slug} has more than {ANSWER_BYTES >> 10} KiB and was not graded"
            )
        else:
            submission.texts[slug] = text.encode("utf-8", "replace").decode()
            submission.origins[slug] = found.origins[slug]
    if TIMESTAMP in files:
        _clock(folder / TIMESTAMP, submission)


def _clock(path: Path, submission: Submission) -> None:
    """A time of handing in that has not come yet, or is no time."""
    try:
        text = handed_in.read_text(path, 200).strip()
    except handed_in.Unreadable as error:
        submission.said.append(f"{TIMESTAMP} {error}")
        return
    for form in FORMATS:
        try:
            when = datetime.datetime.strptime(text, form).replace(tzinfo=datetime.UTC)
        except ValueError:
            continue
        ahead = (when - datetime.datetime.now(datetime.UTC)).total_seconds()
        if ahead > CLOCK_SECONDS:
            submission.said.append(
                f"handed in at {one_line(text, 40)}, which has not come yet: a clock is wrong"
            )
        return
    submission.said.append(f"{TIMESTAMP} holds no time: {one_line(text, 40)!r}")


def _alike(students: Sequence[str]) -> dict[str, list[str]]:
    """For each id the others that differ only in case, blanks or the form of a letter."""
    groups: dict[str, list[str]] = {}
    for name in students:
        key = "".join(unicodedata.normalize("NFKC", name).casefold().split())
        groups.setdefault(key, []).append(name)
    return {a: [b for b in group if b != a] for group in groups.values() for a in group}
