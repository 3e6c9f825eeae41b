"""Contracts and references of attention with dropout; the random numbers in numpy. Floor: core.

Dropout is a function of seed and position, so a reference can drop what a kernel drops.
"""

import numpy as np
import torch
from torch import Tensor

from flashlab.reference.attention import check_inputs
from flashlab.reference.backward import check_like, check_statistics
from flashlab.reference.honest import visible

PHILOX = {"rounds": (0xD2511F53, 0xCD9E8D57), "keys": (0x9E3779B9, 0xBB67AE85)}
LOW = np.uint64(0xFFFFFFFF)
TO_UNIT = np.float32(4.6566127342e-10)  # just below 2**-31, so that the largest result is below 1


def philox(seed: int, numbers: np.ndarray) -> np.ndarray:
    """``tl.randint(seed, numbers)`` of int64 numbers, as uint32: Philox 4x32 of ten rounds.

    The counter is the number (low word, high word, 0, 0), the key is the seed.

    Source: Salmon et al. 2011 (Parallel random numbers: as easy as 1, 2, 3), section 4.
    """
    wide = numbers.astype(np.int64).view(np.uint64)
    c0, c1 = wide & LOW, wide >> np.uint64(32)
    c2 = c3 = np.zeros_like(c0)
    keys = [seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF]
    a, b = (np.uint64(x) for x in PHILOX["rounds"])
    for _ in range(10):
        high, low = (a * c0, b * c2)
        c0 = (low >> np.uint64(32)) ^ c1 ^ np.uint64(keys[0])
        c2 = (high >> np.uint64(32)) ^ c3 ^ np.uint64(keys[1])
        c1, c3 = low & LOW, high & LOW
        keys = [(k + step) & 0xFFFFFFFF for k, step in zip(keys, PHILOX["keys"], strict=True)]
    return c0.astype(np.uint32)


def uniform(seed: int, numbers: np.ndarray) -> np.ndarray:
    """``tl.rand(seed, numbers)``: float32 in [0, 1), bit for bit on Triton 3.6 to 3.9."""
    x = philox(seed, numbers).view(np.int32)
    return np.where(x < 0, -x - 1, x).astype(np.float32) * TO_UNIT


def kept(p: float, seed: int, B: int, H: int, N_q: int, N_k: int) -> Tensor:
    """Which weights dropout keeps: bool [B, H, N_q, N_k]; their numbers run through that shape."""
    u = uniform(seed, np.arange(B * H * N_q * N_k, dtype=np.int64))
    return torch.from_numpy(u >= np.float32(p)).reshape(B, H, N_q, N_k)


