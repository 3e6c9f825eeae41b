"""Contract and reference of attention whose tiles a tensor descriptor describes. Floor: core."""

import torch
from torch import Tensor

from flashlab.reference import attention

HEAD_DIMS = (64, 128)  # of flash3_forward
STEP = 16  # bytes: what a descriptor counts starts and strides in


def tma_forward(
    q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False, sm_scale: float | None = None
) -> tuple[Tensor, Tensor]:
    """Exact softmax attention with grouped heads of tensors that a descriptor can describe.

    s_ij = sm_scale * q_i . k_j over the keys j that query i sees;
    lse_i = log sum_j exp(s_ij);  o_i = sum_j exp(s_ij - lse_i) * v_j.

    Args:
        q: [B, H, N_q, D]; queries; float16, bfloat16 or float32 (here also float64, of any
            strides); the stride of D is 1; where it starts, and the strides of all dimensions
            longer than 1, are multiples of 16 bytes; a kernel takes D from 1 to 256.
        k: [B, H_kv, N_k, D]; keys; H_kv divides H, and query head h reads key head
            h // (H / H_kv); dtype and device of q; strides likewise.
        v: [B, H_kv, N_k, D]; values; likewise.
        causal: query i sees the keys j <= i + N_k - N_q (the last query sees every key).
        sm_scale: factor of the scores; None means 1/sqrt(D).

    Returns:
        o: [B, H, N_q, D]; dtype of q; 0 for a query that sees no key.
        lse: [B, H, N_q]; in nats; float32 (float64 for float64); -inf for a query without
            keys. Any of B, H, H_kv, N_q and N_k may be 0.

    Raises:
        ValueError: q, k or v is not such a tensor, or its dtype, device or shape does not fit
            q's, or a descriptor cannot describe it.

    Source: Dao 2023 (FlashAttention-2), Algorithm 1; CUDA Driver API, cuTensorMapEncodeTiled
    (what a descriptor can describe).
    """
    attention.check_grouped_inputs(q, k, v)
    check_described(q=q, k=k, v=v)
    return attention.flash2_forward(q, k, v, causal=causal, sm_scale=sm_scale)


def flash3_forward(
    q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False, sm_scale: float | None = None
) -> tuple[Tensor, Tensor]:
    """Exact softmax attention with grouped heads, as a kernel for Hopper GPUs takes it.

    s_ij = sm_scale * q_i . k_j over the keys j that query i sees;
    lse_i = log sum_j exp(s_ij);  o_i = sum_j exp(s_ij - lse_i) * v_j.

    Args:
        q: [B, H, N_q, D]; queries; float16 or bfloat16 (here also float64, of any strides); D is
            64 or 128 and its stride 1; where it starts, and the strides of all dimensions longer
            than 1, are multiples of 16 bytes, so that [B, N, H, D] in memory fits.
        k: [B, H_kv, N_k, D]; keys; H_kv divides H, and query head h reads key head
            h // (H / H_kv); dtype and device of q; strides likewise.
        v: [B, H_kv, N_k, D]; values; likewise.
        causal: query i sees the keys j <= i + N_k - N_q (the last query sees every key).
        sm_scale: factor of the scores; None means 1/sqrt(D).

    Returns:
        o: [B, H, N_q, D]; dtype of q; 0 for a query that sees no key.
        lse: [B, H, N_q]; in nats; float32 (float64 for float64); -inf for a query without
            keys. Any of B, H, H_kv, N_q and N_k may be 0.

    Raises:
        ValueError: q, k or v is not such a tensor, or its dtype, device or shape does not fit
            q's, or TMA cannot describe it.

    Source: Shah et al. 2024 (FlashAttention-3), Algorithms 1 and 2; CUDA Driver API,
    cuTensorMapEncodeTiled (what TMA can describe).
    """
    attention.check_grouped_inputs(q, k, v)
    if q.shape[3] not in HEAD_DIMS or q.dtype == torch.float32:
        wanted = f"float16 or bfloat16 with D of {HEAD_DIMS}"
        raise ValueError(f"q must be {wanted}, not {q.dtype} {list(q.shape)}")
    check_described(q=q, k=k, v=v)
    return attention.flash2_forward(q, k, v, causal=causal, sm_scale=sm_scale)


def check_described(**tensors: Tensor) -> None:
    """Raise a ValueError that names a tensor which no descriptor describes, and why."""
    for name, x in tensors.items():
        size = x.element_size()
        steps = [s * size for s, n in zip(x.stride()[:3], x.shape[:3], strict=True) if n > 1]
        fits = x.stride(3) == 1 and not any(at % STEP for at in (x.data_ptr(), *steps))
        if size < 8 and x.numel() and not fits:
            raise ValueError(
                f"{name} must have D side by side, and start and step in multiples of {STEP} "
                f"bytes, to be described: not strides {list(x.stride())} of {size}-byte elements"
            )
