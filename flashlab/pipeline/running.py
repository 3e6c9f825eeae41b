"""A program under way, and what it may yield."""

from collections.abc import Generator, Sequence
from typing import Any

from flashlab.pipeline.consumer import State
from flashlab.pipeline.errors import PipelineError
from flashlab.pipeline.phases import Known
from flashlab.pipeline.sm import Op


class Running:
    """One program under way."""

    def __init__(self, name: str, w: int, body: Any) -> None:
        self.name, self.w, self.body = name, w, body
        self.known: Known = {}
        self.state = State(name)
        self.op: Op | None = None  # what it waits in
        self.since, self.steps = 0.0, 0

    @property
    def who(self) -> str:
        """How spans call it."""
        return str(self.w) if self.w >= 0 else "producer"

    @property
    def line(self) -> tuple[str, int]:
        """Where it stands: the yield of the innermost generator."""
        body = self.body
        while isinstance(body.gi_yieldfrom, Generator):
            body = body.gi_yieldfrom
        return body.gi_code.co_filename, body.gi_frame.f_lineno

    def take(self, value: Any, made: Sequence[Op]) -> Op:
        """The operation that it yielded, the only one that it made since the last.

        Raises:
            PipelineError: it is none, an old one, or another one was made and not yielded.
        """
        self.check_end([op for op in made if op is not value])
        if not isinstance(value, Op):
            what = f"{value!r}; expected an operation such as sm.wait(...)"
        elif not made:
            what = f"{value} a second time: make a new one"
        else:
            return value
        raise PipelineError("contract", f"{self.name} yielded {what}", self.line)

    def check_end(self, made: Sequence[Op]) -> None:
        """Nothing may be left that was made and not yielded.

        Raises:
            PipelineError: something is.
        """
        for op in made:
            raise PipelineError(
                "contract",
                f"{op} is made and not yielded, so it does nothing: write yield {op}",
                op.where,
            )
