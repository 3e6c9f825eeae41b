"""What a call of ``flashlab.attention`` has to be, and sentences for what it is not."""

from typing import Any

import torch
from torch import Tensor

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
MOST_D = 256


def check(q: Tensor, k: Tensor, v: Tensor, dropout_p: float) -> None:
    """Raise a ValueError that says which argument does not fit, and what came."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        if not isinstance(x, Tensor) or x.dim() != 4:
            came = list(x.shape) if isinstance(x, Tensor) else type(x).__name__
            raise ValueError(f"{name} must be a tensor [B, H, N, D], not {came}")
        if x.is_nested and x.layout != torch.jagged:
            raise ValueError(f"{name} must be nested with layout=torch.jagged, not {x.layout}")
        if x.dtype not in DTYPES:
            raise ValueError(f"{name} must have a dtype of {DTYPES}, not {x.dtype}: cast it")
        if (x.dtype, x.device, x.is_nested) != (q.dtype, q.device, q.is_nested):
            wanted, came = (
                f"{y.dtype} on {y.device}{', jagged' if y.is_nested else ''}" for y in (q, x)
            )
            raise ValueError(f"{name} must be {wanted} like q, not {came}: move or cast it")
    (B, H, _, D), H_kv = q.shape, k.shape[1]
    if not 1 <= D <= MOST_D:
        raise ValueError(f"q must have D from 1 to {MOST_D}, not {D}")
    if (k.shape[0], k.shape[3]) != (B, D) or H % max(1, H_kv):
        wanted = f"[{B}, H_kv, N_k, {D}] with H_kv a divisor of {H}"
        raise ValueError(f"k must have shape {wanted}, not {list(k.shape)}")
    wanted, came = (list(_rows(x).shape) for x in (k, v))
    if wanted != came:
        raise ValueError(f"v must have shape {wanted} like k, not {came}")
    if not isinstance(dropout_p, int | float) or not 0 <= dropout_p < 1:
        raise ValueError(f"dropout_p must be a number from 0 to below 1, not {dropout_p!r}")


def _rows(x: Tensor) -> Tensor:
    """x itself, or the rows of all sequences of a jagged one, [T, H, D]."""
    return x.transpose(1, 2).values() if x.is_nested else x


_INSTEAD = {
    "is_causal": "write causal=..., which is bottom-right: the last query sees every key",
    "scale": "write sm_scale=...",
    "enable_gqa": "leave it out: fewer key heads than query heads are understood",
}


def refuse_masks(mask: tuple, others: dict[str, Any]) -> None:
    """Raise a ValueError for a mask, and for names of torch's that are other ones here."""
    masks = [*mask, *(others.pop(name, None) for name in ("attn_mask", "mask"))]
    if any(x is not None for x in masks):
        raise ValueError(
            "flashlab.attention takes no mask: its kernels know causal=True and lengths alone. "
            "A mask of N_q x N_k numbers is what they avoid; torch's SDPA takes one"
        )
    for name in others:
        told = _INSTEAD.get(name, "it knows causal, sm_scale, dropout_p and seed")
        raise ValueError(f"flashlab.attention has no {name}: {told}")
