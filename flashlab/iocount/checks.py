"""The rules of memory that every access is held to, and the words when one is broken."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from flashlab.iocount.argument import Argument
from flashlab.iocount.errors import OutOfBounds, RaceError, UninitialisedRead
from flashlab.iocount.shadow import Key

if TYPE_CHECKING:
    from flashlab.iocount.recorder import Recorder

Where = tuple[str, int]
_WRAP = 1 << 32


def as_indices(key: Key) -> np.ndarray:
    """A slice as the indices it stands for."""
    return np.arange(key.start, key.stop) if isinstance(key, slice) else key


def own_elements(elements: Key, item: int, own: int) -> np.ndarray:
    """Elements of ``item`` bytes as elements of the argument's own size (a pointer was cast)."""
    at = as_indices(elements) * item
    if item < own:
        return np.unique(at // own)
    return (at[:, None] // own + np.arange(item // own)).ravel()


def out_of_bounds(
    rec: Recorder,
    kind: str,
    arg: Argument,
    offset: np.ndarray,
    item: int,
    shape: tuple[int, ...],
    mask: np.ndarray,
    where: Where,
) -> OutOfBounds:
    """The error for byte offsets of which some leave the argument."""
    bad = (offset < 0) | (offset + item > arg.span)
    lane = np.flatnonzero(mask.ravel())[np.flatnonzero(bad)[0]]
    lane = [int(i) for i in np.unravel_index(lane, shape)]
    low, high = int(offset.min()), int(offset.max()) + item - arg.span
    far = []
    if high > 0:
        far.append(f"up to {_elements(high, arg.item)} ({high:,d} bytes) past the end")
    if low < 0:
        far.append(f"up to {_elements(-low, arg.item)} ({-low:,d} bytes) before the start")
    what = (
        f"tl.{kind} of argument '{arg.name}' goes out of bounds: {int(bad.sum())} of "
        f"{offset.size} active lanes, {' and '.join(far)} (first bad lane {lane} of a "
        f"{list(shape)} tile; '{arg.name}' has shape {arg.shape}, strides {arg.strides})"
    )
    return rec.error(
        OutOfBounds,
        what,
        _cause(arg, offset[bad]),
        where,
        argument=arg.name,
        lanes=int(bad.sum()),
    )


def _elements(n_bytes: int, item: int) -> str:
    n = -(-n_bytes // item)
    return f"{n:,d} element{'s' if n != 1 else ''}"


def _cause(arg: Argument, bad: np.ndarray) -> str:
    """The usual reason for such offsets."""
    if arg.span == 0:
        return "The tensor is empty: return before the launch, or mask every lane"
    elements = bad // arg.item
    far = np.abs(elements).max() >= 1 << 30
    if (
        far
        and (((elements % _WRAP) * arg.item) < max(arg.span, 1)).all()
        or bad.min() <= -(1 << 31)
    ):
        return "An int32 offset overflowed: make the program id or stride int64 first"
    if bad.min() < 0:
        return "Is a row or tile index negative, or a stride wrong?"
    if elements.min() >= 4 * max(1, arg.elements):
        return "Is a stride wrong, or an offset added to the wrong pointer?"
    return "Is a mask missing?"


def in_padding(
    rec: Recorder, kind: str, arg: Argument, own: Key, bad: np.ndarray, where: Where
) -> OutOfBounds:
    """The error for elements that lie between the rows of a strided view."""
    first = arg.index(int(as_indices(own)[bad][0]))
    what = (
        f"tl.{kind} of argument '{arg.name}' goes out of bounds: {int(bad.sum())} of {bad.size} "
        f"active lanes fall in the padding between rows of the tensor (shape {arg.shape}, strides "
        f"{arg.strides}), first at {first}"
    )
    hint = "A mask is missing, or a stride is wrong"
    return rec.error(OutOfBounds, what, hint, where, argument=arg.name, lanes=int(bad.sum()))


def shadow(rec: Recorder, kind: str, arg: Argument, own: Key, where: Where) -> None:
    """Uninitialised reads and races; then remember this access."""
    units = _units(arg, own)
    if kind != "load":
        arg.shadow.stored = True
    written = arg.shadow.storage.written
    if written is not None:
        at = written.locate(units)
        if kind != "store":
            fine = written["written"][at]
            if not fine.all():
                _uninitialised(rec, kind, arg, own, fine, where)
        if kind != "load":
            written["written"][at] = True
    if rec.races:
        at = arg.shadow.maps.locate(units)
        if kind == "load":
            _read(rec, arg, own, at, where)
        else:
            _write(rec, kind, arg, own, at, where)


def _units(arg: Argument, own: Key) -> Key:
    """Elements of the argument -> units of its storage."""
    if arg.wide == 1:
        if isinstance(own, slice):
            return slice(own.start + arg.base, own.stop + arg.base)
        return own + arg.base if arg.base else own
    if isinstance(own, slice):
        return slice(own.start * arg.wide + arg.base, own.stop * arg.wide + arg.base)
    return (own[:, None] * arg.wide + arg.base + np.arange(arg.wide)).ravel()


def _uninitialised(
    rec: Recorder, kind: str, arg: Argument, own: Key, fine: np.ndarray, where: Where
) -> None:
    at = np.flatnonzero(~fine) // arg.wide
    n = np.unique(at).size
    what = (
        f"tl.{kind} of argument '{arg.name}' reads {n} element{'s' if n != 1 else ''} that "
        f"nothing has written yet (first at {arg.index(int(as_indices(own)[at[0]]))})"
    )
    hint = "Memory from torch.empty holds anything: store it first, or start from torch.zeros"
    rec.report(rec.error(UninitialisedRead, what, hint, where, argument=arg.name, lanes=n))


def _read(rec: Recorder, arg: Argument, own: Key, at: Key, where: Where) -> None:
    me, maps = rec.label, arg.shadow.maps
    if arg.shadow.stored:
        writer = maps["writer"][at]
        other = (writer != 0) & (np.abs(writer) != me)
        if other.any():
            _race(rec, "reads", "wrote", arg, own, other, writer, where)
    reader = maps["reader"]
    if isinstance(at, slice):
        part = reader[at]
        part[part == 0] = me
    else:
        part = reader[at]
        reader[at] = np.where(part == 0, me, part)


def _write(rec: Recorder, kind: str, arg: Argument, own: Key, at: Key, where: Where) -> None:
    me, maps = rec.label, arg.shadow.maps
    writer, reader = maps["writer"][at], maps["reader"][at]
    verb = "writes" if kind == "store" else "updates"
    other = (writer != 0) & (np.abs(writer) != me)
    if kind == "atomic":
        other &= writer > 0
    early = (reader != 0) & (reader != me)
    if other.any():
        _race(rec, verb, "wrote", arg, own, other, writer, where)
    elif early.any():
        _race(rec, verb, "read", arg, own, early, reader, where)
    if kind == "store":
        maps["writer"][at] = me
        if not isinstance(at, slice) and at.size > 1:
            _lanes(rec, arg, own, at, where)
    else:
        maps["writer"][at] = np.where(writer > 0, writer, -me)


def _race(
    rec: Recorder,
    verb: str,
    past: str,
    arg: Argument,
    own: Key,
    bad: np.ndarray,
    who,
    where: Where,
) -> None:
    i = int(np.flatnonzero(bad)[0])
    other = rec.pids[abs(int(who[i]))]
    n = -(-int(bad.sum()) // arg.wide)
    what = (
        f"{verb} {n} element{'s' if n != 1 else ''} of argument '{arg.name}' (first at "
        f"{arg.index(int(as_indices(own)[i // arg.wide]))}) that program {other} {past}"
    )
    if verb == "writes" and past == "wrote":
        hint = "Programs run in no fixed order: let one own each element, or use tl.atomic_add"
    elif verb == "reads":
        hint = "Programs run in no fixed order: make two launches, or let one program do both"
    else:
        hint = "Programs run in no fixed order: write to another tensor than the one being read"
    rec.report(rec.error(RaceError, what, hint, where, argument=arg.name, lanes=n))


def _lanes(rec: Recorder, arg: Argument, own: Key, at: np.ndarray, where: Where) -> None:
    """Two lanes of one store at one address."""
    lane, mine = arg.shadow.maps["lane"], np.arange(at.size, dtype=np.int32)
    lane[at] = mine
    twice = lane[at] != mine
    if twice.any():
        n = -(-int(twice.sum()) // arg.wide)
        first = arg.index(int(as_indices(own)[int(np.flatnonzero(twice)[0]) // arg.wide]))
        what = (
            f"{n} lane{'s' if n != 1 else ''} of one tl.store write an element of argument "
            f"'{arg.name}' (first at {first}) that another lane writes too"
        )
        hint = (
            "Which value stays is left to chance: reduce the tile first, or mask all lanes but one"
        )
        rec.report(rec.error(RaceError, what, hint, where, argument=arg.name, lanes=n))
