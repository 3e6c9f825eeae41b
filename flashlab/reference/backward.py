"""Contracts and references of attention's gradients: torch, any float dtype. Floor: core."""

import torch
from torch import Tensor

from flashlab.reference.attention import DTYPES, check_grouped_inputs, check_inputs
from flashlab.reference.honest import visible

STATISTICS = (torch.float32, torch.float64)  # dtypes of lse and delta; a kernel takes float32


def check_like(q, **tensors):
    """Raise a ValueError unless each tensor has shape, dtype and device of q."""
    for name, x in tensors.items():
        if not isinstance(x, Tensor) or x.dim() != 4 or x.shape[3] < 1:
            came = list(x.shape) if isinstance(x, Tensor) else type(x).__name__
            raise ValueError(f"{name} must be a tensor [B, H, N, D] with D >= 1, not {came}")
        if x.dtype != q.dtype or x.device != q.device:
            wanted, came = f"{q.dtype} on {q.device}", f"{x.dtype} on {x.device}"
            raise ValueError(f"{name} must be {wanted} like q, not {came}: move or cast it")
        if x.shape != q.shape:
            came, wanted = list(x.shape), list(q.shape)
            raise ValueError(f"{name} must have shape {wanted} to fit, not {came}")


def check_statistics(q, **tensors):
    """Raise a ValueError unless each tensor is float32, one number a query, on q's device."""
    for name, x in tensors.items():
        came = list(x.shape) if isinstance(x, Tensor) else type(x).__name__
        if came != list(q.shape[:3]):
            raise ValueError(f"{name} must have shape {list(q.shape[:3])} to fit q, not {came}")
        if x.dtype not in STATISTICS or x.device != q.device:
            wanted, came = f"torch.float32 on {q.device}", f"{x.dtype} on {x.device}"
            raise ValueError(f"{name} must be {wanted}, not {came}: move or cast it")


def backward_delta(o: Tensor, do: Tensor) -> Tensor:
    """One number a query: what the softmax's gradient subtracts.

    delta_i = sum_d do_id * o_id

    Args:
        o: [B, H, N_q, D]; the output of attention; float16, bfloat16 or float32 (here also
            float64); any strides; a kernel takes D from 1 to 256.
        do: [B, H, N_q, D]; the gradient of o; dtype and device of o; any strides, 0 too (the
            gradient of o.sum() is one number, expanded).

    Returns:
        delta: [B, H, N_q]; float32 (float64 for float64), summed in it. Any size may be 0.

    Raises:
        ValueError: o is not such a tensor, or shape, dtype or device of do are not those of o.

    Source: Dao et al. 2022, Appendix B.2 (there D_i).
    """
    if not isinstance(o, Tensor) or o.dim() != 4 or o.shape[3] < 1:
        came = list(o.shape) if isinstance(o, Tensor) else type(o).__name__
        raise ValueError(f"o must be a tensor [B, H, N, D] with D >= 1, not {came}")
    if o.dtype not in DTYPES:
        raise ValueError(f"o must have a dtype of {DTYPES}, not {o.dtype}: cast it")
    came = list(do.shape) if isinstance(do, Tensor) else type(do).__name__
    if came != list(o.shape):
        raise ValueError(f"do must have shape {list(o.shape)} like o, not {came}")
    if do.dtype != o.dtype or do.device != o.device:
        wanted, came = f"{o.dtype} on {o.device}", f"{do.dtype} on {do.device}"
        raise ValueError(f"do must be {wanted} like o, not {came}: move or cast it")
    high = torch.promote_types(o.dtype, torch.float32)
    return (o.to(high) * do.to(high)).sum(3)


