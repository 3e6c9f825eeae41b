"""``flashlab bench triad | row_softmax | tiled_matmul``: share of what the card can do.

Bandwidth kernels run on tensors of 1 GiB and more, the product at 8192^3, all in fp16.
"""

from collections.abc import Callable

import torch

from flashlab.bench import table, timing


def _triad(ours: Callable) -> tuple[dict[str, Callable], float]:
    x, y = (torch.randn(1 << 29, device="cuda", dtype=torch.float16) for _ in range(2))
    fns = {"ours": lambda: ours(x, y, 2.5), "torch": lambda: torch.add(x, y, alpha=2.5)}
    return fns, 3 * x.nbytes


def _row_softmax(ours: Callable) -> tuple[dict[str, Callable], float]:
    x = torch.randn(1 << 17, 4096, device="cuda", dtype=torch.float16)
    return {"ours": lambda: ours(x), "torch": lambda: torch.softmax(x, -1)}, 2 * x.nbytes


def _tiled_matmul(ours: Callable) -> tuple[dict[str, Callable], float]:
    n = 8192
    a, b = (torch.randn(n, n, device="cuda", dtype=torch.float16) for _ in range(2))
    return {"ours": lambda: ours(a, b), "torch": lambda: a @ b}, 2 * n**3


CASES = {"triad": _triad, "row_softmax": _row_softmax, "tiled_matmul": _tiled_matmul}


def main(slug: str, mine: bool = False) -> int:
    """Print one line: our rate (``mine``: your file's), torch's, and the share of the ceiling.

    1 without a GPU.
    """
    if not torch.cuda.is_available():
        print(f"flashlab bench {slug} measures speed and needs an NVIDIA GPU; none is here.")
        return 1
    top = timing.ceilings()
    fns, work = CASES[slug](table.answer(slug, mine))
    times = timing.interleaved_ms(fns)
    rates = {name: work / ms / 1e9 for name, ms in times.items()}  # TB/s, or TFLOP/s
    if slug == "tiled_matmul":
        words = f"{rates['ours']:.0f} TFLOP/s, {rates['ours'] / rates['torch']:.2f} of torch"
    else:
        share = rates["ours"] / top["copy_tbs"]
        words = f"{rates['ours']:.2f} TB/s, {share:.2f} of copy, torch {rates['torch']:.2f}"
    print(f"{slug}: {words} ({torch.cuda.get_device_name(0)})")
    return 0
