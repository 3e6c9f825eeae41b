"""What is wrong with a schedule, with the line that did it."""

import linecache


class PipelineError(Exception):
    """A schedule that is not safe, does not end, or is not written as agreed.

    Args:
        kind: ``"race"``, ``"uninitialised"``, ``"timeout"``, ``"wrong"`` or ``"contract"``.
        message: What happened and what to do; a sentence or two.
        where: (file, line) of the operation; None where no single line is to blame.
    """

    def __init__(self, kind: str, message: str, where: tuple[str, int] | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.line = where[1] if where else 0
        self.source = linecache.getline(*where).strip() if where else ""
