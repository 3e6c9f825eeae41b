"""One claim as data."""

from dataclasses import dataclass

LIVE = ("computed", "counted", "measured", "simulated")  # shown by a code cell's output
TOLD = ("cited", "explained")  # others measured or proved it: a Markdown cell may show it


@dataclass(frozen=True)
class Value:
    """A number that the claim names; where it is shown it stands right before its unit.

    Args:
        number: What is claimed.
        unit: The words after it, such as ``"MB"`` or ``"x less"``.
        tolerance: Share of the number by which what is shown may differ: how the claim rounds.
        margin: The same in the number's own unit; for a claimed 0.
        chapter: The one chapter that shows it; empty is every chapter of the claim.
    """

    number: float
    unit: str
    tolerance: float = 0.0
    margin: float = 0.0
    chapter: str = ""

    def agrees(self, shown: float) -> bool:
        """Whether a number that is shown agrees with the claim."""
        return abs(shown - self.number) <= self.tolerance * abs(self.number) + self.margin


@dataclass(frozen=True)
class Claim:
    """A statement that the course recomputes, counts, measures or cites.

    Args:
        id: Such as ``"A3"``; cells that show it have the tag ``claim:A3``.
        chapters: The chapters that show it, such as ``("04",)``.
        words: The statement, in the course's own words.
        shown: How, of ``LIVE`` and ``TOLD``; the first one is the strongest.
        source: Who said or measured it, with the section; or the arithmetic behind it.
        values: Its numbers.
    """

    id: str
    chapters: tuple[str, ...]
    words: str
    shown: tuple[str, ...]
    source: str
    values: tuple[Value, ...] = ()

    @property
    def live(self) -> bool:
        """True if the output of a code cell has to show it."""
        return self.shown[0] in LIVE
