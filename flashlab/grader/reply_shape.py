"""Whether a worker's header has the types that the grader reads. Trusted side. Floor: course.

A worker can be made to send anything. What is not of this shape counts as no reply, so that no
answer can stop the grader by what it sends.
"""

from collections.abc import Callable, Mapping
from typing import Any

MOST = 1 << 62  # of a number
Check = Callable[[Any], bool]


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _number(value: Any) -> bool:
    return isinstance(value, int) and abs(value) < MOST


def _real(value: Any) -> bool:
    return isinstance(value, int | float) and abs(value) < MOST


def _any(value: Any) -> bool:
    return True


def _many(one: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(one, value))


def _names(one: Check) -> Check:
    return lambda value: isinstance(value, dict) and all(map(one, value.values()))


def _row(*parts: Check) -> Check:
    def fits(value: Any) -> bool:
        long = isinstance(value, list) and len(value) == len(parts)
        return long and all(part(item) for part, item in zip(parts, value, strict=True))

    return fits


def _fields(known: Mapping[str, Check]) -> Check:
    """A dictionary; fields that it has must fit, further ones are not read."""
    return lambda value: (
        isinstance(value, dict)
        and all(check(value[name]) for name, check in known.items() if name in value)
    )


def _maybe(one: Check) -> Check:
    return lambda value: value is None or one(value)


_ITEM = {"type": _text, "dtype": _text, "shape": _many(_number), "device": _text,
         "array": _number, "subclass": _number}  # fmt: skip
_LAUNCH = {"kernel": _text, "tiles": _names(_number), "grid": _any, "described": _fields({}),
           "undescribed": _text}  # fmt: skip
_ERROR = {"types": _many(_text), "message": _text, "line": _any, "source": _text,
          "traceback": _text, "kind": _text, "argument": _text, "code": _text}  # fmt: skip
_RETURNED = {"type": _text, "count": _number, "items": _many(_fields(_ITEM))}
_NOTE = {"rule": _text, "what": _text, "line": _number, "op": _text, "nbytes": _number}
SHAPE = {
    "error": _fields(_ERROR),
    "breaches": _many(_fields(_NOTE)),
    "copies": _many(_fields(_NOTE)),
    "shapes": _names(_number),
    "launches": _many(_fields(_LAUNCH)),
    "returned": _fields(_RETURNED),
    "io": _names(_row(_number, _number)),
    "unwritten": _names(_row(_number, _maybe(_many(_number)))),
    "lines": _many(_row(_number, _text, _number)),
    "same": _many(_number),
    "modified": _many(_text),
    "phase": _text,
    "seconds": _real,
}


def fault(header: Mapping[str, Any]) -> str:
    """What has the wrong type, in a few words; empty if nothing has."""
    return next((f"its {name!r} is not what a worker sends" for name, check in SHAPE.items()
                 if name in header and not check(header[name])), "")  # fmt: skip
