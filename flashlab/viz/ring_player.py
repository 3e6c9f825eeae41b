"""Attention round a ring, round by round: where each block is, and what has been computed."""

from dataclasses import dataclass

from flashlab.viz import chart
from flashlab.viz.picture import svg
from flashlab.viz.player import Frame, Player

WORLD = 4
FILLS = ("blue", "orange", "green", "sand")
INKS = ("paper", "paper", "paper", "ink")  # of text on them


@dataclass(frozen=True)
class Round:
    """The state in which a round is computed.

    Args:
        backward: Which pass.
        number: Of the round: forward from 0, where the own block is; backward from 1 to the
            number of ranks, where the own block is again.
        here: For each rank the owner of the block that it works on.
        shares: For each rank how many ranks have added to the gradient of that block; forward: 0.
        sent: Messages that each rank has sent when the round begins.
    """

    backward: bool
    number: int
    here: tuple[int, ...]
    shares: tuple[int, ...]
    sent: int


def rounds(world: int = WORLD) -> list[Round]:
    """Forward and backward, found by moving blocks to the right, and back to the left."""
    found, here, sent = [], list(range(world)), 0
    for number in range(world):
        found.append(Round(False, number, tuple(here), (0,) * world, sent))
        if number + 1 < world:
            here, sent = here[-1:] + here[:-1], sent + 1
    gradients = dict.fromkeys(range(world), 0)
    for number in range(1, world + 1):  # the block that came last is still here
        for owner in here:
            gradients[owner] += 1
        shares = tuple(gradients[owner] for owner in here)
        found.append(Round(True, number, tuple(here), shares, sent))
        here = here[1:] + here[:1]
        sent += 2 if number + 1 < world else 1  # a block that everybody has is not sent again
    return found


def caption(state: Round, world: int = WORLD) -> str:
    """What happens in a round."""
    if not state.backward and not state.number:
        return (
            "Each rank holds queries, keys and values of its own part of the sequence. It begins "
            "with its own block of keys and values, while a copy travels to the right."
        )
    if not state.backward:
        more = "; a copy goes on to the right" if state.number + 1 < world else ""
        last = "" if more else " Every query has seen every key, and this block is kept."
        return (
            f"Round {state.number}: the block of rank r - {state.number} is here. Its part is "
            f"merged into o by lse{more}.{last}"
        )
    if state.number == world:
        return (
            f"Backward, round {state.number}: the own block comes last and needs no message. "
            "Meanwhile its gradient, with the shares of all other ranks, comes home, where the "
            "own share is added."
        )
    if state.number == 1:
        return (
            "Backward, round 1: the block that was kept is here already. Each rank finds its "
            "share of that block's gradient. From now on everything goes to the left."
        )
    return (
        f"Backward, round {state.number}: the block of rank r + {state.number} came from the "
        "right, its gradient behind it. Each rank adds its share. Gradients of queries stay."
    )


PITCH, BOX, HIGH, LEFT, CELL = 86, 70, 30, 8, 34


def _ranks(state: Round) -> list[str]:
    """The ranks side by side: their queries, the block that is here, its gradient."""
    parts = []
    for rank, owner in enumerate(state.here):
        x = LEFT + rank * PITCH
        parts.append(chart.text(x + BOX / 2, 16, f"rank {rank}", "middle"))
        parts.append(chart.rect(x, 26, BOX, HIGH, "grey", 'rx="4"'))
        parts.append(chart.text(x + BOX / 2, 46, f"Q {rank}", "middle", 13))
        words = [f"K V {owner}"] + ([f"dKV {owner}"] if state.backward else [])
        for row, word in enumerate(words):
            y = 72 + row * (HIGH + 8)
            parts.append(chart.rect(x, y, BOX, HIGH, FILLS[owner], 'rx="4"'))
            parts.append(chart.text(x + BOX / 2, y + 20, word, "middle", 13, INKS[owner]))
        if rank + 1 < len(state.here):
            arrow = "←" if state.backward else "→"
            parts.append(chart.text(x + BOX + 3, 92, arrow, size=14, ink="soft"))
    last = LEFT + len(state.here) * PITCH - 16
    bottom = 84 + (2 if state.backward else 1) * (HIGH + 8)
    turn = f"and round to rank {len(state.here) - 1 if state.backward else 0}"
    parts.append(chart.text(last, bottom, turn, "end", 12, "soft"))
    return parts


def _matrix(state: Round, top: float) -> list[str]:
    """Queries down, keys across: what has been computed, and what is being computed."""
    world = len(state.here)
    left = LEFT + 92
    parts = [chart.text(left, top - 8, "keys of rank 0, 1, 2, 3", size=12, ink="soft")]
    for rank in range(world):
        y = top + rank * CELL
        parts.append(chart.text(left - 8, y + 22, f"queries of {rank}", "end", 12, "soft"))
        for owner in range(world):
            age = _round(rank, owner, world, state.backward)
            done = age <= state.number
            x, fill = left + owner * CELL, FILLS[owner] if done else "grey"
            now = age == state.number
            edge = 'stroke="var(--fl-ink)" stroke-width="2.5"' if now else ""
            parts.append(chart.rect(x + 2, y + 2, CELL - 4, CELL - 4, fill, edge))
            if done:
                word = chart.text(x + CELL / 2, y + 22, str(age), "middle", 13, INKS[owner])
                parts.append(word)
    return parts


def _round(rank: int, owner: int, world: int, backward: bool) -> int:
    """In which round a rank works on a block."""
    return ((owner - rank) % world or world) if backward else (rank - owner) % world


def frame(state: Round) -> Frame:
    """One round as a frame of the player."""
    world = len(state.here)
    said = caption(state, world)
    top = 196
    body = "".join([*_ranks(state), *_matrix(state, top)])
    drawing = svg(
        LEFT + world * PITCH, top + world * CELL + 6, f"Ranks and their blocks. {said}", body
    )
    facts = []
    for rank, owner in enumerate(state.here):
        if state.backward:
            facts.append(
                (f"rank {rank}", f"gradient of block {owner}: {state.shares[rank]} of {world}")
            )
        else:
            facts.append((f"rank {rank}", f"block {owner}, o over {state.number + 1} of {world}"))
    facts.append(("messages each has sent", str(state.sent)))
    return Frame(drawing, said, tuple(facts))


def ring_player() -> Player:
    """Four ranks, forward and backward, no mask."""
    return Player("Blocks of keys and values go round", [frame(r) for r in rounds()], 620)
