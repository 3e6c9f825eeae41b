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
        number: Of the round, from 0.
        here: For each rank the owner of the block that it holds.
        shares: For each rank how many ranks have added to the gradient of that block; forward: 0.
    """

    backward: bool
    number: int
    here: tuple[int, ...]
    shares: tuple[int, ...]


def rounds(world: int = WORLD) -> list[Round]:
    """Forward and backward, found by moving blocks to the right, and the last turn."""
    found, here = [], list(range(world))
    for number in range(world):
        found.append(Round(False, number, tuple(here), (0,) * world))
        here = here[-1:] + here[:-1]
    gradients = dict.fromkeys(range(world), 0)
    for number in range(world):
        for owner in here:
            gradients[owner] += 1
        shares = tuple(gradients[owner] for owner in here)
        found.append(Round(True, number, tuple(here), shares))
        here = here[-1:] + here[:-1]
    found.append(Round(True, world, tuple(here), tuple(gradients[owner] for owner in here)))
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
        last = "" if more else " Every query has seen every key."
        return (
            f"Round {state.number}: the block of rank r - {state.number} is here. Its part is "
            f"merged into o by lse{more}.{last}"
        )
    if state.number == world:
        return (
            "One turn more: with the shares of all ranks the gradient of every block comes home "
            "to its owner."
        )
    if not state.number:
        return (
            "Backward: the blocks go round once more. Each rank finds its share of the gradient "
            "of its own block, and the gradient sets out behind the block."
        )
    return (
        f"Backward, round {state.number}: each rank adds its share to the gradient of the block "
        "that is here. Gradients of queries stay."
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
        home = state.backward and state.number == len(state.here)
        words = [f"dKV {owner}"] if home else [f"K V {owner}"]
        words += [f"dKV {owner}"] if state.backward and not home else []
        for row, word in enumerate(words):
            y = 72 + row * (HIGH + 8)
            parts.append(chart.rect(x, y, BOX, HIGH, FILLS[owner], 'rx="4"'))
            parts.append(chart.text(x + BOX / 2, y + 20, word, "middle", 13, INKS[owner]))
        if rank + 1 < len(state.here):
            parts.append(chart.text(x + BOX + 3, 92, "→", size=14, ink="soft"))
    last = LEFT + len(state.here) * PITCH - 16
    bottom = 84 + (2 if state.backward else 1) * (HIGH + 8)
    parts.append(chart.text(last, bottom, "and round to rank 0", "end", 12, "soft"))
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
            age = (rank - owner) % world
            done = age <= state.number
            x, fill = left + owner * CELL, FILLS[owner] if done else "grey"
            now = age == state.number
            edge = 'stroke="var(--fl-ink)" stroke-width="2.5"' if now else ""
            parts.append(chart.rect(x + 2, y + 2, CELL - 4, CELL - 4, fill, edge))
            if done:
                word = chart.text(x + CELL / 2, y + 22, str(age), "middle", 13, INKS[owner])
                parts.append(word)
    return parts


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
    passed = min(state.number, world - 1) + (state.number if state.backward else 0)
    facts.append(("messages each has sent", str(passed)))
    return Frame(drawing, said, tuple(facts))


def ring_player() -> Player:
    """Four ranks, forward and backward, no mask."""
    return Player("Blocks of keys and values go round", [frame(r) for r in rounds()], 620)
