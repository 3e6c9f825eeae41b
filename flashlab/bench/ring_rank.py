"""``flashlab bench ring_attention`` on one GPU: what a rank of two computes, without messages.

The other rank's blocks lie ready, so this is what a ring takes on links of endless speed: the
share of the ideal that it cannot pass. Kernels, merges, casts and sums are the real ones.
"""

import itertools
import json
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch

from flashlab.bench import timing
from flashlab.worked.merge_pair import merge_pair

H, H_KV, D, WORLD = 32, 8, 128, 2
LENGTHS = (8192,)  # at long ones nothing but the kernels counts
HOW = (
    "one rank of two, the other's blocks ready, no messages; wall clock of the slower rank, "
    "median of rounds"
)
ROUNDS = 5
LEAST_S = 0.05


def versions(module: ModuleType) -> dict[str, dict[str, Any]]:
    """Name -> what to put into the module; the last one is what ``bench ring_attention`` times."""
    plain, wide = module.merge, torch.float32
    return {
        "sums in fp32": {"kept_in": lambda q, world: wide, "merge": plain},
        "sums of two as they are": {"kept_in": module.kept_in, "merge": plain},
        "merge in one kernel": {"kept_in": module.kept_in, "merge": merge_pair},
    }


@contextmanager
def rank_of(module: ModuleType, rank: int, ready: dict[torch.dtype, torch.Tensor], **more: Any):
    """The module as ``rank`` of two sees it, with the other's block in the place of messages."""
    seen = SimpleNamespace(
        get_rank=lambda group: rank, get_world_size=lambda group: WORLD, ProcessGroup=object
    )
    changes = {"dist": seen, "pass_on": lambda block, *_: (ready[block.dtype], []), **more}
    before = {name: vars(module)[name] for name in changes}
    vars(module).update(changes)
    try:
        yield
    finally:
        vars(module).update(before)


def rows(
    module: ModuleType,
    lengths: Iterable[int] = LENGTHS,
    device: str = "cuda",
    dtype: torch.dtype = torch.bfloat16,
) -> Iterator[dict[str, Any]]:
    """One row a length: milliseconds of one GPU, and of the slower rank by version."""
    for N in lengths:
        whole, part = _tensors(N, device, dtype), _tensors(N // WORLD, device, dtype)
        block = torch.randn(2, 1, H_KV, N // WORLD, D, device=device)
        ready = {dtype: block.to(dtype), torch.float32: block}
        ms = {"one GPU": _ms(lambda x=whole: _alone(module, *x), device)}
        for name, changes in versions(module).items():
            slowest = []
            for rank in range(WORLD):
                with rank_of(module, rank, ready, **changes):
                    slowest.append(_ms(lambda x=part: _ring(module, *x), device))
            ms[name] = max(slowest)
        share = {name: ms["one GPU"] / WORLD / took for name, took in ms.items()}
        del share["one GPU"]
        yield {"N": N, "world": WORLD, "H": H, "H_kv": H_KV, "D": D, "ms": ms, "share": share}


def _tensors(n: int, device: str, dtype: torch.dtype) -> list[torch.Tensor]:
    shapes = [(1, heads, n, D) for heads in (H, H_KV, H_KV, H)]
    return [torch.randn(shape, device=device, dtype=dtype) for shape in shapes]


def _alone(module: ModuleType, q: Any, k: Any, v: Any, do: Any) -> object:
    options = {"causal": True, "sm_scale": D**-0.5}
    o, lse = module.attend(q, k, v, **options)
    return module.attend_backward(q, k, v, o, lse, do, **options)


def _ring(module: ModuleType, *tensors: torch.Tensor) -> object:
    *qkv, do = tensors
    leaves = [x.requires_grad_() for x in qkv]
    o, _ = module.ring_attention(*leaves, None, causal=True, zigzag=True)
    return torch.autograd.grad(o, leaves, do)


def _ms(fn: Callable[[], object], device: str) -> float:
    """Wall clock of one call, of several back to back; the median of the rounds."""
    seconds = _seconds(fn, 1, device), _seconds(fn, 1, device)  # the first one compiles
    repeats = max(1, min(20, round(LEAST_S / seconds[1])))
    return 1e3 * statistics.median(_seconds(fn, repeats, device) for _ in range(ROUNDS))


def _seconds(fn: Callable[[], object], repeats: int, device: str) -> float:
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    time.sleep(timing.PAUSE_S)
    start = time.perf_counter()
    for _ in itertools.repeat(None, repeats):
        fn()
    wait()
    return (time.perf_counter() - start) / repeats


def line(row: dict[str, Any]) -> str:
    """One row as text."""
    cells = (f"{n} {row['ms'][n]:.2f} ms ({s:.2f} of ideal)" for n, s in row["share"].items())
    return f"N {row['N']:6d}: one GPU {row['ms']['one GPU']:.2f} ms, " + ", ".join(cells)


def main(module: ModuleType, slug: str, out: str | None = None) -> int:
    """Print one line a length; saves them as JSON to ``out`` if given."""
    facts = timing.card() | {"how": HOW}
    print(", ".join(f"{k} {v}" for k, v in facts.items()))
    found = []
    for row in rows(module):
        print(line(row), flush=True)
        found.append(row)
    if out:
        record = {"slug": slug, "facts": facts, "rows": found}
        Path(out).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0
