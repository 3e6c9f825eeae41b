"""What a course's ``nbgrader_config.py`` sets: our stub rule, our way to run a submission."""

import warnings
from pathlib import Path
from typing import Any

from nbgrader.preprocessors import (
    AssignLatePenalties,
    CheckCellMetadata,
    ClearOutput,
    ComputeChecksums,
    IgnorePattern,
    IncludeHeaderFooter,
    LimitOutput,
    LockCells,
    OverwriteCells,
    OverwriteKernelspec,
    SaveAutoGrades,
    SaveCells,
)
from nbgrader.validator import Validator
from sqlalchemy.exc import SAWarning

from flashlab.classroom.course import Course
from flashlab.classroom.late_days import LateDays
from flashlab.classroom.practice import RunChecks
from flashlab.classroom.release import StubCells
from flashlab.classroom.submission import TakeAnswers, complete_submissions

SECONDS = 600  # for one check, several times what it takes; it has limits of its own inside
ONLY_NOTEBOOKS = ["*.py", "kernels", "history", ".flashlab-workspace", "progress.json"]

_init = Validator.__init__


def _validate_apart(self: Validator, *args: Any, **kwargs: Any) -> None:
    """``nbgrader validate`` runs a notebook as autograding does; it has no setting for that."""
    _init(self, *args, **kwargs)
    self.preprocessors = [CheckCellMetadata, ClearOutput, RunChecks]


def configure(c: Any, folder: Path) -> None:
    """Fill nbgrader's settings ``c`` for the course in ``folder``."""
    course = Course.load(folder)
    warnings.filterwarnings("ignore", "Object of type .* not in session", SAWarning)
    complete_submissions(course)
    Validator.__init__ = _validate_apart
    c.CourseDirectory.root = str(course.dir)
    c.CourseDirectory.course_id = course.name
    c.CourseDirectory.ignore = [
        ".ipynb_checkpoints", "*.pyc", "__pycache__", "feedback", *ONLY_NOTEBOOKS,
    ]  # fmt: skip
    c.GenerateAssignment.preprocessors = [
        IncludeHeaderFooter,
        LockCells,
        StubCells,  # in place of ClearSolutions
        ClearOutput,
        CheckCellMetadata,
        ComputeChecksums,
        SaveCells,
        CheckCellMetadata,
    ]
    c.Autograde.sanitize_preprocessors = [
        TakeAnswers,  # in place of DeduplicateIds
        ClearOutput,
        OverwriteKernelspec,
        OverwriteCells,
        CheckCellMetadata,
    ]
    c.Autograde.autograde_preprocessors = [
        RunChecks,  # in place of Execute
        IgnorePattern,
        LimitOutput,
        SaveAutoGrades,
        AssignLatePenalties,
        CheckCellMetadata,
    ]
    c.RunChecks.timeout = SECONDS
    c.RunChecks.extra_arguments = ["--Application.log_level=ERROR"]
    c.AssignLatePenalties.plugin_class = LateDays
    c.LateDays.free_days = course.late.free_days
    c.LateDays.percent_a_day = course.late.percent_a_day
