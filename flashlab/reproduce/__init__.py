"""Papers' tables, recomputed: paper, ours, ratio. Floor: course.

``flashlab reproduce NAME`` prints one; a module of that name makes it in ``table()``.
"""

import importlib

from flashlab.reproduce.table import Row, Table

TABLES = ("fa3-ablation", "fa3-fp8-error")

__all__ = ["TABLES", "Row", "Table", "make"]


def make(name: str) -> Table:
    """Compute the table called ``name``.

    Raises:
        KeyError: there is none; the message names those there are.
    """
    if name not in TABLES:
        raise KeyError(f"no table is called {name!r}; there are: {', '.join(TABLES)}")
    return importlib.import_module(f"flashlab.reproduce.{name.replace('-', '_')}").table()
