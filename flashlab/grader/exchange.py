"""One run over a lane: what goes to a worker, and what comes back. Trusted side."""

import os
import socket
import tempfile
import time
from dataclasses import dataclass, field
from typing import Any

import torch

from flashlab import system
from flashlab.grader import protocol, reply_shape

START_SECONDS = 60.0
GRACE_SECONDS = 3.0
PRINTED_LIMIT = 64 << 10


@dataclass(frozen=True)
class Limits:
    """What one run may use. Defaults are those of a course check."""

    cpu_seconds: int = 5
    wall_seconds: float = 10.0
    memory_bytes: int = 1 << 30


@dataclass
class Job:
    """A request and the tensors whose storages follow it (see ``worker.Run``)."""

    request: dict[str, Any]
    tensors: dict[str, torch.Tensor]
    limits: Limits = Limits()
    tag: Any = None


@dataclass
class Reply:
    """What came back: the worker's header and arrays (None if it sent no whole frame), its end."""

    header: dict[str, Any] | None
    arrays: dict[str, torch.Tensor] = field(default_factory=dict)
    problem: str = ""  # what is wrong with the bytes that came, if any came
    how: str = "lost"  # exit, signal, wall, memory, processes, or lost (the server was killed)
    code: int = 0
    cpu_seconds: float = 0.0
    seconds: float = 0.0
    peak_bytes: int = 0
    printed: str = ""


def hand_over(other: socket.socket, word: bytes, *fds: int) -> None:
    """Send descriptors, which may be closed afterwards.

    macOS can lose what is closed before it is received, so there the receiver answers.
    """
    socket.send_fds(other, [word], fds)
    if not system.LINUX:
        other.settimeout(START_SECONDS)
        other.recv(1)
        other.settimeout(None)


def exchange(lane: socket.socket, job: Job) -> Reply:
    """Send a job down a lane and collect the reply, the printed text and the worker's end."""
    limits = job.limits
    specs = [protocol.spec(name, t) for name, t in job.tensors.items()]
    request = {**job.request, "tensors": specs, "limits": vars(limits)}
    payload = [protocol.storage_bytes(t) for t in job.tensors.values()]
    reply_r, reply_w = os.pipe()
    reply = Reply(None)
    with tempfile.TemporaryFile() as printed, os.fdopen(reply_r, "rb", 0) as source:
        try:
            hand_over(lane, b"R", reply_w, printed.fileno())
            os.close(reply_w)
            reply_w = -1
            lane.settimeout(START_SECONDS)
            for chunk in protocol.frame(request, payload):
                lane.sendall(chunk)
            lane.settimeout(None)
            deadline = time.monotonic() + START_SECONDS + limits.wall_seconds + GRACE_SECONDS
            _receive(source.fileno(), job, reply, deadline)
            ended, _ = protocol.read(lane.fileno(), 0, deadline)
            for name in ("how", "code", "cpu_seconds", "seconds", "peak_bytes"):
                setattr(reply, name, ended[name])
            if reply.header is not None and source.read(1):
                reply.problem, reply.header = "bytes behind the reply", None
        except (OSError, EOFError, ValueError, protocol.ProtocolError):
            reply.how = "lost"
        finally:
            if reply_w >= 0:
                os.close(reply_w)
        reply.printed = _printed(printed.fileno())
    return reply


def _receive(source: int, job: Job, reply: Reply, deadline: float) -> None:
    limit = int(job.request["reply_limit"])
    try:
        header, payload = protocol.read(source, limit, deadline)
        reply.problem = reply_shape.fault(header)
        if not reply.problem:
            reply.arrays = protocol.views(header["arrays"], payload)
            reply.header = header
    except EOFError:
        pass  # how the worker ended says why
    except (protocol.ProtocolError, KeyError, TypeError) as error:
        reply.problem = str(error)


def _printed(fd: int) -> str:
    size = min(os.fstat(fd).st_size, PRINTED_LIMIT)
    text = os.pread(fd, size, 0).decode("utf-8", "replace")
    return "".join(c for c in text if c in "\n\t" or c.isprintable())
