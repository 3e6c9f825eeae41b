"""``flashlab bench ring_attention``: a ring of GPUs beside one GPU, forward and backward together.

Ideal is one GPU's time for the whole sequence, with the same kernels, divided by the number of
GPUs. Times are wall clock between two synchronisations, the slowest rank's, over several calls
back to back; versions take turns, the median of the rounds counts.
"""

import itertools
import json
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist

from flashlab import kernels, ring, sources
from flashlab.bench import ring_rank, timing
from flashlab.loading import load_module
from flashlab.ring.local import fuse_merge, use_kernels

LENGTHS = (8192, 16384, 32768, 65536)
H, H_KV, D = 32, 8, 128
ROUNDS = 5
LEAST_S = 0.05  # calls are repeated back to back until they take about so long
MESSAGES = (1 << 20, 1 << 24, 1 << 27)  # bytes; what a block of keys and values may take
VERSIONS = {  # keyword arguments of ring_attention, and whether messages travel meanwhile
    "ring": ({"causal": True, "zigzag": True}, True),
    "no overlap": ({"causal": True, "zigzag": True}, False),
    "in order": ({"causal": True, "zigzag": False}, True),
}


def answer(mine: bool, fused: bool = True) -> ModuleType:
    """The solution with kernels in the place of its attention and merge, or your file.

    Args:
        mine: Your file; the given attention alone is replaced.
        fused: Put one kernel in the place of the solution's merge.
    """
    if mine:
        module = kernels.entry("ring_attention").module()
    else:
        path = str(sources.solution_path("ring_attention"))
        module = load_module(sources.solution_text("ring_attention"), path)
    said = use_kernels(module, mine)
    if fused and not mine:
        said.append(fuse_merge(module))
    print(*said, sep="\n")
    return module


def at_once(pass_on: Callable, arrived: Callable) -> Callable:
    """``pass_on`` that waits for its messages before anything is computed: no overlap."""

    def waits(block: Any, group: Any, *way: int) -> Any:
        return arrived(pass_on(block, group, *way)), []

    return waits


