"""The numbers of one SM at work on one tile of queries, in clocks."""

from dataclasses import dataclass

ARBITRATIONS = ("one at a time", "interleaved")


@dataclass(frozen=True)
class Machine:
    """How long the SM's units are busy with one tile, and how many warpgroups there are.

    Args:
        load: TMA, for one tile of K or of V; loads follow one another.
        qk, pv: Tensor cores, for one warpgroup's product with a tile of K or of V.
        exp: Exponential units, for the scores of one warpgroup and tile.
        before, after: Other arithmetic of softmax that must precede or follow the exponentials
            (the row maximum; the row sum and the cast).
        rescale: Other arithmetic, for one warpgroup's accumulator.
        alone: The part of the exponential and arithmetic units that one warpgroup alone can keep
            busy; several share the units.
        consumers: Warpgroups that compute.
        arbitration: How products of several warpgroups share the tensor cores: ``"one at a
            time"`` (warpgroups that wait take turns) or ``"interleaved"`` (side by side).
        late: Clocks after which each consumer starts; empty: all at once.
    """

    load: float
    qk: float
    pv: float
    exp: float
    before: float
    after: float
    rescale: float
    alone: float = 1.0
    consumers: int = 2
    arbitration: str = "one at a time"
    late: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.arbitration not in ARBITRATIONS:
            raise ValueError(f"arbitration is one of {ARBITRATIONS}, not {self.arbitration!r}")
        if not 0 < self.alone <= 1:
            raise ValueError(f"alone must lie above 0 and be at most 1, not {self.alone!r}")
        if self.consumers < 1:
            raise ValueError(f"there must be a consumer, not {self.consumers!r}")
