"""``flashlab bench standard``: a profile of standard attention, a kernel a step.

Each step is timed alone, as the course's kernel and as PyTorch's own operator, with the least
bytes that it has to move beside it; then the same attention as one FlashAttention kernel. fp16,
causal, dropout 0.1 (the course's flash kernel has none).
"""

import math
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
import triton
from torch.nn.attention import SDPBackend, sdpa_kernel

from flashlab.bench import table, timing
from flashlab.reference.cost import attention_cost, elementwise_cost
from flashlab.worked import chain, standard

STEPS = ("q k^T", "scale", "mask", "softmax", "dropout", "p v")
ONE_KERNEL = "one kernel"
P = 0.1
LARGE, SMALL = (4, 16, 4096), (1, 16, 2048)  # B, H, N
LARGE_NEEDS = 24e9  # bytes of free memory for five matrices of scores at a time


def costs(B: int, H: int, N: int, D: int, itemsize: int = 2) -> dict[str, tuple[int, int]]:
    """Step -> (FLOPs, least bytes) of all heads; nothing is saved for masked keys."""
    three = attention_cost(B, H, N, N, D, dtype_bytes=itemsize)
    other = elementwise_cost(B, H, N, N, dtype_bytes=itemsize)
    scores = B * H * N * N
    found = {
        "q k^T": three["qk"],
        "scale": (scores, 2 * scores * itemsize),
        "mask": other["mask"],
        "softmax": three["softmax"],
        "dropout": other["dropout"],
        "p v": three["pv"],
    }
    found[ONE_KERNEL] = (sum(f for f, _ in found.values()), 4 * B * H * N * D * itemsize)
    return found


def ours_and_torch(q, k, v) -> dict[str, tuple[Callable, Callable]]:
    """Step -> (the course's kernel, PyTorch's operator), each on inputs that lie ready."""
    B, H, N, D = q.shape
    s = torch.randn(B, H, N, N, device=q.device, dtype=q.dtype)
    p = torch.softmax(s, -1)
    flat, o = torch.empty(B * H, N, N, device=q.device, dtype=q.dtype), torch.empty_like(q)
    hidden = torch.ones(N, N, device=q.device, dtype=torch.bool).triu(1)
    factor, k_t = 1 / math.sqrt(D), k.transpose(-1, -2)
    sizes = {"D": D, "BLOCK_D": max(16, triton.next_power_of_2(D)), "BLOCK_M": standard.BLOCK_M}
    grid = (triton.cdiv(N, standard.BLOCK_M), B * H)

    def scores():
        standard.scores_kernel[grid](
            q, k, flat, *q.stride(), *k.stride(), H, N, N, 1.0,
            **sizes, BLOCK_N=standard.BLOCK_N, num_warps=8, num_stages=3,
        )  # fmt: skip

    def mix():
        standard.mix_kernel[grid](
            p, v, o, *v.stride(), *o.stride(), H, N, N,
            **sizes, BLOCK_K=standard.BLOCK_K, num_warps=8, num_stages=3,
        )  # fmt: skip

    return {
        "q k^T": (scores, lambda: torch.matmul(q, k_t)),
        "scale": (lambda: chain.step("scale", s, factor), lambda: s * factor),
        "mask": (lambda: chain.step("mask", s), lambda: s.masked_fill(hidden, -math.inf)),
        "softmax": (lambda: chain.step("softmax", s), lambda: torch.softmax(s, -1)),
        "dropout": (lambda: chain.step("dropout", p, p=P), lambda: F.dropout(p, P)),
        "p v": (mix, lambda: torch.matmul(p, v)),
    }


def one_kernel(q, k, v) -> tuple[Callable, Callable]:
    """The course's flash kernel, and PyTorch's with dropout."""
    flash = table.answer("flash_forward")

    def sdpa():
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return F.scaled_dot_product_attention(q, k, v, dropout_p=P, is_causal=True)

    return lambda: flash(q, k, v, causal=True), sdpa


def rows(head_dims: tuple[int, ...] = (64, 128)) -> Iterator[dict]:
    """A row a step and head dimension: ``ms`` of ours and torch, FLOPs, least bytes, sizes."""
    B, H, N = LARGE if torch.cuda.mem_get_info()[0] > LARGE_NEEDS else SMALL
    for D in head_dims:
        q, k, v = (torch.randn(B, H, N, D, device="cuda", dtype=torch.float16) for _ in range(3))
        cost = costs(B, H, N, D)
        for step in (*STEPS, ONE_KERNEL):
            made = one_kernel(q, k, v) if step == ONE_KERNEL else ours_and_torch(q, k, v)[step]
            ms = timing.interleaved_ms(dict(zip(("ours", "torch"), made, strict=True)))
            flops, moved = cost[step]
            sizes = {"B": B, "H": H, "N": N, "D": D}
            yield table.row(
                f"D {D} {step}", moved, "TB/s", ms, step=step, flops=flops, bytes=moved, **sizes
            )
            del made
            torch.cuda.empty_cache()


def main(slug: str, mine: bool = False, out: str | None = None) -> int:
    """Print the profile; saves it as JSON to ``out`` if given. 1 without a GPU."""
    return table.main(slug, rows() if torch.cuda.is_available() else (), mine, out)
