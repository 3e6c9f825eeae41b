"""A cache in pages, step by step: sequences grow, take pages when they need them, and go."""

from dataclasses import dataclass, field

from flashlab.viz import chart
from flashlab.viz.picture import svg
from flashlab.viz.player import Frame, Player

PAGE, POOL, ROOM = 4, 12, 16  # keys of a page, pages of the pool, the longest answer allowed
SCRIPT = (  # name: tokens it gets in this step; 0: it is done
    {"A": 6},
    {"B": 3},
    {"A": 1, "B": 1},
    {"C": 9},
    {"A": 2, "B": 2, "C": 1},
    {"B": 0},
    {"D": 7},
    {"A": 4, "C": 3},
    {"A": 0},
    {"D": 5, "C": 1},
)
FILLS = {"A": "blue", "B": "orange", "C": "green", "D": "sky"}


@dataclass
class Cache:
    """A pool of pages: a list of free ones, and a table and a length for each sequence."""

    free: list[int] = field(default_factory=lambda: list(range(POOL)))
    table: dict[str, list[int]] = field(default_factory=dict)
    length: dict[str, int] = field(default_factory=dict)

    def append(self, name: str, tokens: int) -> list[int]:
        """Keys of new tokens; returns the pages that were taken for them.

        Raises:
            MemoryError: no page is free. (A server then lets a sequence wait.)
        """
        taken = []
        table = self.table.setdefault(name, [])
        for _ in range(tokens):
            length = self.length.get(name, 0)
            if length == PAGE * len(table):
                if not self.free:
                    raise MemoryError(f"all {POOL} pages are taken: {name} has to wait")
                table.append(self.free.pop(0))
                taken.append(table[-1])
            self.length[name] = length + 1
        return taken

    def finish(self, name: str) -> list[int]:
        """Free the pages of a sequence; they are given out again first. Nothing is erased."""
        del self.length[name]
        pages = self.table.pop(name)
        self.free[:0] = pages
        return pages

    @property
    def used(self) -> float:
        """Share of the places in pages given out that hold a key."""
        places = PAGE * sum(map(len, self.table.values()))
        return sum(self.length.values()) / places if places else 1.0


def play(script=SCRIPT) -> list[Frame]:
    """A frame a step of the script."""
    cache, frames = Cache(), []
    for step in script:
        said = []
        for name, tokens in step.items():
            if tokens:
                new = name not in cache.length
                pages = cache.append(name, tokens)
                who = f"{name} arrives with {tokens} keys" if new else f"{name} grows by {tokens}"
                said.append(f"{who}{_taking(pages)}.")
            else:
                said.append(f"{name} is done: pages {_list(cache.finish(name))} are free again.")
        frames.append(_frame(cache, " ".join(said)))
    return frames


def _taking(pages: list[int]) -> str:
    if not pages:
        return " and needs no new page"
    return f" and takes page{'s' if len(pages) > 1 else ''} {_list(pages)}"


def _list(pages: list[int]) -> str:
    return ", ".join(map(str, pages))


SIDE, ACROSS = 20, 4


def _frame(cache: Cache, caption: str) -> Frame:
    owner = {page: name for name, table in cache.table.items() for page in table}
    parts = []
    for page in range(POOL):
        x, y = 8 + page % ACROSS * (PAGE * SIDE + 22), 24 + page // ACROSS * (SIDE + 42)
        name = owner.get(page)
        parts.append(chart.text(x, y - 6, f"page {page}{f': {name}' if name else ''}", size=13))
        filled = 0
        if name:
            filled = min(PAGE, cache.length[name] - PAGE * cache.table[name].index(page))
        for slot in range(PAGE):
            fill = FILLS[name] if name and slot < filled else "grey"
            parts.append(chart.rect(x + slot * SIDE, y, SIDE - 2, SIDE, fill))
    facts = [
        (name, f"{cache.length[name]} keys, table {_list(t)}") for name, t in cache.table.items()
    ]
    rooms = ROOM * len(cache.table)
    facts += [
        ("free pages", f"{len(cache.free)} of {POOL}"),
        ("used of the pages taken", f"{100 * cache.used:.0f} %"),
        (f"used of {ROOM} places each", f"{100 * sum(cache.length.values()) / rooms:.0f} %"),
    ]
    width, height = 8 + ACROSS * (PAGE * SIDE + 22), 24 + -(-POOL // ACROSS) * (SIDE + 42) - 20
    drawing = svg(width, height, f"A pool of {POOL} pages. {caption}", "".join(parts))
    return Frame(drawing, caption, tuple(facts))


def pages_player() -> Player:
    """Four sequences come, grow and go."""
    return Player(f"A pool of {POOL} pages of {PAGE} keys", play(), 430)
