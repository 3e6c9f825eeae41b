"""Frames between the grader and its workers: a JSON header and raw little-endian arrays.

Nothing here un-pickles. A tensor travels as its whole storage plus shape, strides and offset, so
that a view stays the view it was. Imports torch alone: this file runs beside learners' code too.
"""

import json
import os
import select
import struct
import time
from collections.abc import Sequence
from typing import Any

import torch

MAGIC = b"FLG1"
_HEAD = struct.Struct("<4sIQ")  # magic, header bytes, payload bytes
HEADER_LIMIT = 4 << 20
DTYPES = {
    str(d).removeprefix("torch."): d
    for d in (
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.float64,
        torch.float8_e4m3fn,
        torch.float8_e5m2,
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.uint8,
        torch.bool,
    )
}


class ProtocolError(Exception):
    """Bytes that are no frame: cut short, too long, or not what the header says."""


def frame(header: dict[str, Any], payload: Sequence[bytes] = ()) -> list[bytes]:
    """One frame as chunks of bytes to write in order."""
    head = json.dumps(header).encode()
    return [_HEAD.pack(MAGIC, len(head), sum(map(len, payload))), head, *payload]


def write(fd: int, chunks: Sequence[bytes]) -> None:
    """Write every chunk to a blocking file descriptor."""
    for chunk in chunks:
        view = memoryview(chunk)
        while view:
            view = view[os.write(fd, view[: 1 << 20]) :]


def read(fd: int, limit: int, deadline: float | None = None) -> tuple[dict[str, Any], bytearray]:
    """Read one frame.

    Args:
        fd: File descriptor to read from.
        limit: Most payload bytes to accept.
        deadline: ``time.monotonic()`` at which to give up; None waits for ever.

    Raises:
        ProtocolError: the frame is malformed or larger than ``limit``.
        EOFError: the other side closed before a whole frame came.
        TimeoutError: ``deadline`` passed.
    """
    magic, head_bytes, payload_bytes = _HEAD.unpack(_exactly(fd, _HEAD.size, deadline))
    if magic != MAGIC:
        raise ProtocolError("the reply does not start as a frame")
    if head_bytes > HEADER_LIMIT or payload_bytes > limit:
        raise ProtocolError(f"the reply is larger than {limit} bytes")
    head = bytes(_exactly(fd, head_bytes, deadline))
    payload = _exactly(fd, payload_bytes, deadline)
    try:
        header = json.loads(head)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"the reply's header is not JSON: {error}") from None
    if not isinstance(header, dict):
        raise ProtocolError("the reply's header is not a JSON object")
    return header, payload


def _exactly(fd: int, size: int, deadline: float | None) -> bytearray:
    data = bytearray(size)
    view, got = memoryview(data), 0
    while got < size:
        if deadline is not None:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([fd], [], [], left)[0]:
                raise TimeoutError("no whole reply in time")
        n = os.readv(fd, [view[got:]])
        if n == 0:
            raise EOFError("closed before a whole frame")
        got += n
    return data


def storage_bytes(tensor: torch.Tensor) -> bytes:
    """The bytes of a tensor's whole storage."""
    flat = torch.empty(0, dtype=torch.uint8, device=tensor.device)
    return flat.set_(tensor.untyped_storage()).cpu().numpy().tobytes()


def spec(name: str, tensor: torch.Tensor) -> dict[str, Any]:
    """What ``view`` needs besides the bytes of the storage."""
    return {
        "name": name,
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "shape": list(tensor.shape),
        "strides": list(tensor.stride()),
        "offset": tensor.storage_offset(),
        "nbytes": tensor.untyped_storage().nbytes(),
    }


def views(
    specs: Sequence[dict[str, Any]], payload: bytearray, device: str = "cpu"
) -> dict[str, torch.Tensor]:
    """Tensors by name from their specs and the storages that follow one another in ``payload``.

    Raises:
        ProtocolError: a spec is no tensor inside its bytes.
    """
    made, at = {}, 0
    for one in specs:
        try:
            size = int(one["nbytes"])
            if size < 0 or at + size > len(payload):
                raise ProtocolError(f"array {one['name']!r} reaches past the reply")
            raw = torch.empty(size, dtype=torch.uint8)
            if size:
                raw.copy_(torch.frombuffer(payload, dtype=torch.uint8, count=size, offset=at))
            flat = raw.to(device).view(DTYPES[one["dtype"]])
            made[str(one["name"])] = flat.as_strided(one["shape"], one["strides"], one["offset"])
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise ProtocolError(f"an array's description is wrong: {error}") from None
        at += size
    if at != len(payload):
        raise ProtocolError(f"{len(payload) - at} bytes that no array owns")
    return made
