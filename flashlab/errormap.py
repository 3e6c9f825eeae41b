"""Turns an array of errors into "where": worst element, heads, rows, a map of tiles. Floor: core.

Errors come in units of their limit, so 1 is the border; an infinite unit marks NaN or infinity.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

PER_ROW = ("lse", "delta", "scale")  # outputs with a number a row, or a block of rows
KEY_ROWS = ("dk", "dv")  # outputs whose rows are keys: their row tiles are BLOCK_N high
MAX_ROWS = 8
MAX_HEADS = 16
MAX_SAMPLES = 5
MAX_TILES = 24
COLUMN_TILE = 16


def where_bad(
    output: str, got: Tensor, expected: Tensor, units: Tensor, tiles: Mapping[str, int] | None
) -> dict[str, Any]:
    """The fields of ``report.Where`` for one output.

    Args:
        output: Name of the output.
        got: What came back, fp64, any shape.
        expected: The reference, fp64, same shape.
        units: Error of each element in units of its limit; above 1 is bad.
        tiles: Tile sizes of the run, for the map's rows.
    """
    bad = torch.nonzero(units > 1)
    worst = _index(units, int(units.argmax()))
    axis = rows_axis(output, units)
    heads = unique_heads(bad, axis)
    head = heads[0] if heads else worst[:axis]
    plane = units[tuple(head)] if head else units
    bad_rows = _bad_rows(plane)
    return {
        "output": output,
        "index": worst,
        "expected": float(expected[tuple(worst)]),
        "got": float(got[tuple(worst)]),
        "heads": heads[:MAX_HEADS],
        "rows": bad_rows[:MAX_ROWS],
        "tile_map": _tile_map(output, plane, tiles or {}),
        "samples": [
            [i, float(expected[tuple(i)]), float(got[tuple(i)])]
            for i in bad[:MAX_SAMPLES].tolist()
        ],
    }


def row_tile(output: str, tiles: Mapping[str, int]) -> int:
    """Height of a row tile of ``output``: BLOCK_N for dk and dv, else BLOCK_M, else the first."""
    name = "BLOCK_N" if output in KEY_ROWS else "BLOCK_M"
    return tiles.get(name) or next(iter(tiles.values()), COLUMN_TILE)


def _index(units: Tensor, flat: int) -> list[int]:
    return [int(i) for i in torch.unravel_index(torch.tensor(flat), units.shape)]


def rows_axis(output: str, units: Tensor) -> int:
    """Axis of the rows: the last one of lse, delta and scale, the last but one of a matrix."""
    per_row = output in PER_ROW or units.dim() == 1
    return max(0, units.dim() - (1 if per_row else 2))


def unique_heads(bad: Tensor, axis: int) -> list[list[int]]:
    """What stands before the rows in ``bad``, a list of indices: heads, or tokens of a pack."""
    if axis == 0 or len(bad) == 0:
        return []
    return torch.unique(bad[:, :axis], dim=0).tolist()


def is_pack(dims: int, axis: int) -> bool:
    """Is an output [T, H, D], whose tokens come first and whose rows are heads?"""
    return dims == 3 and axis == 1


def _bad_rows(plane: Tensor) -> list[int]:
    if plane.dim() == 0:
        return []
    per_row = plane.reshape(plane.shape[0], -1).amax(dim=1)
    return torch.nonzero(per_row > 1).flatten().tolist()


def _tile_map(output: str, plane: Tensor, tiles: Mapping[str, int]) -> list[list[float]]:
    """Worst unit of each tile of one head; coarser where there would be too many tiles."""
    if plane.dim() == 0:
        return []
    matrix = plane.reshape(plane.shape[0], -1)
    height = _coarse(row_tile(output, tiles), matrix.shape[0])
    width = _coarse(COLUMN_TILE, matrix.shape[1])
    return [
        [float(block.max()) for block in strip.split(width, dim=1)]
        for strip in matrix.split(height, dim=0)
    ]


def _coarse(tile: int, length: int) -> int:
    while -(-length // tile) > MAX_TILES:
        tile *= 2
    return tile