def flash_dropout(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    p: float,
    seed: int,
    causal: bool = False,
    sm_scale: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Softmax attention that drops weights at random, and the log-sum-exp of its scores.

    s_ij = sm_scale * q_i . k_j over the keys j that query i sees;  lse_i = log sum_j exp(s_ij);
    keep_ij = u_ij >= p with u_ij = tl.rand(seed, ((b*H + h)*N_q + i)*N_k + j);
    o_i = sum_j keep_ij * exp(s_ij - lse_i) / (1 - p) * v_j.

    Args:
        q: [B, H, N_q, D]; queries; float16, bfloat16 or float32 (here also float64); any strides;
            a kernel takes D from 1 to 256.
        k: [B, H, N_k, D]; keys; dtype and device of q.
        v: [B, H, N_k, D]; values; dtype and device of q.
        p: probability that a weight is dropped; 0 <= p < 1.
        seed: of the random bits; 0 to 2**63 - 1.
        causal: query i sees the keys j <= i + N_k - N_q (the last query sees every key).
        sm_scale: factor of the scores; None means 1/sqrt(D).

    Returns:
        o: [B, H, N_q, D]; dtype of q; 0 for a query that sees no key.
        lse: [B, H, N_q]; in nats; float32 (float64 for float64); without dropout; -inf for a
            query without keys. Any of B, H, N_q and N_k may be 0.

    Raises:
        ValueError: a tensor is not such a one, p is not below 1 or negative, or seed is no such
            integer.

    Source: Dao et al. 2022, Algorithm 2 (there the bits come from a saved generator state).
    """
    check_inputs(q, k, v)
    check_dropout(p, seed)
    high = torch.promote_types(q.dtype, torch.float32)
    s = _scores(q.to(high), k.to(high), causal, sm_scale)
    lse = torch.logsumexp(s, dim=3)
    weights = _weights(s, lse) * factors(q, k, p, seed).to(high)
    return (weights @ v.to(high)).to(q.dtype), lse


def flash_dropout_backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    o: Tensor,
    lse: Tensor,
    do: Tensor,
    *,
    p: float,
    seed: int,
    causal: bool = False,
    sm_scale: float | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of attention with dropout; the same seed drops the same weights again.

    delta_i = sum_d do_id * o_id;  p_ij = exp(s_ij - lse_i), before dropout;
    f_ij = keep_ij / (1 - p);  ds_ij = p_ij * (f_ij * (do_i . v_j) - delta_i);
    dv_j = sum_i f_ij * p_ij * do_i;  dq_i = sm_scale * sum_j ds_ij * k_j;
    dk_j = sm_scale * sum_i ds_ij * q_i.

    Args:
        q: [B, H, N_q, D]; queries; float16, bfloat16 or float32 (here also float64); any strides;
            a kernel takes D from 1 to 256.
        k: [B, H, N_k, D]; keys; dtype and device of q.
        v: [B, H, N_k, D]; values; dtype and device of q.
        o: [B, H, N_q, D]; output of flash_dropout with this p and seed; dtype and device of q.
        lse: [B, H, N_q]; its log-sum-exp, in nats; float32.
        do: [B, H, N_q, D]; gradient of o; dtype and device of q; any strides, 0 too.
        p: probability that a weight was dropped; 0 <= p < 1.
        seed: that of the forward pass.
        causal: query i sees the keys j <= i + N_k - N_q.
        sm_scale: factor of the scores; None means 1/sqrt(D).

    Returns:
        dq: [B, H, N_q, D]; dtype of q.
        dk: [B, H, N_k, D]; dtype of q.
        dv: [B, H, N_k, D]; dtype of q. Any of B, H, N_q and N_k may be 0.

    Raises:
        ValueError: a tensor is not such a one, p is not below 1 or negative, or seed is no such
            integer.

    Source: Dao et al. 2022, Algorithm 4.
    """
    check_inputs(q, k, v)
    check_like(q, o=o, do=do)
    check_dropout(p, seed)
    check_statistics(q, lse=lse)
    high = torch.promote_types(q.dtype, torch.float32)
    q_, k_, v_, o_, do_ = (x.to(high) for x in (q, k, v, o, do))
    weights = _weights(_scores(q_, k_, causal, sm_scale), lse.to(high))
    f = factors(q, k, p, seed).to(high)
    ds = weights * (f * (do_ @ v_.transpose(2, 3)) - (do_ * o_).sum(3, keepdim=True))
    scale = q.shape[3] ** -0.5 if sm_scale is None else sm_scale
    dv = (f * weights).transpose(2, 3) @ do_
    grads = scale * (ds @ k_), scale * (ds.transpose(2, 3) @ q_), dv
    return tuple(x.to(q.dtype) for x in grads)


def check_dropout(p, seed):
    """Raise a ValueError unless p is in [0, 1) and seed an int that a kernel takes."""
    if not isinstance(p, int | float) or not 0 <= p < 1:
        raise ValueError(f"p must be a number from 0 to below 1, not {p!r}")
    if not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise ValueError(f"seed must be an int from 0 to 2**63 - 1, not {seed!r}")


def factors(q: Tensor, k: Tensor, p: float, seed: int) -> Tensor:
    """What each weight is multiplied by, 0 or 1 / (1 - p): fp64 [B, H, N_q, N_k]."""
    B, H, N_q = q.shape[:3]
    return kept(p, seed, B, H, N_q, k.shape[2]).to(q.device).double() / (1 - p)


def _scores(q: Tensor, k: Tensor, causal: bool, sm_scale: float | None) -> Tensor:
    scale = q.shape[3] ** -0.5 if sm_scale is None else sm_scale
    hidden = ~visible(q.shape[2], k.shape[2], causal).to(q.device)
    return (scale * (q @ k.transpose(2, 3))).masked_fill(hidden, -torch.inf)


def _weights(s: Tensor, lse: Tensor) -> Tensor:
    """exp(s - lse), 0 in a row without keys: no -inf - -inf."""
    return torch.exp(s - lse.masked_fill(lse == -torch.inf, 0.0)[..., None])
