"""One block's warps share its score tiles: by keys as FlashAttention-1, by queries as -2.

Each warp computes with its own tensors alone; what another warp needs goes through ``Shared``.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from flashlab.worked.shared_memory import HALF, SINGLE, Shared


@dataclass(frozen=True)
class Traffic:
    """Bytes through shared memory, by what they are for.

    Args:
        operands, written, read, barriers: As of ``Shared``.
        sums_bytes: fp32 sums for the output that one warp holds at once, in registers.
    """

    operands: int
    written: int
    read: int
    barriers: int
    sums_bytes: int


@dataclass(frozen=True)
class Block:
    """What a block of warps made: o [block_m, D], lse [block_m] in nats; and what it took."""

    o: Tensor
    lse: Tensor
    traffic: Traffic


class _Sums:
    """Running maximum, sum and output of some rows, in one warp's registers."""

    def __init__(self, q: Tensor) -> None:
        self.m = q.new_full(q.shape[:1], -math.inf)
        self.l = q.new_zeros(q.shape[:1])
        self.acc = torch.zeros_like(q)

    def shrink(self, m: Tensor) -> None:
        """Bring all of it to a new maximum."""
        alpha = torch.exp(self.m - m)
        self.l, self.acc, self.m = alpha * self.l, alpha[:, None] * self.acc, m

    def add(self, s: Tensor, v: Tensor) -> None:
        """One tile of scores, kept in this warp."""
        self.shrink(torch.maximum(self.m, s.amax(1)))
        p = torch.exp(s - self.m[:, None])
        self.l, self.acc = self.l + p.sum(1), self.acc + p @ v


def _block(shared: Shared, parts: list[_Sums], sums: int) -> Block:
    """The rows of all warps, divided by their sums."""
    o = torch.cat([x.acc / x.l[:, None] for x in parts])
    lse = torch.cat([x.m + torch.log(x.l) for x in parts])
    counted = shared.operands, shared.written, shared.read, shared.barriers
    return Block(o, lse, Traffic(*counted, sums * SINGLE))


def by_queries(q: Tensor, k: Tensor, v: Tensor, *, block_n: int, warps: int = 4) -> Block:
    """Each warp owns rows of q, and meets every key; warps have nothing to tell each other.

    Args:
        q: [block_m, D]; k, v: [N, D]; block_m and block_n are multiples of ``warps``.
        block_n: Keys of a tile.
        warps: Of the block.
    """
    shared, scale = Shared(), q.shape[1] ** -0.5
    mine = [shared.operand(rows) for rows in q.chunk(warps)]  # stays in registers
    sums = [_Sums(rows) for rows in mine]
    for k_tile, v_tile in zip(k.split(block_n), v.split(block_n), strict=True):
        for w in range(warps):
            s = mine[w] @ shared.operand(k_tile).mT * scale
            sums[w].add(s, shared.operand(v_tile))
    return _block(shared, sums, mine[0].numel())


def by_keys(q: Tensor, k: Tensor, v: Tensor, *, block_n: int, warps: int = 4) -> Block:
    """Each warp takes keys of every tile; rows are summed up across warps at every tile.

    Warp w finishes rows w; the others leave it what they computed for them. Arguments as for
    ``by_queries``.
    """
    shared, scale, each = Shared(), q.shape[1] ** -0.5, range(warps)
    rows, sums = _owned(q, warps)
    for k_tile, v_tile in zip(k.split(block_n), v.split(block_n), strict=True):
        ks, vs = k_tile.chunk(warps), v_tile.chunk(warps)
        s = [shared.operand(q) @ shared.operand(ks[w]).mT * scale for w in each]
        for w in each:
            shared.put(("max", w), s[w].amax(1))
        shared.barrier()
        parts = []
        for w in each:
            others = [shared.take(("max", u)) for u in each if u != w]
            m = torch.stack([s[w].amax(1), *others]).amax(0)
            p = torch.exp(s[w] - m[:, None])
            parts.append((m, p.sum(1), p @ shared.operand(vs[w])))
            _leave(shared, w, rows, parts[w][1:])
        shared.barrier()
        for w in each:  # the tile's own maximum is what the parts are relative to
            m, l_part, o_part = (x[rows[w]] for x in parts[w])
            _gather(shared, w, warps, l_part, o_part, into=sums[w], at=m)
    return _block(shared, sums, q.numel() + sums[0].acc.numel())


