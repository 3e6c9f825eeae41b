"""All claims, from the files of the chapters."""

import functools
import importlib
import re
from pathlib import Path

from flashlab.claims.claim import Claim

_FILE = re.compile(r"ch(\d\d)")


@functools.cache
def chapters() -> tuple[str, ...]:
    """The chapters that are held to their claims, such as ``("04",)``."""
    stems = (path.stem for path in Path(__file__).parent.glob("ch*.py"))
    return tuple(sorted(match[1] for match in map(_FILE.fullmatch, stems) if match))


@functools.cache
def every() -> tuple[Claim, ...]:
    """Every claim, each once; one that several chapters show stands in the file of one of them."""
    files = (importlib.import_module(f"flashlab.claims.ch{chapter}") for chapter in chapters())
    return tuple(claim for file in files for claim in file.CLAIMS)


def of(chapter: str) -> tuple[Claim, ...]:
    """The claims that a chapter shows, from whichever file."""
    return tuple(claim for claim in every() if chapter in claim.chapters)
