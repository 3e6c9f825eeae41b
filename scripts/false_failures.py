"""Measures how often the comparer fails a correct kernel, over random correct runs.

Each run draws shapes, dtype, magnitudes and a style, emulates a tiled online-softmax kernel in
working precision, and compares it with fp64 under the error budget of ``flashlab.numerics``.

    python scripts/false_failures.py --runs 3000
    PYTHONPATH=. python scripts/false_failures.py --device cuda --runs 3000

With ``--device cuda`` the course's own kernels run instead, compiled (see ``compiled_runs``).
"""

import argparse
import concurrent.futures
import math
import multiprocessing
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import compiled_runs
import torch
from torch import Tensor

from flashlab import numerics
from flashlab.reference.honest import honest_attention, honest_attention_backward, visible

LOG2E = 1 / math.log(2)
PROCESSES = 12  # on a GPU; each compiles its own kernels


@dataclass(frozen=True)
class Style:
    """How a correct kernel is written.

    ``scale`` is "scores", "q" or "k" (scaled in fp32); ``low_p`` casts P to the inputs' dtype.
    """

    block: int
    base: str
    scale: str
    reverse: bool
    normalise: str
    low_p: bool


def draw_style(rng: random.Random) -> Style:
    """A random style."""
    return Style(
        block=rng.choice((16, 32, 64)),
        base=rng.choice(("exp", "exp2")),
        scale=rng.choice(("scores", "q", "k")),
        reverse=rng.random() < 0.3,
        normalise=rng.choice(("end", "tile")),
        low_p=rng.random() < 0.8,
    )


def draw_call(rng: random.Random, generator: torch.Generator) -> dict:
    """Random arguments of attention, ``do`` among them; sizes up to 80 rows and 160 keys."""
    dtype = rng.choice((torch.float16, torch.float32, torch.bfloat16))
    H_kv, group = rng.choice((1, 2)), rng.choice((1, 1, 2))
    N_q, N_k, D = rng.randint(1, 80), rng.randint(1, 160), rng.choice((8, 16, 24, 32, 64, 80))
    N_q = N_k if rng.random() < 0.4 else N_q

    def tensor(heads: int, rows: int, size: float, offset: float = 0.0) -> Tensor:
        shape = (rng.choice((1, 1, 2)) if heads < 0 else B, abs(heads), rows, D)
        return (torch.randn(shape, generator=generator) * size + offset).to(dtype)

    B, size = rng.choice((1, 1, 2)), rng.choice((0.1, 1.0, 1.0, 3.0))
    lean = rng.choice((0.0, 0.0, 1.0))  # pushes every score below zero
    value, offset = rng.choice((0.1, 1.0, 1.0, 30.0)), rng.choice((0.0, 0.0, 5.0))
    return {
        "q": tensor(H_kv * group, N_q, size, lean),
        "k": tensor(H_kv, N_k, size, -lean),
        "v": tensor(H_kv, N_k, value, offset),
        "do": tensor(H_kv * group, N_q, rng.choice((0.1, 1.0, 10.0))),
        "causal": rng.random() < 0.5,
        "sm_scale": rng.choice((None, None, 0.1, 1.0)),
    }