def _owned(q: Tensor, warps: int) -> tuple[list[slice], list[_Sums]]:
    """The rows that each warp finishes, and their sums."""
    step = len(q) // warps
    rows = [slice(w * step, (w + 1) * step) for w in range(warps)]
    return rows, [_Sums(q[mine]) for mine in rows]


def _leave(shared: Shared, w: int, rows: list[slice], part: tuple[Tensor, ...]) -> None:
    """What warp w computed for the rows of the others."""
    for u, theirs in enumerate(rows):
        if u != w:
            for name, x in zip(("l", "o"), part, strict=True):
                shared.put((name, w, u), x[theirs])


def _gather(
    shared: Shared, w: int, warps: int, l_part: Tensor, o_part: Tensor, *, into: _Sums, at: Tensor
) -> None:
    """Add a tile's sums for the rows of warp w, its own and the others', relative to ``at``."""
    for u in range(warps):
        if u != w:
            l_part, o_part = l_part + shared.take(("l", u, w)), o_part + shared.take(("o", u, w))
    m = torch.maximum(into.m, at)
    into.shrink(m)
    weight = torch.exp(at - m)
    into.l, into.acc = into.l + weight * l_part, into.acc + weight[:, None] * o_part


def by_keys_merged_late(q: Tensor, k: Tensor, v: Tensor, *, block_n: int, warps: int = 4) -> Block:
    """Each warp keeps sums of its keys for all rows, and merges them once, after the last tile.

    Possible with queries outside only: with keys outside the rows leave the chip at every tile.
    Arguments as for ``by_queries``.
    """
    shared, scale, each = Shared(), q.shape[1] ** -0.5, range(warps)
    mine = [shared.operand(q) for _ in each]
    whole = [_Sums(q) for _ in each]
    for k_tile, v_tile in zip(k.split(block_n), v.split(block_n), strict=True):
        for w, (ks, vs) in enumerate(zip(k_tile.chunk(warps), v_tile.chunk(warps), strict=True)):
            whole[w].add(mine[w] @ shared.operand(ks).mT * scale, shared.operand(vs))
    for w in each:
        shared.put(("max", w), whole[w].m)
    shared.barrier()
    rows, sums = _owned(q, warps)
    for w in each:
        others = [shared.take(("max", u)) for u in each if u != w]
        whole[w].shrink(torch.stack([whole[w].m, *others]).amax(0))
        _leave(shared, w, rows, (whole[w].l, whole[w].acc))
    shared.barrier()
    for w in each:
        own = whole[w]
        parts = own.l[rows[w]], own.acc[rows[w]]
        _gather(shared, w, warps, *parts, into=sums[w], at=own.m[rows[w]])
    return _block(shared, sums, q.numel())


SPLITS: dict[str, Callable[..., Block]] = {
    "keys": by_keys,
    "keys, merged late": by_keys_merged_late,
    "queries": by_queries,
}


def traffic(split: str, *, block_m: int, block_n: int, D: int, tiles: int, warps: int) -> Traffic:
    """The same counts in closed form.

    Args:
        split: One of ``SPLITS``.
        block_m, block_n, D: Query rows, keys of a tile, head dimension.
        tiles: Tiles of keys that the block meets.
        warps: Of the block; a divisor of block_m and block_n.
    """
    q, kv, sums = block_m * D * HALF, tiles * 2 * block_n * D * HALF, block_m * D * SINGLE
    if split == "queries":
        return Traffic(q + warps * kv, 0, 0, 0, sums // warps)
    merges = tiles if split == "keys" else 1
    partial = merges * (warps - 1) * block_m * (1 + D) * SINGLE  # what others keep stays with them
    maxima = merges * warps * block_m * SINGLE
    held = sums + sums // warps if split == "keys" else sums
    operands = merges * warps * q + kv
    written, read = maxima + partial, (warps - 1) * maxima + partial
    return Traffic(operands, written, read, 2 * merges, held)
