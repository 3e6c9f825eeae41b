"""``flashlab bench fp8_hopper``: FP8 attention on Hopper, alone and with all that prepares it.

Beside FP16 attention of torch at the same sizes. TFLOP/s = 4 B H N^2 D / time, halved under a
causal mask.
"""

from collections.abc import Iterator

import torch
from torch.nn.attention import SDPBackend

from flashlab.bench import table, timing
from flashlab.bench.forward import TOKENS, WIDTH, flops, name_of
from flashlab.bench.peers import sdpa
from flashlab.worked.fp8_hopper import fp8_hopper
from flashlab.worked.fp8_prepare import prepare

GRID = [(128, causal, N) for causal in (False, True) for N in (1024, 4096, 16384)]
HOW = "median of 30 ms of CUDA graph replays after a pause, cold L2"
HOPPER = "fp8_hopper needs an sm_90 GPU (H100, H200): leave it out here"


def cell(D: int, causal: bool, N: int) -> dict:
    """One cell: this kernel, the same with quantisation and layout, those alone, FP16 peers."""
    B, H = TOKENS // N, WIDTH // D
    q, k, v = (torch.randn(B, H, N, D, device="cuda", dtype=torch.float16) for _ in range(3))
    ready = prepare(q, k, v)
    times = timing.steady_ms(
        {
            "ours": lambda: fp8_hopper(ready, causal=causal),
            "with quantisation": lambda: fp8_hopper(prepare(q, k, v), causal=causal),
            "quantisation": lambda: prepare(q, k, v),
            "cudnn fp16": sdpa(q, k, v, causal, SDPBackend.CUDNN_ATTENTION),
            "sdpa flash fp16": sdpa(q, k, v, causal, SDPBackend.FLASH_ATTENTION),
        }
    )
    alone = times.pop("quantisation")  # no attention, so no TFLOP/s
    share = alone / times["ours"]
    print(f"quantisation and layout: {alone:.4f} ms, {share:.0%} of the kernel's time", flush=True)
    work, sizes = flops(B, H, N, D, causal), {"B": B, "H": H, "N": N, "D": D}
    return table.row(name_of(D, causal, N), work, "TFLOP/s", times, quantisation_ms=alone, **sizes)


def rows() -> Iterator[dict]:
    """One row a cell of the grid.

    Raises:
        ValueError: the GPU is none of Hopper.
    """
    if torch.cuda.get_device_capability()[0] != 9:
        raise ValueError(HOPPER)
    for size in GRID:
        yield cell(*size)


def main(slug: str, mine: bool = False, out: str | None = None) -> int:
    """Print one line a cell; 1 without a GPU.

    Raises:
        ValueError: ``mine``, or a GPU that is none of Hopper.
    """
    if mine:
        raise ValueError("fp8_hopper is a worked kernel, no exercise: leave --mine out")
    return table.main(slug, rows(), mine, out, HOW)
