"""What running a ``%%fill`` cell does to a learner's file: a table, as a function. Floor: core."""

import difflib
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

MAGIC = "%%fill"
_FIRST_LINE = re.compile(r"\s*%%fill[ \t]([^\n#]*)[^\n]*(?:\n|\Z)")


@dataclass(frozen=True)
class FillResult:
    """What happened to one cell.

    Args:
        action: ``"loaded"`` (cell and file agree), ``"kept"`` (a stub cell beside a filled file),
            ``"older"`` (the cell holds a text of the past), ``"saved"``, ``"newer"`` (the file
            was edited, the cell was not) or ``"conflict"`` (both were).
        text: The text that counts now.
        message: One or two sentences for the learner.
        path: The file that ``text`` lies in; None where there is only the stub.
        diff: From file to cell, where they differ and nothing was written; else empty.
    """

    action: str
    text: str
    message: str
    path: Path | None
    diff: str = ""


def decide(
    cell: str,
    file: str | None,
    last_saved: str | None,
    stubs: Collection[str],
    in_history: Callable[[str], bool],
) -> str:
    """The action for a cell and a file; the first row of the table that matches wins.

    Args:
        cell, file, last_saved: Text hashes; None where there is no file or nothing was saved.
        stubs: Hashes of the released stubs.
        in_history: Whether the text with a hash was kept.
    """
    filled = file is not None and file not in stubs
    if cell == file:
        return "loaded"
    if cell in stubs and filled:
        return "kept"
    if cell != last_saved and in_history(cell):
        return "older"
    if not filled or file == last_saved:
        return "saved"
    if cell == last_saved:
        return "newer"
    return "conflict"


def message(action: str, slug: str, file: str, when: str = "") -> str:
    """The sentence for an action that wrote nothing or simply saved.

    Args:
        file: The answer's file, as shown to the learner.
        when: When an older text was kept.
    """
    pull, force = f"`%fill --pull {slug}`", f"`{MAGIC} {slug} --force`"
    return {
        "loaded": f"{file} holds this text already: loaded.",
        "kept": f"This cell holds the untouched stub, {file} holds your work: the file is loaded, "
        f"nothing was written. {pull} puts its text into a cell.",
        "older": f"This cell holds an older text of yours (kept {when}): nothing was written, "
        f"{file} counts. {pull} puts its text into a cell; {force} writes this one.",
        "saved": f"Saved to {file}.",
        "newer": f"{file} was edited after this cell was saved: the file is loaded, nothing was "
        f"written. {pull} puts its text into a cell; {force} writes this one.",
        "conflict": f"This cell and {file} both changed since they last agreed: nothing was "
        f"written. {pull} takes the file's text, {force} takes the cell's; "
        "the other one stays in the history. From file (-) to cell (+):",
    }[action]


def difference(file_text: str, cell_text: str, file: str) -> str:
    """A unified diff from file to cell."""
    rows = difflib.unified_diff(
        file_text.splitlines(), cell_text.splitlines(), file, "this cell", lineterm=""
    )
    return "\n".join(rows)


def cell_source(slug: str, text: str) -> str:
    """The cell that holds an answer: its text below the magic's line."""
    return f"{MAGIC} {slug}\n{text.rstrip(chr(10))}"


def split_cell(source: str) -> tuple[str, str] | None:
    """Slug and text of a ``%%fill`` cell, or None for any other cell."""
    found = _FIRST_LINE.match(source)
    slugs = [word for word in found[1].split() if word[0] != "-"] if found else []
    return (slugs[0], source[found.end() :]) if found and len(slugs) == 1 else None
