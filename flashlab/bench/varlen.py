"""``flashlab bench varlen_forward``: seeded lengths, beside equal ones with as many tokens.

TFLOP/s = 4 H D sum of N^2 over the sequences / time, halved under a causal mask, for each version
by its own lengths: what a packed batch loses is the ratio of the two rates.
"""

from collections.abc import Callable, Iterator

import torch

from flashlab.bench import peers, table, timing
from flashlab.bench.forward import flops

H, D, SEQUENCES = 16, 128, 16


def lengths(seed: int = 0) -> list[int]:
    """512 to 4,096 tokens each; the last makes the total a multiple of the number."""
    draw = torch.randint(512, 4097, (SEQUENCES,), generator=torch.Generator().manual_seed(seed))
    found = draw.tolist()
    found[-1] -= sum(found) % SEQUENCES
    return found


def cell(ours: Callable, causal: bool) -> dict:
    """All times are of the packed batch but ``equal``, which is scaled by its FLOPs."""
    found = lengths()
    mean, total = sum(found) // SEQUENCES, sum(found)
    half = {"device": "cuda", "dtype": torch.float16}
    packed = [torch.randn(total, H, D, **half) for _ in range(3)]
    batch = [torch.randn(SEQUENCES, H, mean, D, **half) for _ in range(3)]
    cu = torch.tensor([0, *found], device="cuda").cumsum(0).to(torch.int32)
    equal = table.answer("flash2_forward")
    times = timing.interleaved_ms(
        {
            "ours": lambda: ours(*packed, cu, cu, max_seqlen_q=max(found), causal=causal),
            "equal": lambda: equal(*batch, causal=causal),
            "sdpa flash": peers.varlen_flash(*packed, cu, max(found), causal),
        }
    )
    work = sum(flops(1, H, n, D, causal) for n in found)
    times["equal"] *= work / flops(SEQUENCES, H, mean, D, causal)
    name = f"{'causal' if causal else 'full':6s} {SEQUENCES} sequences, {total} tokens"
    return table.row(name, work, "TFLOP/s", times, lengths=found)


def rows(mine: bool) -> Iterator[dict]:
    """Full, then causal."""
    ours = table.answer("varlen_forward", mine)
    for causal in (False, True):
        yield cell(ours, causal)


def main(slug: str, mine: bool = False, out: str | None = None) -> int:
    """Print one line full and one causal; 1 without a GPU."""
    return table.main(slug, rows(mine), mine, out)
