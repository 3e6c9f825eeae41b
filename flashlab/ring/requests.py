"""Notes every message that this process starts, and whether anybody waits for it."""

import sys
from collections.abc import Callable
from typing import Any

import torch.distributed as dist


class Requests:
    """Messages that were started on gloo since it was made: isend, irecv, batch_isend_irecv.

    Args:
        filename: The file whose lines are named.
    """

    def __init__(self, filename: str) -> None:
        self.filename = filename
        self.started: dict[int, tuple[Any, int]] = {}  # the request is kept: its id stays its own
        self.bytes = dict.fromkeys(("send", "recv"), 0)  # of messages started
        for name in ("send", "recv"):
            setattr(
                dist.ProcessGroup, name, self._starting(name, getattr(dist.ProcessGroup, name))
            )
        dist.Work.wait = self._waiting(dist.Work.wait)

    def forgotten(self) -> str:
        """A sentence on messages that were never waited for; empty if there is none."""
        if not self.started:
            return ""
        count, line = len(self.started), min(line for _, line in self.started.values())
        many = f"{count} messages were" if count > 1 else "a message was"
        where = f", the first at line {line}" if line else ""
        return (
            f"{many} started and never waited for{where}: what is received may be used before it "
            "is there; call wait() on every request"
        )

    def _starting(self, name: str, start: Callable) -> Callable:
        def started(group: Any, tensors: Any, peer: int, *args: Any, **kwargs: Any) -> Any:
            if not 0 <= peer < group.size():  # which crashes the process
                raise ValueError(f"there is no rank {peer} in a group of {group.size()} ranks")
            request = start(group, tensors, peer, *args, **kwargs)
            self.started[id(request)] = request, self._line()
            self.bytes[name] += sum(tensor.nbytes for tensor in tensors)
            return request

        return started

    def _waiting(self, wait: Callable) -> Callable:
        def waited(request: Any, *args: Any, **kwargs: Any) -> Any:
            found = self.started.pop(id(request), None)
            result = wait(request, *args, **kwargs)
            del found  # not before the wait is over
            return result

        return waited

    def _line(self) -> int:
        frame = sys._getframe(2)
        while frame is not None and frame.f_code.co_filename != self.filename:
            frame = frame.f_back
        return frame.f_lineno if frame else 0
