"""Which rows of a sequence lie on which rank, and back."""

from collections.abc import Sequence

import torch
from torch import Tensor


def shard(x: Tensor, rank: int, world: int, zigzag: bool = False) -> Tensor:
    """The rows of ``x`` that lie on ``rank``.

    Args:
        x: [B, H, N, ...]; the whole sequence.
        rank, world: Of ``world`` ranks, this one.
        zigzag: Chunks ``rank`` and ``2 * world - 1 - rank`` of 2 * world; else chunk ``rank``.

    Returns:
        [B, H, N / world, ...]; a view unless zigzag.

    Raises:
        ValueError: the number of rows is not divisible by the number of chunks.
    """
    chunks = x.chunk(_count(x.shape[2], world, zigzag), dim=2)
    return torch.cat([chunks[c] for c in held(rank, world)], dim=2) if zigzag else chunks[rank]


def gather(parts: Sequence[Tensor], zigzag: bool = False) -> Tensor:
    """The whole sequence [B, H, N, ...] from the rows of every rank, in the order of ranks."""
    world = len(parts)
    if not zigzag:
        return torch.cat(list(parts), dim=2)
    chunks = {
        number: half
        for rank, part in enumerate(parts)
        for number, half in zip(held(rank, world), part.chunk(2, dim=2), strict=True)
    }
    return torch.cat([chunks[number] for number in range(2 * world)], dim=2)


def held(rank: int, world: int) -> tuple[int, int]:
    """The two chunks, of 2 * world, that zigzag puts on ``rank``."""
    return rank, 2 * world - 1 - rank


def _count(N: int, world: int, zigzag: bool) -> int:
    count = 2 * world if zigzag else world
    if N % count or not N:
        kind = "2 * world" if zigzag else "world"
        raise ValueError(f"N must be divisible by {kind} = {count}, not {N}: pad the sequence")
    return count
