"""``flashlab bench flash2_backward``: the backward pass beside SDPA's.

TFLOP/s = 10 B H N^2 D / time (2.5 times the forward), halved under a causal mask.
"""

import math
from collections.abc import Callable

import torch

from flashlab.bench import timing
from flashlab.bench.attention import TOKENS, WIDTH, flops
from flashlab.bench.elementary import solution

GRID = [(D, causal, N) for D in (128, 64) for causal in (False, True) for N in (1024, 4096, 16384)]


def flash_backward(q, k, v, do, causal: bool) -> Callable[[], object]:
    """torch's FlashAttention-2 backward as one operator, which a graph can capture."""
    aten = torch.ops.aten
    o, lse, cum_q, cum_k, max_q, max_k, seed, offset, _ = aten._scaled_dot_product_flash_attention(
        q, k, v, 0.0, causal
    )
    return lambda: aten._scaled_dot_product_flash_attention_backward(
        do, q, k, v, o, lse, cum_q, cum_k, max_q, max_k, 0.0, causal, seed, offset
    )


def cudnn_backward(q, k, v, do, causal: bool) -> Callable[[], object]:
    """cuDNN's backward as one operator."""
    aten = torch.ops.aten
    o, lse, cum_q, cum_k, max_q, max_k, seed, offset, _ = aten._scaled_dot_product_cudnn_attention(
        q, k, v, None, True, 0.0, causal
    )
    return lambda: aten._scaled_dot_product_cudnn_attention_backward(
        do, q, k, v, o, lse, seed, offset, None, cum_q, cum_k, max_q, max_k, 0.0, causal
    )


def run(D: int, causal: bool, N: int) -> dict[str, float]:
    """Milliseconds by version at one cell of the grid."""
    B, H = max(TOKENS // N, 1), WIDTH // D
    q, k, v, do = (torch.randn(B, H, N, D, device="cuda", dtype=torch.float16) for _ in range(4))
    with torch.no_grad():
        o, lse = solution("flash_forward")(q, k, v, causal=causal)
    ours = solution("flash2_backward")
    fns = {"ours": lambda: ours(q, k, v, o, lse, do, causal=causal)}
    for name, peer in (("sdpa flash", flash_backward), ("cudnn", cudnn_backward)):
        try:
            fns[name] = peer(q, k, v, do, causal)
        except RuntimeError as error:
            print(f"  {name}: not available here ({str(error).splitlines()[0][:90]})")
    return timing.interleaved_ms(fns)


def main() -> int:
    """Print one line a cell. 1 without a GPU."""
    if not torch.cuda.is_available():
        print(
            "flashlab bench flash2_backward measures speed and needs an NVIDIA GPU; none is here."
        )
        return 1
    print(", ".join(f"{k} {v}" for k, v in timing.card().items()))
    for D, causal, N in GRID:
        times = run(D, causal, N)
        work = 2.5 * flops(max(TOKENS // N, 1), WIDTH // D, N, D, causal)
        cells = [
            f"{name} {work / ms / 1e9:6.1f} ({ms / times['ours']:.2f}x)"
            for name, ms in times.items()
            if not math.isnan(ms)
        ]
        mask = "causal" if causal else "full"
        print(f"D {D:3d} {mask:6s} N {N:5d}: " + "  ".join(cells), flush=True)
    return 0
