"""Inputs of the decode exercises: one query a head against a cache. Floor: course."""

import torch
from torch import Tensor

from flashlab.exercise import Inputs, Sizes
from flashlab.exercises import attention_inputs
from flashlab.reference.honest import honest_attention


def cached(sizes: Sizes, dtype: torch.dtype, generator: torch.Generator) -> dict:
    """``{"q": [B, H, 1, D], "k", "v": [B, H_kv, N, D]}``, sm_scale and cache_seqlens if set.

    ``sizes`` holds B H N D and may hold what ``attention_inputs.make_inputs`` knows, and
    ``lengths``: a number a batch (then keys that do not exist are NaN); every second element of a
    longer tensor where ``layout`` is permuted.
    """
    made = attention_inputs.make_inputs({**sizes, "N_q": 1, "N_k": sizes["N"]}, dtype, generator)
    lengths = sizes.get("lengths")
    if lengths is not None:
        for b, n in enumerate(lengths):
            made["k"][b, :, n:] = made["v"][b, :, n:] = torch.nan
        made["cache_seqlens"] = indices(lengths, sizes.get("layout") == "permuted")
    return made


def indices(values: list, strided: bool) -> Tensor:
    """An int32 tensor; ``strided``: every second element of a longer one."""
    made = torch.tensor(values, dtype=torch.int32)
    return made.repeat_interleave(2, dim=-1)[..., ::2] if strided else made


def honest(inputs: Inputs) -> list[dict[str, Tensor]]:
    """Six honest answers: the scale on S, q or k; exp or exp2; each batch with its own keys."""
    q, k, v = (inputs[name] for name in "qkv")
    lengths = inputs.get("cache_seqlens")
    lengths = [k.shape[2]] * len(q) if lengths is None else lengths.tolist()
    if not lengths:
        return honest_attention(q, k, v)
    scale = inputs.get("sm_scale")
    answers = [
        honest_attention(q[b : b + 1], k[b : b + 1, :, :n], v[b : b + 1, :, :n], sm_scale=scale)
        for b, n in enumerate(lengths)
    ]
    ways = zip(*answers, strict=True)  # the batches of each way
    return [{name: torch.cat([a[name] for a in way]) for name in ("o", "lse")} for way in ways]