class Bench:
    """What one rank measures."""

    def __init__(self, member: ring.Member, module: ModuleType, dtype: torch.dtype) -> None:
        self.member, self.module, self.dtype = member, module, dtype
        self.waiting = at_once(module.pass_on, module.arrived)
        self.passing = module.pass_on

    def cell(self, N: int) -> dict[str, list[float]]:
        """Milliseconds of every round by version, for a sequence of N tokens."""
        fns = {"one GPU": self._alone(N)} | {name: self._ring(N, name) for name in VERSIONS}
        repeats = {}
        for name, fn in fns.items():
            self._seconds(fn, 1)  # compile
            repeats[name] = self._agreed(LEAST_S / self._seconds(fn, 1))
            self.member.beat()
        times: dict[str, list[float]] = {name: [] for name in fns}
        for _, (name, fn) in itertools.product(range(ROUNDS), fns.items()):
            times[name].append(1e3 * self._seconds(fn, repeats[name]))
            self.member.beat()
        return times

    def link(self, nbytes: int) -> list[float]:
        """GB/s that arrive here while as many leave, round by round."""
        block = torch.zeros(nbytes, dtype=torch.uint8, device=self.member.device)

        def exchange() -> None:
            self.module.arrived(self.passing(block, self.member.group))

        self._seconds(exchange, 3)
        return [nbytes / self._seconds(exchange, 10) / 1e9 for _ in range(ROUNDS)]

    def _tensors(self, rows: int) -> list[torch.Tensor]:
        torch.manual_seed(self.member.rank)
        shapes = [(1, heads, rows, D) for heads in (H, H_KV, H_KV, H)]
        made = {"dtype": self.dtype, "device": self.member.device}
        return [torch.randn(shape, **made) for shape in shapes]

    def _alone(self, N: int) -> Callable[[], object]:
        q, k, v, do = self._tensors(N)
        options = {"causal": True, "sm_scale": D**-0.5}

        def call() -> object:
            o, lse = self.module.attend(q, k, v, **options)
            return self.module.attend_backward(q, k, v, o, lse, do, **options)

        return call

    def sent(self, N: int) -> int:
        """Bytes that this rank sends in one call, forward and backward."""
        passing, blocks = self.passing, []

        def counted(block: torch.Tensor, group: Any, *way: int) -> Any:
            blocks.append(block.nbytes)
            return passing(block, group, *way)

        self.passing = counted
        self._ring(N, "ring")()
        self.passing = passing
        return sum(blocks)

    def _ring(self, N: int, name: str) -> Callable[[], object]:
        options, overlap = VERSIONS[name]
        *qkv, do = self._tensors(N // self.member.world)
        leaves = [x.requires_grad_() for x in qkv]

        def call() -> object:
            self.module.pass_on = self.passing if overlap else self.waiting
            o, _ = self.module.ring_attention(*leaves, self.member.group, **options)
            return torch.autograd.grad(o, leaves, do)

        return call

    def _seconds(self, fn: Callable[[], object], repeats: int) -> float:
        """Wall clock of one call, of several back to back that all ranks begin together."""
        self._wait()
        dist.barrier(group=self.member.group)
        self._wait()
        start = time.perf_counter()
        for _ in range(repeats):
            fn()
        self._wait()
        return (time.perf_counter() - start) / repeats

    def _agreed(self, wish: float) -> int:
        """The same number of repeats on all ranks, else the ring would stand still."""
        most = torch.tensor([float(wish)], device=self.member.device)
        dist.all_reduce(most, group=self.member.group)
        return max(1, min(20, round(float(most) / self.member.world)))

    def _wait(self) -> None:
        if self.member.device.type == "cuda":
            torch.cuda.synchronize()


def measure(
    world: int,
    module: ModuleType,
    lengths: Iterable[int] = LENGTHS,
    backend: str = "nccl",
    dtype: torch.dtype = torch.bfloat16,
) -> dict[str, Any]:
    """Facts of the card, the link's rate, and one row a length.

    Args:
        world: GPUs.
        module: As ``answer`` makes it.
        lengths: Tokens of the whole sequence.
        backend: ``"gloo"`` runs the same on CPU processes, to try it out.
        dtype: Of q, k and v.
    """

    def work(member: ring.Member) -> dict[str, Any]:
        bench = Bench(member, module, dtype)
        facts = timing.card() if member.rank == 0 and backend == "nccl" else {}
        found = {"facts": facts, "link": {n: bench.link(n) for n in MESSAGES}}
        found["sent"] = {N: bench.sent(N) for N in lengths}
        return found | {"cells": {N: bench.cell(N) for N in lengths}}

    ranks = ring.run(world, work, backend=backend, seconds=60.0)
    links = [{int(n): statistics.median(r) for n, r in rank["link"].items()} for rank in ranks]
    link = {n: min(rates[n] for rates in links) for n in links[0]}
    rows = [
        row(N, world, [rank["cells"][str(N)] for rank in ranks])
        | {"sent_bytes": max(rank["sent"][str(N)] for rank in ranks)}
        for N in lengths
    ]
    how = "wall clock of the slowest rank, median of interleaved rounds, calls back to back"
    facts = ranks[0]["facts"] | {"GPUs": str(world), "how": how, "nccl": _nccl(backend)}
    return {"facts": facts, "link_gbs": link, "rows": rows}


def row(N: int, world: int, ranks: list[Mapping[str, list[float]]]) -> dict[str, Any]:
    """Medians over rounds of the slowest rank, and the share of the ideal of each version."""
    ms = {
        name: statistics.median(map(max, zip(*(times[name] for times in ranks), strict=True)))
        for name in ranks[0]
    }
    ideal = ms["one GPU"] / world
    share = {name: ideal / took for name, took in ms.items() if name != "one GPU"}
    sizes = {"N": N, "world": world, "B": 1, "H": H, "H_kv": H_KV, "D": D}
    return {**sizes, "causal": True, "ms": ms, "share": share}


def line(found: Mapping[str, Any]) -> str:
    """One row as text."""
    cells = [
        f"{name} {found['ms'][name]:.2f} ms ({share:.2f} of ideal)"
        for name, share in found["share"].items()
    ]
    return f"N {found['N']:6d}: one GPU {found['ms']['one GPU']:.2f} ms, " + ", ".join(cells)


def _nccl(backend: str) -> str:
    return ".".join(map(str, torch.cuda.nccl.version())) if backend == "nccl" else "none"


def main(slug: str, mine: bool = False, out: str | None = None) -> int:
    """Print one line a length; with one GPU what a rank computes alone; 1 without a GPU."""
    world = torch.cuda.device_count()
    if world == 1 and not mine:
        return ring_rank.main(answer(mine, fused=False), slug, out)
    if world < 2:
        print(f"flashlab bench {slug} needs two NVIDIA GPUs or more; {world} here.")
        return 1
    found = measure(world, answer(mine))
    print(", ".join(f"{k} {v}" for k, v in found["facts"].items()))
    rates = ", ".join(f"{n >> 20} MB {rate:.0f}" for n, rate in found["link_gbs"].items())
    print(f"link, GB/s each way at once: {rates}")
    for one in found["rows"]:
        print(line(one))
    if out:
        record = {"slug": slug, **found}
        Path(out).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0