def tiled_attention(call: dict, style: Style) -> dict[str, Tensor]:
    """What a correct tiled kernel of this style returns: o and lse."""
    dtype = call["q"].dtype
    group = call["q"].shape[1] // call["k"].shape[1]
    q = call["q"].float()
    k, v = (call[name].float().repeat_interleave(group, dim=1) for name in "kv")
    scale = q.shape[-1] ** -0.5 if call["sm_scale"] is None else call["sm_scale"]
    scale *= LOG2E if style.base == "exp2" else 1.0
    exp = torch.exp2 if style.base == "exp2" else torch.exp
    q, k = (q * scale if style.scale == "q" else q), (k * scale if style.scale == "k" else k)
    seen = visible(q.shape[2], k.shape[2], call["causal"])
    m = q.new_full(q.shape[:3], -torch.inf)
    l_sum, acc = torch.zeros_like(m), torch.zeros_like(q)
    starts = range(0, k.shape[2], style.block)
    for start in reversed(starts) if style.reverse else starts:
        tile = slice(start, start + style.block)
        s = q @ k[:, :, tile].transpose(-1, -2)
        s = s * scale if style.scale == "scores" else s
        s = s.masked_fill(~seen[:, tile], -torch.inf)
        m_new = torch.maximum(m, s.amax(-1))
        safe = m_new.masked_fill(m_new == -torch.inf, 0.0)
        p, alpha = exp(s - safe[..., None]), exp(m - safe)
        l_new = alpha * l_sum + p.sum(-1)
        p = p.to(dtype).float() if style.low_p else p
        if style.normalise == "tile":
            acc = (acc * (alpha * l_sum)[..., None] + p @ v[:, :, tile]) / nonzero(l_new)
        else:
            acc = acc * alpha[..., None] + p @ v[:, :, tile]
        m, l_sum = m_new, l_new
    o = acc if style.normalise == "tile" else acc / nonzero(l_sum)
    lse = m + torch.log(l_sum)
    if style.base == "exp2":
        lse = (m + torch.log2(l_sum)) * math.log(2)
    return {"o": o.to(dtype), "lse": lse}


