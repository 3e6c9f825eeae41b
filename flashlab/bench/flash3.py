"""``flashlab bench flash3_forward``: beside cuDNN, SDPA flash and our FlashAttention-2 kernel.

TFLOP/s = 4 B H N^2 D / time, halved under a causal mask; fp16 and bf16. Our kernel stores lse.
"""

from collections.abc import Iterator

import torch
from torch.nn.attention import SDPBackend

from flashlab.bench import peers, table, timing
from flashlab.bench.forward import GRID, TOKENS, WIDTH, flops, name_of

DTYPES = (torch.float16, torch.bfloat16)
ROUNDS = 9


def cell(ours, flash2, dtype: torch.dtype, D: int, causal: bool, N: int) -> dict:
    """One cell of the grid, measured."""
    B, H = TOKENS // N, WIDTH // D
    q, k, v = (torch.randn(B, H, N, D, device="cuda", dtype=dtype) for _ in range(3))
    times = timing.interleaved_ms(
        {
            "ours": lambda: ours(q, k, v, causal=causal),
            "cudnn": peers.sdpa(q, k, v, causal, SDPBackend.CUDNN_ATTENTION),
            "sdpa flash": peers.sdpa(q, k, v, causal, SDPBackend.FLASH_ATTENTION),
            "flash2_forward": lambda: flash2(q, k, v, causal=causal),
        },
        ROUNDS,
    )
    name = str(dtype).removeprefix("torch.")
    sizes = {"B": B, "H": H, "N": N, "D": D, "causal": causal, "dtype": name}
    work = flops(B, H, N, D, causal)
    return table.row(f"{name} {name_of(D, causal, N)}", work, "TFLOP/s", times, **sizes)


def rows(mine: bool) -> Iterator[dict]:
    """One row a cell of the grid, in both dtypes."""
    ours, flash2 = table.answer("flash3_forward", mine), table.answer("flash2_forward")
    for dtype in DTYPES:
        for size in GRID:
            yield cell(ours, flash2, dtype, *size)


def main(slug: str, mine: bool = False, out: str | None = None) -> int:
    """Print one line a cell; 1 without a GPU."""
    return table.main(slug, rows(mine), mine, out)
