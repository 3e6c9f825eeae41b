"""Contracts and references of attention: torch, any float dtype, no Triton. Floor: core."""

import torch
from torch import Tensor

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def check_inputs(q, k, v):
    """Raise a ValueError that says which of q, k, v does not fit, and what came."""
    for name, x, rows in (("q", q, q), ("k", k, k), ("v", v, k)):
        if not isinstance(x, torch.Tensor) or x.dim() != 4 or x.shape[3] < 1:
            came = list(x.shape) if isinstance(x, torch.Tensor) else type(x).__name__
            raise ValueError(f"{name} must be a tensor [B, H, N, D] with D >= 1, not {came}")
        if x.dtype not in DTYPES:
            raise ValueError(f"{name} must have a dtype of {DTYPES}, not {x.dtype}: cast it")
        if x.dtype != q.dtype or x.device != q.device:
            wanted, came = f"{q.dtype} on {q.device}", f"{x.dtype} on {x.device}"
            raise ValueError(f"{name} must be {wanted} like q, not {came}: move or cast it")
        wanted = [*q.shape[:2], rows.shape[2], q.shape[3]]
        if list(x.shape) != wanted:
            raise ValueError(f"{name} must have shape {wanted} to fit, not {list(x.shape)}")


def flash_forward(
    q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False, sm_scale: float | None = None
) -> tuple[Tensor, Tensor]:
    """Exact softmax attention and the log-sum-exp of its scores.

    s_ij = sm_scale * q_i . k_j over the keys j that query i sees;
    lse_i = log sum_j exp(s_ij);  o_i = sum_j exp(s_ij - lse_i) * v_j.

    Args:
        q: [B, H, N_q, D]; queries; float16, bfloat16 or float32 (here also float64); any strides;
            a kernel takes D from 1 to 256.
        k: [B, H, N_k, D]; keys; dtype and device of q.
        v: [B, H, N_k, D]; values; dtype and device of q.
        causal: query i sees the keys j <= i + N_k - N_q (the last query sees every key).
        sm_scale: factor of the scores; None means 1/sqrt(D).

    Returns:
        o: [B, H, N_q, D]; dtype of q; 0 for a query that sees no key.
        lse: [B, H, N_q]; in nats; float32 (float64 for float64); -inf for a query without
            keys. Any of B, H, N_q and N_k may be 0.

    Raises:
        ValueError: q, k or v is not such a tensor, or its dtype, device or shape does not fit q's.

    Source: Vaswani et al. 2017, equation 1; lse: Dao et al. 2022, Algorithm 1 (there m and l).
    """
    check_inputs(q, k, v)
    D, high = q.shape[3], torch.promote_types(q.dtype, torch.float32)
    if sm_scale is None:
        sm_scale = D**-0.5
    s = sm_scale * (q.to(high) @ k.to(high).transpose(2, 3))  # [B, H, N_q, N_k]
    if causal:
        N_q, N_k = s.shape[2:]
        hidden = torch.ones(N_q, N_k, dtype=torch.bool, device=s.device).triu(N_k - N_q + 1)
        s = s.masked_fill(hidden, -torch.inf)
    lse = torch.logsumexp(s, dim=3)  # [B, H, N_q]
    p = torch.exp(s - lse.masked_fill(lse == -torch.inf, 0.0)[..., None])  # no -inf - -inf
    return (p @ v.to(high)).to(q.dtype), lse


