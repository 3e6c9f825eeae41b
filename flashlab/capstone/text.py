"""The text that the small GPT reads: made by the course, as much of it as one asks for.

Each line tells who took how many of what, then something else, then asks for all of it again. The
last words alone do not finish it: a token has to look back, which is what attention is for.
"""

import random

import torch
from torch import Tensor

NAMES = "ada bo cleo dan eve finn gus hana ivo june kai lea".split()
NUMBERS = "two three four five six seven eight nine ten twelve".split()
THINGS = "keys values queries scores tiles rows sums blocks".split()
PLACES = ["the registers", "shared memory", "the cache", "main memory"]
MEANWHILE = (
    "the other warps wait",
    "a maximum is carried along",
    "the old sum is made smaller first",
    "nobody writes the scores down",
    "the next tile is on its way",
    "one division is left for the end",
)
ALPHABET = "\n .," + "abcdefghijklmnopqrstuvwxyz"


def story(characters: int, seed: int = 0) -> str:
    """At least so many characters of it, the same for the same seed."""
    draw, lines, length = random.Random(seed), [], 0
    while length < characters:
        who, many, what = (draw.choice(words) for words in (NAMES, NUMBERS, THINGS))
        where, meanwhile = draw.choice(PLACES), draw.choice(MEANWHILE)
        line = (
            f"{who} takes {many} {what} from {where}. {meanwhile}. so {who} has {many} {what}.\n"
        )
        lines.append(line)
        length += len(line)
    return "".join(lines)


def encode(text: str) -> Tensor:
    """Each character's place in ``ALPHABET``, int64 [characters]."""
    return torch.tensor([ALPHABET.index(character) for character in text])


def decode(tokens: Tensor) -> str:
    """The characters of ``tokens`` [N]."""
    return "".join(ALPHABET[n] for n in tokens.tolist())


def batch(tokens: Tensor, B: int, N: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """B windows of N tokens drawn from ``tokens``, and for each token the one that follows it."""
    starts = torch.randint(len(tokens) - N, (B, 1), generator=generator)
    at = starts + torch.arange(N + 1)
    return tokens[at[:, :-1]], tokens[at[:, 1:]]
