"""``flashlab bench flash_forward``: the forward pass beside SDPA, standard attention, FA1 order.

TFLOP/s = 4 B H N^2 D / time, halved under a causal mask. Every ratio is of one run.
"""

import json
import math
from collections.abc import Callable
from pathlib import Path

import torch
from torch.nn.attention import SDPBackend

from flashlab import hardware
from flashlab.bench import table, timing
from flashlab.bench.forward import TOKENS, WIDTH, flops
from flashlab.bench.peers import sdpa
from flashlab.worked import flash1, standard

GRID = [(D, causal, N) for D in (128, 64) for causal in (False, True) for N in (1024, 4096, 8192)]
QUICK = [(64, False, 1024), (64, True, 1024)]


def versions_of(ours, q, k, v, causal: bool, slow: bool) -> dict[str, Callable[[], object]]:
    """Every version that is timed; ``slow`` adds the two that the course only studies."""
    fns = {
        "ours": lambda: ours(q, k, v, causal=causal),
        "sdpa flash": sdpa(q, k, v, causal, SDPBackend.FLASH_ATTENTION),
        "cudnn": sdpa(q, k, v, causal, SDPBackend.CUDNN_ATTENTION),
    }
    if slow:
        fns["standard"] = lambda: standard.standard_forward(q, k, v, causal=causal)
        fns["FA1 order"] = lambda: flash1.flash1_forward(q, k, v, causal=causal)
    return fns


def run(ours: Callable, quick: bool = False) -> list[dict]:
    """One row a cell of the grid: sizes and milliseconds by version."""
    rows = []
    tokens, width = (2048, 512) if quick else (TOKENS, WIDTH)
    for D, causal, N in QUICK if quick else GRID:
        B, H = max(tokens // N, 1), width // D
        q, k, v = (torch.randn(B, H, N, D, device="cuda", dtype=torch.float16) for _ in range(3))
        times = timing.interleaved_ms(versions_of(ours, q, k, v, causal, slow=N >= 4096 or quick))
        rows.append({"B": B, "H": H, "N": N, "D": D, "causal": causal, "ms": times})
        print(line(rows[-1]), flush=True)
        del q, k, v
        torch.cuda.empty_cache()
    return rows


def line(row: dict) -> str:
    """One row as text: TFLOP/s and what ours is as a ratio of each."""
    work = flops(row["B"], row["H"], row["N"], row["D"], row["causal"])
    ours = row["ms"]["ours"]
    cells = [
        f"{name} {work / ms / 1e9:6.1f}" + ("" if name == "ours" else f" ({ms / ours:.2f}x)")
        for name, ms in row["ms"].items()
        if not math.isnan(ms)
    ]
    mask = "causal" if row["causal"] else "full"
    return f"D {row['D']:3d} {mask:6s} N {row['N']:5d}: " + "  ".join(cells)


def memory_mb(ours: Callable, N: int, D: int) -> dict[str, float]:
    """Peak extra memory in MB of one forward pass (B 1, H 4) beyond its inputs."""
    q, k, v = (torch.randn(1, 4, N, D, device="cuda", dtype=torch.float16) for _ in range(3))
    found = {}
    for name, fn in (("ours", ours), ("standard", standard.standard_forward)):
        fn(q, k, v)
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        fn(q, k, v)
        torch.cuda.synchronize()
        found[name] = (torch.cuda.max_memory_allocated() - before) / 1e6
    return found


def standard_share(row: dict, copy_tbs: float) -> float:
    """Share of copy bandwidth that standard attention reaches over its 4 N^2 passes of s and p."""
    moved = 4 * row["B"] * row["H"] * row["N"] ** 2 * 2
    return moved / row["ms"]["standard"] / 1e9 / copy_tbs


def main(quick: bool = False, solution: bool = True, out: str | None = None) -> int:
    """Measure and print; saves JSON to ``out`` if given. Exit code 1 without a GPU."""
    if not torch.cuda.is_available():
        print("flashlab bench flash_forward measures speed and needs an NVIDIA GPU; none is here.")
        return 1
    ours = table.answer("flash_forward", mine=not solution)
    where = "the course's solution" if solution else "your file"
    facts = timing.card()
    print(", ".join(f"{k} {v}" for k, v in facts.items()))
    top = timing.ceilings()
    print(f"ceilings: matmul {top['matmul_tflops']:.0f} TFLOP/s, copy {top['copy_tbs']:.2f} TB/s")
    print(f"TFLOP/s, ours = {where}; in brackets how many times the time of ours")
    rows = run(ours, quick)
    for row in rows:
        if "standard" in row["ms"] and not math.isnan(row["ms"]["standard"]):
            share = standard_share(row, top["copy_tbs"])
            print(
                f"standard at D {row['D']} N {row['N']}: {share:.2f} of copy bandwidth over 4 N^2"
            )
    memory = {D: memory_mb(ours, 1024 if quick else 8192, D) for D in (64, 128)}
    print("extra memory, MB:", memory)
    sheet = hardware.find(facts["card"])
    record = {"facts": facts, "ceilings": top, "rows": rows, "memory_mb": memory}
    record["data_sheet"] = sheet.name if sheet else None
    if out:
        Path(out).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0
