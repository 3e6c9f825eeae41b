"""What went wrong among ranks, with the line that did it."""

from collections.abc import Sequence
from typing import Any

Frames = Sequence[tuple[str, int, str]]  # file, line, its text; the innermost one first


class RankError(Exception):
    """A rank failed, died, or nothing moves any more.

    Args:
        kind: ``"crash"``, ``"timeout"`` or ``"oom"``, or the ``kind`` of what a rank raised.
        message: What happened on which rank; a sentence.
        rank: The rank that is to blame, or the first that waits.
        at: (line of the file that ``run`` was told to name, its text); None where there is none.
        extra: What ``work`` hung on its exception as ``extra``.
    """

    def __init__(
        self,
        kind: str,
        message: str,
        rank: int = 0,
        at: tuple[int, str] | None = None,
        extra: Any = None,
    ) -> None:
        super().__init__(message)
        self.kind, self.rank, self.extra = kind, rank, extra
        self.line, self.source = at or (0, "")
