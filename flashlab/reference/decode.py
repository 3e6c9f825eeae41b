"""Contracts and references of decoding: one query a head against a cache. Floor: core."""

import torch
from torch import Tensor

from flashlab.reference.attention import DTYPES


def split_kv_decode(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    cache_seqlens: Tensor | None = None,
    num_splits: int,
    sm_scale: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Attention of one new query a head, with the keys cut into shares that are merged.

    s_j = sm_scale * q . k_j over the cached keys j < cache_seqlens[b];
    lse = log sum_j exp(s_j);  o = sum_j exp(s_j - lse) * v_j, whatever num_splits is.

    Args:
        q: [B, H, 1, D]; the new query; float16, bfloat16 or float32 (here also float64); any
            strides; D from 1 to 256.
        k: [B, H_kv, N, D]; keys; H_kv divides H, and query head h reads key head
            h // (H / H_kv); dtype and device of q.
        v: [B, H_kv, N, D]; values; likewise.
        cache_seqlens: [B]; int32; how many of the N keys of each batch exist, 0 to N; those behind
            may hold anything, NaN too, and are not read; None: all N. The values are checked on
            CPU tensors only.
        num_splits: shares the keys are cut into, 1 or more; may be more than there are keys.
        sm_scale: factor of the scores; None means 1/sqrt(D).

    Returns:
        o: [B, H, 1, D]; dtype of q; 0 where there is no key.
        lse: [B, H, 1]; in nats; float32 (float64 for float64); -inf where there is no key. Any
            of B, H, H_kv and N may be 0.

    Raises:
        ValueError: an argument is not such a one, or its dtype, device or shape does not fit.

    Source: Dao, Haziza, Massa and Sizov 2023, Flash-Decoding; Ainslie et al. 2023 (grouped heads).
    """
    check_queries(q)
    for name, x in (("k", k), ("v", v)):
        check_floats(name, x, "[B, H_kv, N, D]", q)
    (B, H, _, D), (H_kv, N) = q.shape, k.shape[1:3]
    if list(k.shape) != [B, H_kv, N, D] or H % max(1, H_kv):
        wanted = f"[{B}, H_kv, N, {D}] with H_kv a divisor of {H}"
        raise ValueError(f"k must have shape {wanted}, not {list(k.shape)}")
    if v.shape != k.shape:
        raise ValueError(f"v must have shape {list(k.shape)} like k, not {list(v.shape)}")
    if not isinstance(num_splits, int) or num_splits < 1:
        raise ValueError(f"num_splits must be a positive integer, not {num_splits!r}: try 8")
    if cache_seqlens is None:
        return _attend(q, k, v, [N] * B, sm_scale)
    check_lengths(cache_seqlens, B, N, q.device)
    return _attend(q, k, v, cache_seqlens.tolist(), sm_scale)


def paged_decode(
    q: Tensor,
    k_pages: Tensor,
    v_pages: Tensor,
    block_table: Tensor,
    cache_seqlens: Tensor,
    *,
    sm_scale: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Attention of one new query a head to keys that lie scattered in pages.

    Key j of batch b is k_pages[block_table[b, j // page], j % page];
    s_j = sm_scale * q . k_j over the cached keys j < cache_seqlens[b];
    lse = log sum_j exp(s_j);  o = sum_j exp(s_j - lse) * v_j.

    Args:
        q: [B, H, 1, D]; the new query; float16, bfloat16 or float32 (here also float64); any
            strides; D from 1 to 256.
        k_pages: [P, page, H_kv, D]; P pages of keys, shared by all batches; page is 1 or more;
            H_kv divides H, and query head h reads key head h // (H / H_kv); dtype and device of
            q. A slot that holds no key may hold anything, NaN too.
        v_pages: [P, page, H_kv, D]; values; likewise.
        block_table: [B, pages]; int32; block_table[b, i] is the page of keys i*page to
            (i+1)*page - 1 of batch b. Entries from ceil(cache_seqlens[b] / page) on may hold
            anything and are never read. The values are checked on CPU tensors only.
        cache_seqlens: [B]; int32; keys in the cache of each batch, 0 to pages * page; checked on
            CPU tensors only.
        sm_scale: factor of the scores; None means 1/sqrt(D).

    Returns:
        o: [B, H, 1, D]; dtype of q; 0 where there is no key.
        lse: [B, H, 1]; in nats; float32 (float64 for float64); -inf where there is no key. Any
            of B, H, H_kv, P and pages may be 0.

    Raises:
        ValueError: an argument is not such a one, or its dtype, device or shape does not fit.

    Source: Kwon et al. 2023 (PagedAttention), section 4.1.
    """
    check_queries(q)
    for name, x in (("k_pages", k_pages), ("v_pages", v_pages)):
        check_floats(name, x, "[P, page, H_kv, D]", q)
    (B, H, _, D), (P, page, H_kv, _) = q.shape, k_pages.shape
    if page < 1 or k_pages.shape[3] != D or H % max(1, H_kv):
        wanted = f"[P, page, H_kv, {D}] with page >= 1 and H_kv a divisor of {H}"
        raise ValueError(f"k_pages must have shape {wanted}, not {list(k_pages.shape)}")
    if v_pages.shape != k_pages.shape:
        wanted, came = list(k_pages.shape), list(v_pages.shape)
        raise ValueError(f"v_pages must have shape {wanted} like k_pages, not {came}")
    check_index("block_table", block_table, f"[{B}, pages]", q.device)
    if block_table.dim() != 2 or len(block_table) != B:
        came = list(block_table.shape)
        raise ValueError(f"block_table must have shape [{B}, pages], not {came}")
    check_lengths(cache_seqlens, B, block_table.shape[1] * page, q.device)
    lengths = cache_seqlens.tolist()
    check_pages(block_table, lengths, page, P)
    pages = max((-(-n // page) for n in lengths), default=0)
    used = block_table[:, :pages].long().clamp(0, max(0, P - 1))  # unused entries: anything
    k, v = (
        x[used].flatten(1, 2).transpose(1, 2) if P else x.new_empty(B, H_kv, 0, D)
        for x in (k_pages, v_pages)
    )
    return _attend(q, k, v, lengths, sm_scale)


def check_queries(q):
    """Raise a ValueError unless q is one query a head, of a dtype and size for a kernel."""
    check_floats("q", q, "[B, H, 1, D]", q)
    if q.shape[2] != 1 or q.shape[3] > 256:
        wanted = "[B, H, 1, D] with one query a head and D <= 256"
        raise ValueError(f"q must have shape {wanted}, not {list(q.shape)}")


def check_floats(name, x, shape, q):
    """Raise a ValueError unless x has four dimensions, D >= 1, a known dtype, and fits q."""
    if not isinstance(x, torch.Tensor) or x.dim() != 4 or x.shape[3] < 1:
        came = list(x.shape) if isinstance(x, torch.Tensor) else type(x).__name__
        raise ValueError(f"{name} must be a tensor {shape} with D >= 1, not {came}")
    if x.dtype not in DTYPES:
        raise ValueError(f"{name} must have a dtype of {DTYPES}, not {x.dtype}: cast it")
    if x.dtype != q.dtype or x.device != q.device:
        wanted, came = f"{q.dtype} on {q.device}", f"{x.dtype} on {x.device}"
        raise ValueError(f"{name} must be {wanted} like q, not {came}: move or cast it")


def check_lengths(cache_seqlens, B, most, device):
    """Raise a ValueError unless cache_seqlens is int32 [B], on a CPU also from 0 to most."""
    check_index("cache_seqlens", cache_seqlens, f"[{B}]", device)
    if list(cache_seqlens.shape) != [B]:
        came = list(cache_seqlens.shape)
        raise ValueError(f"cache_seqlens must have shape [{B}], not {came}")
    if cache_seqlens.device.type != "cpu":
        return
    came = cache_seqlens.tolist()
    if not all(0 <= n <= most for n in came):
        raise ValueError(f"cache_seqlens must lie from 0 to {most}, the room there is, not {came}")


def check_pages(block_table, lengths, page, P):
    """Raise a ValueError if an entry that a key needs names no page; looked at on a CPU alone."""
    if block_table.device.type != "cpu":
        return
    for b, n in enumerate(lengths):
        used = block_table[b, : -(-n // page)].tolist()
        if not all(0 <= entry < P for entry in used):
            wanted = f"name pages from 0 to {P - 1} where batch {b} has keys"
            raise ValueError(f"block_table must {wanted}, not {used}")


def check_index(name, x, shape, device):
    """Raise a ValueError unless x is an int32 tensor on the device."""
    if not isinstance(x, torch.Tensor):
        raise ValueError(f"{name} must be a tensor {shape} of torch.int32, not {type(x).__name__}")
    if x.dtype != torch.int32 or x.device != device:
        came = f"{x.dtype} on {x.device}"
        raise ValueError(f"{name} must be torch.int32 on {device}, not {came}: move or cast it")


def _attend(
    q: Tensor, k: Tensor, v: Tensor, lengths: list[int], sm_scale: float | None
) -> tuple[Tensor, Tensor]:
    """Attention of q to the first ``lengths[b]`` keys of each batch."""
    scale = q.shape[3] ** -0.5 if sm_scale is None else sm_scale
    high = torch.promote_types(q.dtype, torch.float32)
    o = torch.zeros(q.shape, dtype=high, device=q.device)
    lse = torch.full(q.shape[:3], -torch.inf, dtype=high, device=q.device)
    group = q.shape[1] // max(1, k.shape[1])
    for b, n in enumerate(lengths):
        if n and k.shape[1]:
            k_b, v_b = (x[b, :, :n].to(high).repeat_interleave(group, dim=0) for x in (k, v))
            s = scale * (q[b].to(high) @ k_b.transpose(1, 2))  # [H, 1, n]
            lse[b] = torch.logsumexp(s, dim=2)
            o[b] = torch.exp(s - lse[b][..., None]) @ v_b
    return o.to(q.dtype), lse
