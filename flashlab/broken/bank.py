"""Which kernels are dealt: a seeded draw from the mistakes of the exercises."""

import difflib
import random
from collections.abc import Sequence
from dataclasses import dataclass

from flashlab import exercises, sources
from flashlab.exercise import Mistake
from flashlab.holes import without_markers

COUNT = 8
CHOICES = 6  # sentences to choose the fault from
LETTERS = "abcdef"
# Faults that show when the kernel runs; a compiler's message would name the others by itself.
STATUSES = ("wrong", "nan", "oob", "race", "uninitialised", "precision")


@dataclass(frozen=True)
class Puzzle:
    """One broken kernel.

    Args:
        number: 1 to ``COUNT``.
        slug: The exercise whose solution was broken.
        mistake: The edit that broke it.
        text: The broken file.
        choices: Sentences to choose from; one of them is the mistake's.
    """

    number: int
    slug: str
    mistake: Mistake
    text: str
    choices: tuple[str, ...]

    @property
    def answer(self) -> str:
        """The letter of the right sentence."""
        return LETTERS[self.choices.index(self.mistake.says)]


def dealt_from(passed: Sequence[str]) -> tuple[str, ...]:
    """The exercises to draw from: those passed, and the first others if they are under four."""
    triton = [s for s in exercises.SYLLABUS if exercises.get(s).kind == "triton"]
    mine = [slug for slug in triton if slug in passed]
    rest = [slug for slug in triton if slug not in passed]
    return tuple(mine + rest[: max(0, 4 - len(mine))])


def draw(seed: int, slugs: Sequence[str]) -> list[Puzzle]:
    """The set of this seed: every exercise comes once before one comes again.

    Raises:
        ValueError: there are too few mistakes, as in the copies that classes get.
    """
    if sum(len(_usable(slug)) for slug in slugs) < COUNT:
        raise ValueError("this copy of the course holds no mistakes to make broken kernels of")
    chance, puzzles = random.Random(seed), []
    used: set[tuple[str, str]] = set()
    while len(puzzles) < COUNT:
        for slug in chance.sample(list(slugs), len(slugs)):
            left = [m for m in _usable(slug) if (slug, m.slug) not in used]
            if left and len(puzzles) < COUNT:
                mistake = chance.choice(left)
                used.add((slug, mistake.slug))
                puzzles.append(_puzzle(len(puzzles) + 1, slug, mistake, chance))
    return puzzles


def _usable(slug: str) -> list[Mistake]:
    bank = exercises.get(slug).mistakes
    return [m for m in bank if m.tier == "cpu" and m.expect in STATUSES]


def _puzzle(number: int, slug: str, mistake: Mistake, chance: random.Random) -> Puzzle:
    solution = sources.solution_text(slug)
    text = commented(without_markers(solution), sources.mutant(solution, mistake))
    others = sorted({m.says for m in exercises.get(slug).mistakes} - {mistake.says})
    choices = [mistake.says, *chance.sample(others, min(CHOICES - 1, len(others)))]
    chance.shuffle(choices)
    return Puzzle(number, slug, mistake, text, tuple(choices))


def commented(before: str, after: str) -> str:
    """``after`` with the comment of each changed line, if it lost it: that would give it away."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for kind, i1, i2, j1, j2 in matcher.get_opcodes():
        if kind == "replace" and i2 - i1 == j2 - j1:
            new[j1:j2] = [
                _with_comment(*pair) for pair in zip(old[i1:i2], new[j1:j2], strict=True)
            ]
    return "".join(new)


def _with_comment(old: str, new: str) -> str:
    _, mark, comment = old.rpartition("  # ")
    lost = mark and new.strip() and "#" not in new
    return f"{new.rstrip()}{mark}{comment}" if lost else new
