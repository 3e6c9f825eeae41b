"""``flashlab bench flash2_forward | tma_forward``: forward passes beside SDPA's and FlexAttention.

TFLOP/s = 4 B H N^2 D / time, halved under a causal mask.
"""

from collections.abc import Callable, Iterator

import torch
from torch.nn.attention import SDPBackend

from flashlab.bench import peers, table, timing

TOKENS = 16384  # B = TOKENS / N
WIDTH = 2048  # H * D
GRID = [(D, causal, N) for D in (128, 64) for causal in (False, True) for N in (1024, 4096, 16384)]


def flops(B: int, H: int, N: int, D: int, causal: bool) -> float:
    """FLOPs of one forward pass, the field's convention."""
    return 4 * B * H * N * N * D / (2 if causal else 1)


def name_of(D: int, causal: bool, N: int) -> str:
    """A cell's sizes as text."""
    return f"D {D:3d} {'causal' if causal else 'full':6s} N {N:5d}"


def cell(ours: Callable, D: int, causal: bool, N: int, before: Callable | None = None) -> dict:
    """One cell of the grid, measured; ``before`` is the kernel that ours was made from."""
    B, H = max(TOKENS // N, 1), WIDTH // D
    q, k, v = (torch.randn(B, H, N, D, device="cuda", dtype=torch.float16) for _ in range(3))
    versions = {
        "ours": lambda: ours(q, k, v, causal=causal),
        "flex": peers.flex(q, k, v, peers.seen_by_causal if causal else None),
        "sdpa flash": peers.sdpa(q, k, v, causal, SDPBackend.FLASH_ATTENTION),
        "cudnn": peers.sdpa(q, k, v, causal, SDPBackend.CUDNN_ATTENTION),
    }
    if before is not None:
        versions["flash2_forward"] = lambda: before(q, k, v, causal=causal)
    times = timing.interleaved_ms(versions)
    work = flops(B, H, N, D, causal)
    return table.row(name_of(D, causal, N), work, "TFLOP/s", times, B=B, H=H, N=N, D=D)


def rows(slug: str, mine: bool) -> Iterator[dict]:
    """One row a cell of the grid; a later kernel has chapter 07's, the course's own, beside it."""
    ours = table.answer(slug, mine)
    before = None if slug == "flash2_forward" else table.answer("flash2_forward")
    for size in GRID:
        yield cell(ours, *size, before)


def main(slug: str, mine: bool = False, out: str | None = None) -> int:
    """Print one line a cell; 1 without a GPU."""
    return table.main(slug, rows(slug, mine), mine, out)
