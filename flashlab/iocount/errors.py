"""What is told when a kernel breaks a rule: errors that know argument, program and line."""

import linecache
import os
from typing import Any

Program = tuple[int, int, int]


class KernelError(Exception):
    """A kernel did something that a GPU would not forgive.

    ``str(error)`` is a short paragraph: program, what happened, the usual cause, the source line.

    Args:
        what: What happened, without the program and without a final full stop.
        hint: The usual cause and what to do, or "".
        argument: Name of the kernel argument concerned.
        program: Program id (x, y, z) in which it happened.
        filename, line, source: Where: file, line number, text of that line.
        lanes: Number of lanes (elements of the tile) concerned.
        kind: Overrides the class's kind, such as ``"crash"`` or ``"compile"``.
        kernel: Name of the kernel.
    """

    kind = "crash"

    def __init__(
        self,
        what: str,
        hint: str = "",
        *,
        argument: str | None = None,
        program: Program | None = None,
        filename: str | None = None,
        line: int | None = None,
        source: str | None = None,
        lanes: int | None = None,
        kind: str | None = None,
        kernel: str | None = None,
    ) -> None:
        self.what, self.hint = what, hint
        self.argument, self.program, self.lanes, self.kernel = argument, program, lanes, kernel
        self.filename, self.line = filename, line
        if source is None and filename and line:
            source = linecache.getline(filename, line)
        self.source = (source or "").strip()
        if kind is not None:
            self.kind = kind
        super().__init__(self._sentence())

    def _sentence(self) -> str:
        alike = self.program is None or self.kind == "compile"  # refused in every program
        start = "" if alike else f"program {self.program}: "
        text = start + self.what
        if self.hint:
            text += f". {self.hint}" if text[-1] not in ".!?" else f" {self.hint}"
        return text + (f"\n  at {self.where}" if self.line else "")

    @property
    def where(self) -> str:
        """``line 31: "k = tl.load(...)"``, or "" where no line is known."""
        return f'line {self.line}: "{self.source}"' if self.line else ""

    def to_json(self) -> dict[str, Any]:
        """Everything that the error knows, as plain JSON values."""
        return {
            "kind": self.kind,
            "what": self.what,
            "hint": self.hint,
            "argument": self.argument,
            "program": list(self.program) if self.program is not None else None,
            "filename": self.filename,
            "line": self.line,
            "source": self.source,
            "lanes": self.lanes,
            "kernel": self.kernel,
            "message": str(self),
        }

    def _render_traceback_(self) -> list[str]:
        """Jupyter shows these lines in place of a traceback through the interpreter."""
        lines = [f"{type(self).__name__}: {str(self).splitlines()[0]}"]
        if self.line:
            kernel = f" in kernel {self.kernel}" if self.kernel else ""
            lines += ["", f"{os.path.basename(self.filename or '?')}{kernel}, line {self.line}:"]
            lines += _excerpt(self.filename, self.line, self.source)
        return lines


def _excerpt(filename: str | None, line: int, source: str) -> list[str]:
    """Two lines round the one at fault, which carries an arrow."""
    rows = []
    for n in range(max(1, line - 2), line + 3):
        text = linecache.getline(filename or "", n).rstrip("\n")
        if n == line and text.strip() != source:
            text = source  # the file changed since the kernel was made
        if text or n == line:
            rows.append(f"{'---->' if n == line else '     '} {n:4d} {text}")
    return rows


class OutOfBounds(KernelError):
    """An address outside its tensor; raised before memory is touched."""

    kind = "oob"


class RaceError(KernelError):
    """Two programs, or two lanes of one store, use an element in an order that no GPU promises."""

    kind = "race"


class UninitialisedRead(KernelError):
    """A read of an output or scratch element that nothing has written yet."""

    kind = "uninitialised"


class UnwrittenOutput(KernelError):
    """An output of which some elements were never stored."""

    kind = "uninitialised"


class MissingOther(KernelError):
    """A masked load without ``other`` whose fill, anything on a GPU, reached a result."""

    kind = "uninitialised"
