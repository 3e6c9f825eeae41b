"""Parts of a class graded apart (an array job), and their results put together. Floor: front."""

from collections.abc import Sequence
from pathlib import Path

from flashlab.classroom.store import Store

PARTS = "shards"


def folder(store: Path, shard: str) -> Path:
    """Where one part keeps its results: each part is a store with a writer of its own."""
    return store / PARTS / shard.replace("/", "-of-") if shard else store


def merge(into: Store, folders: Sequence[Path]) -> tuple[int, list[str]]:
    """Add the results of other stores; those that are there already stay.

    Returns:
        How many were new, and a sentence for each store or result that could not be read.
    """
    added, said = 0, []
    for place in folders or sorted((into.folder / PARTS).glob("*-of-*")):
        part = Store(place)
        keys = part.keys()
        if not keys:
            said.append(f"{place} holds no results")
        for key in keys:
            result = part.get(key)
            if result is not None and result.get("key") == key:
                added += into.put(key, result)
            else:
                said.append(f"{place}: the result {key[:12]} is damaged; grade that part again")
    return added, said
