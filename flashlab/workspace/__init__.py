"""A learner's work on disk: answers, history, progress. Floor: core."""

from flashlab.workspace.files import WorkspaceError
from flashlab.workspace.fill import FillResult, cell_source, split_cell
from flashlab.workspace.history import HistoryEntry
from flashlab.workspace.home import Answer, Workspace
from flashlab.workspace.place import MARKER

__all__ = [
    "MARKER",
    "Answer",
    "FillResult",
    "HistoryEntry",
    "Workspace",
    "WorkspaceError",
    "cell_source",
    "split_cell",
]