def tiled_backward(call: dict, style: Style, o: Tensor, lse: Tensor) -> dict[str, Tensor]:
    """What a correct kernel returns as dq, dk and dv, adding up over key tiles of this style."""
    dtype, (H, H_kv) = call["q"].dtype, (call["q"].shape[1], call["k"].shape[1])
    q, do = call["q"].float(), call["do"].float()
    k, v = (call[name].float().repeat_interleave(H // H_kv, dim=1) for name in "kv")
    scale = q.shape[-1] ** -0.5 if call["sm_scale"] is None else call["sm_scale"]
    seen = visible(q.shape[2], k.shape[2], call["causal"])
    delta = (do * o.float()).sum(-1, keepdim=True)
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    safe = lse.masked_fill(lse == -torch.inf, 0.0)[..., None]
    starts = range(0, k.shape[2], style.block)
    for start in reversed(starts) if style.reverse else starts:
        tile = slice(start, start + style.block)
        s = q @ k[:, :, tile].transpose(-1, -2) * scale
        p = torch.exp(s.masked_fill(~seen[:, tile], -torch.inf) - safe)
        ds = p * (do @ v[:, :, tile].transpose(-1, -2) - delta)
        p, ds = (p.to(dtype).float(), ds.to(dtype).float()) if style.low_p else (p, ds)
        dv[:, :, tile] = p.transpose(-1, -2) @ do
        dk[:, :, tile] = ds.transpose(-1, -2) @ q * scale
        dq = dq + ds @ k[:, :, tile] * scale
    dk, dv = (g.unflatten(1, (H_kv, -1)).sum(2) for g in (dk, dv))
    return {"dq": dq.to(dtype), "dk": dk.to(dtype), "dv": dv.to(dtype)}


def nonzero(l_sum: Tensor) -> Tensor:
    """The denominator as a column, 1 where a row saw no key."""
    return l_sum.masked_fill(l_sum == 0, 1.0)[..., None]


def judge(seed: int) -> list[tuple[str, str, float, dict, Style]]:
    """Findings of one random run as (output, status, error over limit, call, style)."""
    rng, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    call, style = draw_call(rng, generator), draw_style(rng)
    exact = {n: t.double() if isinstance(t, Tensor) else t for n, t in call.items()}
    forward = {n: call[n] for n in ("q", "k", "v", "causal", "sm_scale")}
    reference = honest_attention(**{n: exact[n] for n in forward})[0]
    got = tiled_attention(call, style)
    reference |= honest_attention_backward(**exact)[0]
    honest = honest_attention(**forward)
    honest = [a | b for a, b in zip(honest, honest_attention_backward(**call), strict=True)]
    got |= tiled_backward(call, style, got["o"], got["lse"])
    limits = numerics.limits(reference, honest, call, call["q"].dtype)
    findings = numerics.compare(got, reference, limits)
    return [(f.output, f.status, (f.error or 0) / (f.limit or 1), call, style) for f in findings]


def run_compiled(runs: int, seed: int) -> int:
    """The experiment with compiled kernels on a GPU, in several processes."""
    start, every = time.monotonic(), compiled_runs.families()
    seeds = [range(seed + n, seed + runs, len(every)) for n in range(len(every))]
    processes = min(PROCESSES, os.cpu_count() or 1)
    done: list[compiled_runs.Judged] = []
    broken = []
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(processes, context) as pool:
        jobs = {
            pool.submit(compiled_runs.judge_family, family, some, "cuda"): family
            for family, some in zip(every, seeds, strict=True)
        }
        for job in concurrent.futures.as_completed(jobs):
            try:
                done += job.result()
            except Exception as error:  # a kernel that does not fit must not end the others
                broken.append(f"{jobs[job]}: {type(error).__name__}: {error}")
    print("\n".join(broken), end="\n" if broken else "")
    print(f"{torch.cuda.get_device_name()}, {time.monotonic() - start:.0f} s")
    return int(tell(done) > 0 or bool(broken))


def tell(done: Sequence[compiled_runs.Judged]) -> int:
    """Print failures, the rate of each dtype and the largest errors; the number of failed runs."""
    for one in done:
        if one.status != "pass":
            print(f"seed {one.seed}: {one.output} {one.status} {one.ratio:.2f}", one.family)
    total = 0
    for variant in dict.fromkeys(one.family.variant for one in done):
        mine = [one for one in done if one.family.variant == variant]
        failed = {one.seed for one in mine if one.status != "pass"}
        total += len(failed)
        largest = {}
        for one in mine:
            largest[one.output] = max(largest.get(one.output, 0.0), one.ratio)
        ratios = ", ".join(f"{name} {ratio:.2f}" for name, ratio in largest.items())
        count = len({one.seed for one in mine})
        print(
            f"{variant:9} {len(failed)} of {count} correct runs failed: "
            f"{len(failed) / count:.2%}; largest error over limit: {ratios}"
        )
    print(f"{total} of {len({one.seed for one in done})} correct runs failed")
    return total


def main(arguments: list[str] | None = None) -> int:
    """Runs the experiment; exit status 1 if any correct run failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    options = parser.parse_args(arguments)
    if options.device == "cuda":
        return run_compiled(options.runs, options.seed)
    torch.set_num_threads(1)
    closest, failed, runs_failed = Counter(), Counter(), 0
    for seed in range(options.seed, options.seed + options.runs):
        rows = judge(seed)
        for name, status, ratio, call, style in rows:
            closest[name] = max(closest[name], ratio)
            if status != "pass":
                failed[name] += 1
                shapes = list(call["q"].shape), list(call["k"].shape)
                print(f"seed {seed}: {name} {status} {ratio:.2f}", shapes, call["q"].dtype, style)
        runs_failed += any(status != "pass" for _, status, *_ in rows)
        if sys.stderr.isatty() and seed % 50 == 0:
            print(f"\r{seed - options.seed} runs", end="", file=sys.stderr)
    for name, ratio in closest.items():
        print(
            f"{name:4} false failures {failed[name]:3}; largest error is {ratio:.2f} of its limit"
        )
    rate = runs_failed / options.runs
    print(f"{runs_failed} of {options.runs} correct runs failed: {rate:.2%}")
    return int(runs_failed > 0)


if __name__ == "__main__":
    sys.exit(main())
