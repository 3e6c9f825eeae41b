"""Inputs of block-sparse attention: those of attention, and a mask of tiles. Floor: course.

A mask follows from the sizes alone, so that the IO budget, which depends on it, does too.
"""

from math import ceil

import torch
from torch import Tensor

from flashlab.exercise import Sizes
from flashlab.exercises import attention_inputs

PATTERNS = {  # head, row, column, columns -> is the tile kept
    "all": lambda h, i, j, n: True,
    "none": lambda h, i, j, n: False,
    "holes": lambda h, i, j, n: j % 2 == 0,
    "heads": lambda h, i, j, n: (2 * i + j + h) % 3 != 0,
    "few": lambda h, i, j, n: (5 * i + 7 * j + 3 * h) % 8 in (0, 3),
    "odd-rows": lambda h, i, j, n: i % 2 == 1,
    "not-last": lambda h, i, j, n: j < n - 1,
    "only-last": lambda h, i, j, n: j == n - 1,
}
LAYOUTS = ("contiguous", "transposed")


def make_inputs(sizes: Sizes, dtype: torch.dtype, generator: torch.Generator) -> dict:
    """q, k, v and sm_scale as ``attention_inputs`` makes them; block_mask, block_m, block_n.

    ``sizes`` is what ``attention_inputs`` takes and holds block_m, block_n and ``pattern`` (one
    of ``PATTERNS``); it may hold ``mask_heads`` (1 if left out) and ``mask_layout``: contiguous
    (default) or transposed (columns outermost, every second element).
    """
    inputs = attention_inputs.make_inputs(sizes, dtype, generator)
    mask, layout = block_mask(sizes), sizes.get("mask_layout", "contiguous")
    if layout not in LAYOUTS:
        raise ValueError(f"mask_layout must be one of {LAYOUTS}, not {layout!r}")
    if layout == "transposed":
        wider = torch.ones(mask.shape[2], mask.shape[0], 2 * mask.shape[1], dtype=torch.bool)
        view = wider[..., ::2].permute(1, 2, 0)
        mask = view.copy_(mask)
    tiles = {name: sizes[name] for name in ("block_m", "block_n")}
    return inputs | {"block_mask": mask} | tiles


def block_mask(sizes: Sizes) -> Tensor:
    """The mask of ``sizes``: bool [mask_heads, ceil(N_q / block_m), ceil(N_k / block_n)]."""
    if sizes["pattern"] not in PATTERNS:
        raise ValueError(f"pattern must be one of {tuple(PATTERNS)}, not {sizes['pattern']!r}")
    keeps, heads = PATTERNS[sizes["pattern"]], sizes.get("mask_heads", 1)
    T_q, T_k = ceil(sizes["N_q"] / sizes["block_m"]), ceil(sizes["N_k"] / sizes["block_n"])
    flags = [keeps(h, i, j, T_k) for h in range(heads) for i in range(T_q) for j in range(T_k)]
    return torch.tensor(flags, dtype=torch.bool).reshape(heads, T_q, T_k)