def flash_backward_dkdv(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    do: Tensor,
    lse: Tensor,
    delta: Tensor,
    *,
    causal: bool = False,
    sm_scale: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Gradients of keys and values, with the weights computed again from lse.

    s_ij = sm_scale * q_i . k_j;  p_ij = exp(s_ij - lse_i), 0 where query i does not see key j;
    dv_j = sum_i p_ij * do_i;  ds_ij = p_ij * (do_i . v_j - delta_i);
    dk_j = sm_scale * sum_i ds_ij * q_i.

    Args:
        q: [B, H, N_q, D]; queries; float16, bfloat16 or float32 (here also float64); any strides;
            a kernel takes D from 1 to 256.
        k: [B, H, N_k, D]; keys; dtype and device of q.
        v: [B, H, N_k, D]; values; dtype and device of q.
        do: [B, H, N_q, D]; gradient of the output; dtype and device of q; any strides, 0 too.
        lse: [B, H, N_q]; log-sum-exp of the scores, in nats; float32; -inf for a query that sees
            no key.
        delta: [B, H, N_q]; row sums of do * o; float32.
        causal: query i sees the keys j <= i + N_k - N_q (the last query sees every key).
        sm_scale: factor of the scores; None means 1/sqrt(D).

    Returns:
        dk: [B, H, N_k, D]; dtype of q; 0 for a key that no query sees.
        dv: [B, H, N_k, D]; dtype of q; likewise. Any of B, H, N_q and N_k may be 0.

    Raises:
        ValueError: a tensor is not such a one, or its dtype, device or shape does not fit q's.

    Source: Dao et al. 2022, Algorithm 4; Dao 2023 (FlashAttention-2), Algorithm 2.
    """
    check_backward_inputs(q, k, v, do, lse, delta)
    q_, k_, v_, do_ = (x.to(torch.promote_types(q.dtype, torch.float32)) for x in (q, k, v, do))
    p, ds = _weights(q_, k_, v_, do_, lse, delta, causal, sm_scale)
    dk = _scale(q, sm_scale) * (ds.transpose(2, 3) @ q_)
    return dk.to(q.dtype), (p.transpose(2, 3) @ do_).to(q.dtype)


def flash_backward_dq(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    do: Tensor,
    lse: Tensor,
    delta: Tensor,
    *,
    causal: bool = False,
    sm_scale: float | None = None,
) -> Tensor:
    """Gradient of the queries, with the weights computed again from lse.

    s_ij = sm_scale * q_i . k_j;  p_ij = exp(s_ij - lse_i), 0 where query i does not see key j;
    ds_ij = p_ij * (do_i . v_j - delta_i);  dq_i = sm_scale * sum_j ds_ij * k_j.

    Args:
        q: [B, H, N_q, D]; queries; float16, bfloat16 or float32 (here also float64); any strides;
            a kernel takes D from 1 to 256.
        k: [B, H, N_k, D]; keys; dtype and device of q.
        v: [B, H, N_k, D]; values; dtype and device of q.
        do: [B, H, N_q, D]; gradient of the output; dtype and device of q; any strides, 0 too.
        lse: [B, H, N_q]; log-sum-exp of the scores, in nats; float32; -inf for a query that sees
            no key.
        delta: [B, H, N_q]; row sums of do * o; float32.
        causal: query i sees the keys j <= i + N_k - N_q (the last query sees every key).
        sm_scale: factor of the scores; None means 1/sqrt(D).

    Returns:
        dq: [B, H, N_q, D]; dtype of q; 0 for a query that sees no key. Any of B, H, N_q and N_k
            may be 0.

    Raises:
        ValueError: a tensor is not such a one, or its dtype, device or shape does not fit q's.

    Source: Dao et al. 2022, Algorithm 4; Dao 2023 (FlashAttention-2), Algorithm 2.
    """
    check_backward_inputs(q, k, v, do, lse, delta)
    q_, k_, v_, do_ = (x.to(torch.promote_types(q.dtype, torch.float32)) for x in (q, k, v, do))
    ds = _weights(q_, k_, v_, do_, lse, delta, causal, sm_scale)[1]
    return (_scale(q, sm_scale) * (ds @ k_)).to(q.dtype)


def flash2_backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    o: Tensor,
    lse: Tensor,
    do: Tensor,
    *,
    causal: bool = False,
    sm_scale: float | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of attention from what its forward pass saved, with grouped heads.

    delta_i = sum_d do_id * o_id;  s_ij = sm_scale * q_i . k_j;
    p_ij = exp(s_ij - lse_i), 0 where query i does not see key j;
    ds_ij = p_ij * (do_i . v_j - delta_i);  dq_i = sm_scale * sum_j ds_ij * k_j;
    dv_j = sum p_ij * do_i and dk_j = sm_scale * sum ds_ij * q_i over the queries of the group.

    Args:
        q: [B, H, N_q, D]; queries; float16, bfloat16 or float32 (here also float64); any strides;
            a kernel takes D from 1 to 256.
        k: [B, H_kv, N_k, D]; keys; H_kv divides H, and query head h reads key head
            h // (H / H_kv); dtype and device of q.
        v: [B, H_kv, N_k, D]; values; dtype and device of q.
        o: [B, H, N_q, D]; output of the forward pass; dtype and device of q.
        lse: [B, H, N_q]; log-sum-exp of the scores, in nats; float32; -inf for a query that sees
            no key.
        do: [B, H, N_q, D]; gradient of o; dtype and device of q; any strides, 0 too.
        causal: query i sees the keys j <= i + N_k - N_q (the last query sees every key).
        sm_scale: factor of the scores; None means 1/sqrt(D).

    Returns:
        dq: [B, H, N_q, D]; dtype of q; 0 for a query that sees no key.
        dk: [B, H_kv, N_k, D]; dtype of q; summed over the query heads that share the key head.
        dv: [B, H_kv, N_k, D]; dtype of q; likewise. Any of B, H, N_q and N_k may be 0.

    Raises:
        ValueError: a tensor is not such a one, or its dtype, device or shape does not fit the
            others.

    Source: Dao 2023 (FlashAttention-2), Algorithm 2; Ainslie et al. 2023 (grouped heads).
    """
    check_grouped_inputs(q, k, v, o=o, do=do)
    check_statistics(q, lse=lse)
    high = torch.promote_types(q.dtype, torch.float32)
    q_, o_, do_ = (x.to(high) for x in (q, o, do))
    H_kv = k.shape[1]
    group = q.shape[1] // max(1, H_kv)
    k_, v_ = (x.to(high).repeat_interleave(group, dim=1) for x in (k, v))
    p, ds = _weights(q_, k_, v_, do_, lse, (do_ * o_).sum(3), causal, sm_scale)
    dq, dk = ds @ k_, ds.transpose(2, 3) @ q_
    dk, dv = (x.unflatten(1, (H_kv, group)).sum(2) for x in (dk, p.transpose(2, 3) @ do_))
    scale = _scale(q, sm_scale)
    return (scale * dq).to(q.dtype), (scale * dk).to(q.dtype), dv.to(q.dtype)


def check_backward_inputs(q, k, v, do, lse, delta):
    """Raise a ValueError that says which tensor does not fit, and what came."""
    check_inputs(q, k, v)
    check_like(q, do=do)
    check_statistics(q, lse=lse, delta=delta)


def _scale(q: Tensor, sm_scale: float | None) -> float:
    return q.shape[3] ** -0.5 if sm_scale is None else sm_scale


def _weights(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    do: Tensor,
    lse: Tensor,
    delta: Tensor,
    causal: bool,
    sm_scale: float | None,
) -> tuple[Tensor, Tensor]:
    """p and ds [B, H, N_q, N_k] of one head for one: the keys of each query head are given."""
    s = _scale(q, sm_scale) * (q @ k.transpose(2, 3))
    hidden = ~visible(q.shape[2], k.shape[2], causal).to(s.device)
    hidden = hidden | (lse == -torch.inf)[..., None]  # a query without keys: no -inf - -inf
    p = torch.exp((s - lse[..., None]).masked_fill(hidden, -torch.inf))
    return p, p * (do @ v.transpose(2, 3) - delta[..., None])
