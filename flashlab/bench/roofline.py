"""``flashlab bench roofline``: the roofline of this machine, drawn by one operation.

``c = a b`` with a of shape [N, K] and b of shape [K, N] is the first step of attention, K being
its head dimension. The longer K, the more FLOPs fall on each byte: a sweep over K climbs the slope
and then meets the flat roof. The same runs on a GPU (fp16) and, for readers without one, on the
CPU (fp32).
"""

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from flashlab.bench import timing

GPU_SIZES = 8192, (16, 32, 64, 128, 256, 512, 1024, 4096)
CPU_SIZES = 3072, (1, 4, 16, 64, 256)
COPY_ELEMENTS = 1 << 24  # of the copy on a CPU: 64 MB in, 64 MB out


def measure(device: str | None = None, sizes: tuple | None = None) -> dict:
    """Bandwidth, peak and the sweep of this machine.

    Args:
        device: ``"cuda"`` or ``"cpu"``; None means the GPU if there is one.
        sizes: (N, values of K); None means those of the device.

    Returns:
        record: ``facts`` (card, date, torch, how), ``dtype``, ``peak`` in FLOP/s and ``bandwidth``
            in bytes/s, both the best that was seen, and ``rows`` with ``K``, ``intensity`` in
            FLOPs a byte and ``flops`` a second.
    """
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    cuda = device == "cuda"
    dtype = torch.float16 if cuda else torch.float32
    n, inner = sizes or (GPU_SIZES if cuda else CPU_SIZES)
    c = torch.empty(n, n, device=device, dtype=dtype)
    products = {}
    for k in inner:
        a, b = (torch.randn(shape, device=device, dtype=dtype) for shape in ((n, k), (k, n)))
        products[k] = lambda a=a, b=b: torch.mm(a, b, out=c)
    seconds = _on_gpu(products) if cuda else _on_cpu(products)
    rows, best = [], 0.0
    for k, took in seconds.items():
        flops, moved = 2 * n * n * k, (2 * n * k + n * n) * c.element_size()
        best = max(best, moved / took)
        rows.append({"K": k, "intensity": flops / moved, "flops": flops / took})
    top = timing.ceilings() if cuda else {"copy_tbs": _cpu_copy() / 1e12}
    peak = max([row["flops"] for row in rows] + [top.get("matmul_tflops", 0) * 1e12])
    return {
        "facts": _facts(cuda),
        "dtype": str(dtype).removeprefix("torch."),
        "N": n,
        "peak": peak,
        "bandwidth": max(best, top["copy_tbs"] * 1e12),
        "rows": rows,
    }


def _on_gpu(fns: Mapping[int, Callable]) -> dict[int, float]:
    return {k: ms / 1e3 for k, ms in timing.interleaved_ms(fns).items()}


def _on_cpu(fns: Mapping[int, Callable], rounds: int = 2) -> dict[int, float]:
    """Seconds of each function: the best of some rounds in which all take turns."""
    best = dict.fromkeys(fns, float("inf"))
    for _ in range(rounds + 1):  # the first warms up, and may be the best all the same
        for k, fn in fns.items():
            start = time.perf_counter()
            fn()
            best[k] = min(best[k], time.perf_counter() - start)
    return best


def _cpu_copy() -> float:
    """Bytes a second of a copy between vectors that no cache holds."""
    x = torch.randn(COPY_ELEMENTS)
    y = torch.empty_like(x)
    return 2 * x.nbytes / _on_cpu({0: lambda: torch.neg(x, out=y)})[0]


def _facts(cuda: bool) -> dict[str, str]:
    if cuda:
        return timing.card() | {"how": "medians of CUDA graph replays with a cold L2"}
    card = f"CPU with {torch.get_num_threads()} threads"
    facts = {"card": card, "torch": torch.__version__, "date": time.strftime("%Y-%m-%d")}
    return facts | {"how": "best of 3 runs"}


def main(slug: str, mine: bool = False, out: str | None = None) -> int:
    """Print the sweep; saves the record as JSON to ``out`` if given. 1 without a GPU."""
    if not torch.cuda.is_available():
        print(
            f"flashlab bench {slug} measures a GPU, and none is here; chapter 01 measures a CPU."
        )
        return 1
    record = measure("cuda")
    print(", ".join(f"{k} {v}" for k, v in record["facts"].items()))
    peak, bandwidth = record["peak"], record["bandwidth"]
    print(f"peak {peak / 1e12:.0f} TFLOP/s, copy {bandwidth / 1e12:.2f} TB/s")
    for row in record["rows"]:
        roof = min(peak, bandwidth * row["intensity"])
        print(
            f"K {row['K']:5d}: {row['intensity']:7.1f} FLOPs a byte, "
            f"{row['flops'] / 1e12:6.1f} TFLOP/s, {row['flops'] / roof:.2f} of the roof"
        )
    if out:
        Path(out).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0
