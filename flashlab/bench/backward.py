"""``flashlab bench flash2_backward``: the backward pass beside SDPA's.

TFLOP/s = 10 B H N^2 D / time (2.5 times the forward), halved under a causal mask.
"""

import math
from collections.abc import Callable

import torch
from torch.nn.attention import SDPBackend

from flashlab.bench import timing
from flashlab.bench.attention import TOKENS, WIDTH, flops, sdpa
from flashlab.bench.elementary import solution

GRID = [(D, causal, N) for D in (128, 64) for causal in (False, True) for N in (1024, 4096, 16384)]


def sdpa_backward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, do: torch.Tensor, causal: bool, backend
) -> Callable[[], object]:
    """The backward of torch's attention alone, from a graph that is kept."""
    leaves = [x.detach().requires_grad_() for x in (q, k, v)]
    o = sdpa(*leaves, causal, backend)()
    return lambda: torch.autograd.grad(o, leaves, do, retain_graph=True)


def run(D: int, causal: bool, N: int) -> dict[str, float]:
    """Milliseconds by version at one cell of the grid."""
    B, H = max(TOKENS // N, 1), WIDTH // D
    q, k, v, do = (torch.randn(B, H, N, D, device="cuda", dtype=torch.float16) for _ in range(4))
    with torch.no_grad():
        o, lse = solution("flash_forward")(q, k, v, causal=causal)
    ours = solution("flash2_backward")
    fns = {"ours": lambda: ours(q, k, v, o, lse, do, causal=causal)}
    for name, backend in (
        ("sdpa flash", SDPBackend.FLASH_ATTENTION),
        ("cudnn", SDPBackend.CUDNN_ATTENTION),
    ):
        fns[name] = sdpa_backward(q, k, v, do, causal, backend)
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