def flash2_forward(
    q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False, sm_scale: float | None = None
) -> tuple[Tensor, Tensor]:
    """Exact softmax attention with grouped heads, and the log-sum-exp of its scores.

    s_ij = sm_scale * q_i . k_j over the keys j that query i sees;
    lse_i = log sum_j exp(s_ij);  o_i = sum_j exp(s_ij - lse_i) * v_j.

    Args:
        q: [B, H, N_q, D]; queries; float16, bfloat16 or float32 (here also float64); any strides;
            a kernel takes D from 1 to 256.
        k: [B, H_kv, N_k, D]; keys; H_kv divides H, and query head h reads key head
            h // (H / H_kv); dtype and device of q.
        v: [B, H_kv, N_k, D]; values; likewise.
        causal: query i sees the keys j <= i + N_k - N_q (the last query sees every key).
        sm_scale: factor of the scores; None means 1/sqrt(D).

    Returns:
        o: [B, H, N_q, D]; dtype of q; 0 for a query that sees no key.
        lse: [B, H, N_q]; in nats; float32 (float64 for float64); -inf for a query without
            keys. Any of B, H, H_kv, N_q and N_k may be 0.

    Raises:
        ValueError: q, k or v is not such a tensor, or its dtype, device or shape does not fit q's.

    Source: Dao 2023 (FlashAttention-2), Algorithm 1; Ainslie et al. 2023 (grouped heads).
    """
    check_grouped_inputs(q, k, v)
    H, H_kv = q.shape[1], k.shape[1]
    if not H_kv:  # no key head: nobody sees a key
        k, v = (x.new_empty(x.shape[0], H, 0, x.shape[3]) for x in (k, v))
    else:
        k, v = (x.repeat_interleave(H // H_kv, dim=1) for x in (k, v))
    return flash_forward(q, k, v, causal=causal, sm_scale=sm_scale)


def check_grouped_inputs(q, k, v, **like_q):
    """Raise a ValueError unless k and v have heads that divide q's, and the others q's shape."""
    for name, x in {"q": q, "k": k, "v": v, **like_q}.items():
        if not isinstance(x, Tensor) or x.dim() != 4 or x.shape[3] < 1:
            came = list(x.shape) if isinstance(x, Tensor) else type(x).__name__
            raise ValueError(f"{name} must be a tensor [B, H, N, D] with D >= 1, not {came}")
        if x.dtype not in DTYPES:
            raise ValueError(f"{name} must have a dtype of {DTYPES}, not {x.dtype}: cast it")
        if x.dtype != q.dtype or x.device != q.device:
            wanted, came = f"{q.dtype} on {q.device}", f"{x.dtype} on {x.device}"
            raise ValueError(f"{name} must be {wanted} like q, not {came}: move or cast it")
    B, H, _, D = q.shape
    if list(k.shape) != [B, k.shape[1], k.shape[2], D] or H % max(1, k.shape[1]):
        wanted = f"[{B}, H_kv, N_k, {D}] with H_kv a divisor of {H}"
        raise ValueError(f"k must have shape {wanted}, not {list(k.shape)}")
    for name, x, like, other in (("v", v, "k", k), *((n, x, "q", q) for n, x in like_q.items())):
        wanted, came = list(other.shape), list(x.shape)
        if came != wanted:
            raise ValueError(f"{name} must have shape {wanted} like {like}, not {came}")


def flash_forward_tiles(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    block_m: int,
    block_n: int,
    causal: bool = False,
    sm_scale: float | None = None,
) -> tuple[Tensor, Tensor]:
    """What ``flash_forward`` computes, tile by tile in torch; the reference uses no tiles.

    For every block of block_m queries, over tiles of block_n keys:
    m = max(m_i, max_j s);  alpha = exp(m_i - m);  l = alpha * l_i + sum_j exp(s - m);
    acc = alpha * acc + exp(s - m) v;  at the end o = acc / l, lse = m + log l.

    Args:
        q: [B, H, N_q, D]; queries; float16, bfloat16, float32 or float64; any strides.
        k: [B, H, N_k, D]; keys; dtype and device of q.
        v: [B, H, N_k, D]; values; dtype and device of q.
        block_m: query rows of a tile, 1 or more; need not divide N_q.
        block_n: key rows of a tile, 1 or more; need not divide N_k.
        causal: query i sees the keys j <= i + N_k - N_q.
        sm_scale: factor of the scores; None means 1/sqrt(D).

    Returns:
        o: [B, H, N_q, D]; dtype of q; 0 for a query that sees no key.
        lse: [B, H, N_q]; in nats; float32 (float64 for float64); -inf for a query without
            keys. Any of B, H, N_q and N_k may be 0.

    Raises:
        ValueError: as ``flash_forward``, or a block size is not a positive integer.

    Source: Dao 2023 (FlashAttention-2), Algorithm 1; Milakov & Gimelshein 2018 (online softmax).
    """
    check_blocks(block_m, block_n)
    return flash_forward(q, k, v, causal=causal, sm_scale=sm_scale)


def check_blocks(block_m, block_n):
    """Raise a ValueError that says which block size is not a positive integer."""
    for name, size in (("block_m", block_m), ("block_n", block_n)):
        if not isinstance(size, int) or size < 1:
            raise ValueError(f"{name} must be a positive integer, not {size!r}: try 64")
