"""The names in folders that somebody else filled: no links, no more than a limit. Floor: front."""

import os
import stat
from pathlib import Path

ENTRIES = 10_000  # of one folder


class NoFolder(Exception):
    """One sentence on a folder that was not read."""


def names(folder: Path) -> list[str]:
    """The names in a real folder, sorted; hidden ones are left out.

    Raises:
        NoFolder: there is none, it is a link, or it holds too much.
    """
    try:
        if not stat.S_ISDIR(os.lstat(folder).st_mode):
            raise NoFolder(f"{folder.name} is no folder of its own (links are not followed)")
        found = sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except OSError as error:
        raise NoFolder(f"{folder.name} cannot be read: {error.strerror}") from None
    if len(found) > ENTRIES:
        raise NoFolder(f"{folder.name} holds {len(found):,} entries, {ENTRIES:,} at most are read")
    return found
