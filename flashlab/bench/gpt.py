"""``flashlab bench gpt``: a training step of GPT-2 medium's shape with three attentions.

Forward pass, backward pass and AdamW, fp32 weights with bf16 autocast. Ours is the course's
solutions, beside SDPA's FlashAttention-2 and standard attention. Also the memory of one layer of
attention, and whether the loss of a small GPT follows SDPA's over 300 steps.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import torch

from flashlab import hardware
from flashlab.bench import timing
from flashlab.capstone import peers, train
from flashlab.capstone.gpt import GPT2_MEDIUM, Attend
from flashlab.capstone.ladder import Ladder, Row, peak_bytes
from flashlab.routes import call_of, course_attention, plan

TOKENS = 16384  # of a step: B = TOKENS / N
LENGTHS = (1024, 2048, 4096, 8192, 16384)
LONG = 8192  # where standard attention has room for B 1
ROUNDS = 5
EVERY = 5  # losses that a record keeps
AGAIN = "sdpa flash again"
HOW = "median of five interleaved steps, CUDA graphs, a pause before each"
ATTENTIONS: dict[str, Attend] = {
    "ours": course_attention,
    "sdpa flash": peers.sdpa,
    "standard": peers.standard,
}


def steps() -> Iterator[dict]:
    """The table: all three at every length, then B 1 at the length that standard still holds."""
    ladder = Ladder(GPT2_MEDIUM, "cuda", ATTENTIONS)
    rungs = [*((TOKENS // N, N) for N in LENGTHS), (1, LONG)]
    for row in ladder.climb(rungs, ROUNDS):
        print(line(row, ladder.work(row)), flush=True)
        yield row.as_dict()


def line(row: Row, work: float) -> str:
    """One row as text."""
    cells, ours = [], row.ms["ours"]
    for name, ms in row.ms.items():
        if ms is None:
            cells.append(f"{name} out of memory")
            continue
        more = "" if name == "ours" else f", {ms / ours:.2f}x"
        peak = row.peak_bytes[name] / 1e9
        cells.append(f"{name} {ms:.1f} ms ({work / ms / 1e9:.0f} TFLOP/s, {peak:.1f} GB{more})")
    return f"B {row.B:2d} N {row.N:5d}: " + "  ".join(cells)


def layer_bytes(N: int = LONG) -> dict[str, int | None]:
    """Peak memory of one layer of attention, forward and backward, its inputs among it."""
    H, D = GPT2_MEDIUM.heads, GPT2_MEDIUM.D
    found = {}
    for name, attend in ATTENTIONS.items():
        torch.cuda.empty_cache()
        before = torch.cuda.memory_allocated()

        def both(attend: Attend = attend) -> None:
            q, k, v = (
                torch.randn(1, H, N, D, device="cuda", dtype=torch.bfloat16, requires_grad=True)
                for _ in range(3)
            )
            o = attend(q, k, v, causal=True)
            torch.autograd.grad(o, (q, k, v), torch.ones_like(o))

        peak = peak_bytes(both)
        found[name] = None if peak is None else peak - before
    return found


def losses() -> dict:
    """300 steps of the small GPT with each attention, from the same start on the same batches.

    Every ``EVERY``-th loss, and the largest difference from SDPA's among all of them. SDPA trains
    twice: its backward pass adds in any order, so it is some way from itself too.
    """
    taught = ATTENTIONS | {AGAIN: peers.sdpa}
    runs = {name: train.train(train.ON_GPU, attend, name) for name, attend in taught.items()}
    sheet = hardware.find(torch.cuda.get_device_name(0))
    what, size = train.ON_GPU, train.ON_GPU.size
    told = {"B": what.B, "N": what.N, "layers": size.layers, "heads": size.heads}
    told |= {"width": size.width, "rate": what.rate}
    found = {"every": EVERY, "steps": what.steps, "plan": told, "runs": {}}
    for name, run in runs.items():
        far = train.apart(run, runs["sdpa flash"])
        found["runs"][name] = {
            "losses": [round(loss, 4) for loss in run.losses[::EVERY]],
            "apart": far,
            "seconds": round(run.seconds, 6),
            "peak_bytes": run.peak_bytes,
            "kept_bytes": run.kept_bytes,
        }
        share = f", MFU {run.mfu(sheet.peak('bfloat16')):.3f}" if sheet else ""
        print(
            f"small GPT, {name}: {1e3 * run.seconds:.1f} ms a step, "
            f"{run.tokens_per_second:.0f} tokens/s{share}, last loss {run.losses[-1]:.4f}, "
            f"at most {far:.5f} from SDPA's, peak {run.peak_bytes / 1e9:.2f} GB",
            flush=True,
        )
    return found


def routes_taken() -> list[str]:
    """Whose kernels "ours" are on this card, in sentences."""
    q = torch.empty(1, 16, 128, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    return list(plan(call_of(q, q, q), own=False).whose)


def main(slug: str, mine: bool = False, out: str | None = None) -> int:
    """Print the table, the layer's memory and the losses; 1 without a GPU."""
    if mine:
        raise ValueError("gpt times the course's solutions (chapter 12 yours): leave --mine away")
    if not torch.cuda.is_available():
        print("flashlab bench gpt measures speed and needs an NVIDIA GPU; none is here.")
        return 1
    facts = timing.card() | {"how": HOW}
    print(", ".join(f"{k} {v}" for k, v in facts.items()))
    facts["kernels"] = "; ".join(routes_taken())
    print(facts["kernels"])
    layer = layer_bytes()
    print("one layer, MB:", {k: v and round(v / 1e6, 1) for k, v in layer.items()})
    trained = losses()
    rows = list(steps())
    if out:
        record = {"slug": slug, "facts": facts, "rows": rows, "layer_bytes": layer}
        record["small_gpt"] = trained
        Path(out).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0
