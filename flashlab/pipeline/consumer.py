"""A warpgroup's registers: scores, P, the accumulator, and the products that use them."""

from dataclasses import dataclass, field

from flashlab.pipeline.errors import PipelineError
from flashlab.pipeline.memory import Place
from flashlab.pipeline.sm import Op


@dataclass(eq=False)
class Product:
    """A product that was issued."""

    what: str
    tile: int
    place: Place
    fill: int
    where: tuple[str, int]
    done: bool = False


@dataclass
class State:
    """What one warpgroup holds; each method is an operation's rule."""

    name: str
    issued: list[Product] = field(default_factory=list)  # and not waited for, in order
    scores: int | None = None  # tile whose scores are not yet P
    p: int | None = None
    rescaled: int | None = None
    added: list[int] = field(default_factory=list)

    def at_most(self, pending: int) -> bool:
        """Whether all products but the last ``pending`` are done: they end in order."""
        return all(p.done for p in self.issued[: max(len(self.issued) - pending, 0)])

    def waited(self, pending: int) -> list[Product]:
        """The products that a wait has seen to their ends."""
        count = max(len(self.issued) - pending, 0)
        seen, self.issued = self.issued[:count], self.issued[count:]
        return seen

    def reads(self, place: Place) -> bool:
        """Whether a product that was not waited for reads a slot."""
        return any(p.place is place for p in self.issued)

    def _running(self, what: str) -> bool:
        return any(p.what == what for p in self.issued)

    def score(self, tile: int, place: Place, op: Op) -> Product:
        """Q K of a tile: overwrites the scores in the registers."""
        if self.scores is not None:
            raise PipelineError(
                "race",
                f"{op} overwrites the scores of tile {self.scores}, which softmax has not read",
                op.where,
            )
        self.scores = tile
        return self._issue("Q K", tile, place, op)

    def softmax(self, tile: int, op: Op) -> None:
        """Scores to P."""
        if self.scores != tile:
            held = "none" if self.scores is None else f"those of tile {self.scores}"
            raise PipelineError(
                "wrong",
                f"{op}: the registers hold {held}, not the scores of tile {tile}",
                op.where,
            )
        if self._running("Q K"):
            raise PipelineError(
                "uninitialised",
                f"{op} reads scores that the tensor cores may still be writing: wait_products",
                op.where,
            )
        self.scores, self.p = None, tile

    def rescale(self, tile: int, op: Op) -> None:
        """The accumulator times a factor a row."""
        if self._running("P V"):
            raise PipelineError(
                "race",
                f"{op} multiplies the accumulator while a product may still add to it: "
                "wait_products",
                op.where,
            )
        if self.p != tile:
            raise PipelineError(
                "wrong", f"{op}: softmax of tile {tile} has not found the factor", op.where
            )
        self.rescaled = tile

    def accumulate(self, tile: int, place: Place, op: Op) -> Product:
        """P V of a tile: adds to the accumulator."""
        if self.p != tile:
            held = "nothing yet" if self.p is None else f"that of tile {self.p}"
            raise PipelineError(
                "wrong", f"{op}: P holds {held}, not that of tile {tile}", op.where
            )
        if tile in self.added:
            raise PipelineError("wrong", f"{op} adds tile {tile} a second time", op.where)
        if self.added and self.rescaled != tile:
            raise PipelineError(
                "wrong",
                f"{op} adds to an accumulator that was not rescaled for tile {tile}",
                op.where,
            )
        self.added.append(tile)
        return self._issue("P V", tile, place, op)

    def _issue(self, what: str, tile: int, place: Place, op: Op) -> Product:
        product = Product(what, tile, place, place.fills, op.where)
        self.issued.append(product)
        return product

    def finish(self) -> None:
        """The program is over.

        Raises:
            PipelineError: nobody waited for its last product.
        """
        if self.issued:
            last = self.issued[-1]
            raise PipelineError(
                "race",
                f"{self.name} ends while its product {last.what} of tile {last.tile} may still "
                "run: wait_products(0) before the accumulator is used",
                last.where,
            )
