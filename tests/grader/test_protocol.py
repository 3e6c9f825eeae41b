"""Frames: what goes in comes out; anything else is refused without being run."""

import os
import struct
import threading
import time

import pytest
import torch

from flashlab.grader import protocol, reply_shape


def _through_pipe(chunks: list[bytes], limit: int = 1 << 20) -> tuple[dict, bytearray]:
    read, write = os.pipe()
    writer = threading.Thread(target=lambda: (protocol.write(write, chunks), os.close(write)))
    writer.start()
    try:
        return protocol.read(read, limit)
    finally:
        writer.join()
        os.close(read)


@pytest.mark.parametrize("name", protocol.DTYPES)
def test_tensors_survive(name: str) -> None:
    dtype = protocol.DTYPES[name]
    base = torch.arange(24).reshape(2, 3, 4).to(torch.float32).to(dtype)
    for view in (base, base.transpose(0, 2), base[:, 1:, ::2], base[:1].expand(3, 3, 4), base[:0]):
        header = {"arrays": [protocol.spec("x", view)]}
        header, payload = _through_pipe(protocol.frame(header, [protocol.storage_bytes(view)]))
        [(key, got)] = protocol.views(header["arrays"], payload).items()
        assert key == "x"
        assert got.stride() == view.stride()
        assert got.storage_offset() == view.storage_offset()
        assert torch.equal(got.to(torch.float32), view.to(torch.float32))


@pytest.mark.parametrize(
    "data",
    [
        b"x" * 64,
        struct.pack("<4sIQ", b"FLG1", 2, 1 << 60) + b"{}",
        struct.pack("<4sIQ", b"FLG1", 1 << 30, 0) + b"{}",
        struct.pack("<4sIQ", b"FLG1", 2, 0) + b"[]",
        struct.pack("<4sIQ", b"FLG1", 3, 0) + b"\x80\x04.",
        struct.pack("<4sIQ", b"FLG1", 500_000, 0) + b'{"a":' * 100_000,
    ],
    ids=["no-frame", "payload-too-large", "header-too-large", "no-object", "pickle", "nested"],
)
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(protocol.ProtocolError):
        _through_pipe([data])


def test_a_cut_frame_is_an_end() -> None:
    with pytest.raises(EOFError):
        _through_pipe([b"".join(protocol.frame({"a": 1}, [b"12345678"]))[:-3]])


@pytest.mark.parametrize(
    "change",
    [
        {"shape": [9]},
        {"strides": [1 << 40]},
        {"offset": -1},
        {"dtype": "object"},
        {"nbytes": 1 << 40},
        {"nbytes": -1},
        {"shape": "x"},
    ],
    ids=str,
)
def test_a_false_description_is_refused(change: dict) -> None:
    good = protocol.spec("x", torch.zeros(4))
    with pytest.raises(protocol.ProtocolError):
        protocol.views([{**good, **change}], bytearray(16))


def test_bytes_that_no_array_owns_are_refused() -> None:
    with pytest.raises(protocol.ProtocolError):
        protocol.views([protocol.spec("x", torch.zeros(4))], bytearray(20))


def test_a_silent_pipe_runs_into_the_deadline() -> None:
    read, write = os.pipe()
    with pytest.raises(TimeoutError):
        protocol.read(read, 10, time.monotonic() + 0.05)
    os.close(read)
    os.close(write)


GOOD = {
    "run": 1,
    "arrays": [],
    "returned": {"type": "Tensor", "count": 1, "items": [{"type": "Tensor", "array": 0}]},
    "io": {"x": [8, 0]},
    "launches": [{"kernel": "k", "tiles": {"BLOCK": 16}, "grid": [1], "described": {}}],
    "copies": [{"op": "clone", "line": 3, "nbytes": 8}],
    "breaches": [],
    "unwritten": {"#0": [2, [0, 1]], "#1": [1, None]},
    "lines": [[3, "x", 8]],
    "same": [True],
    "modified": ["x"],
    "seconds": 0.5,
    "error": {"types": ["ValueError"], "message": "no", "line": 4},
}


def test_a_header_is_read_only_in_its_shape() -> None:
    assert reply_shape.fault(GOOD) == reply_shape.fault({}) == ""
    wrong = {
        "returned": {"items": [5]},
        "io": {"x": [float("nan"), 1]},
        "launches": [{"tiles": {"BLOCK": "16"}}],
        "copies": [{"line": 1 << 80}],
        "breaches": 9,
        "unwritten": {"#0": [2, [0], 3]},
        "lines": [[3, "x"]],
        "same": "yes",
        "modified": {"x": 1},
        "seconds": float("inf"),
        "error": {"types": "ValueError"},
    }
    for name, value in wrong.items():
        assert repr(name) in reply_shape.fault(GOOD | {name: value})
