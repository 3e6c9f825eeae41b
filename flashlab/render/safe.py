"""Makes text that a learner's code chose harmless to show. Floor: front."""

import re

_ESCAPES = re.compile(
    r"\x1b\][^\x07\x1b]*(\x07|\x1b\\)?"  # operating system commands, such as a window's title
    r"|\x1b[@-Z\\-_]?\[?[0-?]*[ -/]*[@-~]?"  # control sequences, such as colours
    r"|\x9b[0-?]*[ -/]*[@-~]"
)
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def plain(text: object, limit: int = 4000) -> str:
    """``text`` without terminal escapes, control characters and direction overrides.

    Args:
        text: Anything; ``str`` of it is shown.
        limit: Longest result; the middle of a longer one is cut out.
    """
    clean = _CONTROL.sub("", _ESCAPES.sub("", str(text)).replace("\r\n", "\n"))
    if len(clean) <= limit:
        return clean
    half, cut = limit // 2, len(clean) - limit
    return f"{clean[:half]}\n... {cut} characters cut ...\n{clean[-half:]}"


def one_line(text: object, limit: int = 400) -> str:
    """``plain`` text on a single line."""
    return " ".join(plain(text, limit).split())
