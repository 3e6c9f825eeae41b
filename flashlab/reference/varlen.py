"""Contract and reference of attention over packed sequences. Floor: core."""

import torch
from torch import Tensor

from flashlab.reference.attention import DTYPES
from flashlab.reference.decode import check_index
from flashlab.reference.honest import visible


def varlen_forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    *,
    max_seqlen_q: int,
    causal: bool = False,
    sm_scale: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Attention within each of S sequences that are packed one behind the other.

    Sequence s holds the queries cu_seqlens_q[s] to cu_seqlens_q[s + 1] - 1 and the keys
    cu_seqlens_k[s] to cu_seqlens_k[s + 1] - 1, N_q and N_k of them. Within it, and nowhere else,
    s_ij = sm_scale * q_i . k_j;  lse_i = log sum_j exp(s_ij);
    o_i = sum_j exp(s_ij - lse_i) * v_j.

    Args:
        q: [T_q, H, D]; queries of all sequences; float16, bfloat16 or float32 (here also
            float64); any strides; D from 1 to 256.
        k: [T_k, H_kv, D]; keys; H_kv divides H, and query head h reads key head
            h // (H / H_kv); dtype and device of q.
        v: [T_k, H_kv, D]; values; likewise.
        cu_seqlens_q: [S + 1]; int32; 0, then the end of each sequence's queries; never
            decreasing, an empty sequence repeats the end before it; at most T_q. The values are
            checked on CPU tensors only.
        cu_seqlens_k: [S + 1]; int32; likewise for keys, at most T_k. Keys behind the last end may
            hold anything, NaN too, and are not read.
        max_seqlen_q: queries of the longest sequence, or more.
        causal: query i of a sequence sees its keys j <= i + N_k - N_q, both counted from the
            sequence's own start.
        sm_scale: factor of the scores; None means 1/sqrt(D).

    Returns:
        o: [T_q, H, D]; dtype of q; 0 for a query that sees no key and for tokens behind
            cu_seqlens_q[S], which belong to no sequence.
        lse: [H, T_q]; in nats; float32 (float64 for float64); -inf for those. Any size may be 0.

    Raises:
        ValueError: an argument is not such a one, or its dtype, device or shape does not fit.

    Source: Dao 2023, flash_attn_varlen_func of the package flash-attn (the interface).
    """
    check_packed(q, k, v)
    check_ends(q, k, cu_seqlens_q, cu_seqlens_k, max_seqlen_q)
    T_q, H, D = q.shape
    high = torch.promote_types(q.dtype, torch.float32)
    o = torch.zeros(q.shape, dtype=high, device=q.device)
    lse = torch.full([H, T_q], -torch.inf, dtype=high, device=q.device)
    scale = D**-0.5 if sm_scale is None else sm_scale
    group = H // max(1, k.shape[1])
    ends = list(zip(cu_seqlens_q.tolist(), cu_seqlens_k.tolist(), strict=True))
    for (q_0, k_0), (q_1, k_1) in zip(ends, ends[1:], strict=False):
        if q_1 > q_0 and k_1 > k_0 and k.shape[1]:
            rows = q[q_0:q_1].to(high).transpose(0, 1)  # [H, N_q, D]
            wide = (x[k_0:k_1].to(high).repeat_interleave(group, dim=1) for x in (k, v))
            keys, values = (x.transpose(0, 1) for x in wide)  # [H, N_k, D]
            s = scale * (rows @ keys.transpose(1, 2))  # [H, N_q, N_k]
            hidden = ~visible(q_1 - q_0, k_1 - k_0, causal).to(s.device)
            s = s.masked_fill(hidden, -torch.inf)
            total = torch.logsumexp(s, dim=2)  # [H, N_q]
            p = torch.exp(s - total.masked_fill(total == -torch.inf, 0.0)[..., None])
            o[q_0:q_1], lse[:, q_0:q_1] = (p @ values).transpose(0, 1), total
    return o.to(q.dtype), lse


def check_packed(q, k, v):
    """Raise a ValueError that says which of q, k, v does not fit, and what came."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        if not isinstance(x, torch.Tensor) or x.dim() != 3 or x.shape[2] < 1:
            came = list(x.shape) if isinstance(x, torch.Tensor) else type(x).__name__
            raise ValueError(f"{name} must be a tensor [T, H, D] with D >= 1, not {came}")
        if x.dtype not in DTYPES:
            raise ValueError(f"{name} must have a dtype of {DTYPES}, not {x.dtype}: cast it")
        if x.dtype != q.dtype or x.device != q.device:
            wanted, came = f"{q.dtype} on {q.device}", f"{x.dtype} on {x.device}"
            raise ValueError(f"{name} must be {wanted} like q, not {came}: move or cast it")
    _, H, D = q.shape
    if D > 256:
        raise ValueError(f"q must have D <= 256 to fit on chip, not {list(q.shape)}")
    if k.shape[2] != D or H % max(1, k.shape[1]):
        wanted = f"[T_k, H_kv, {D}] with H_kv a divisor of {H}"
        raise ValueError(f"k must have shape {wanted}, not {list(k.shape)}")
    if v.shape != k.shape:
        raise ValueError(f"v must have shape {list(k.shape)} like k, not {list(v.shape)}")


def check_ends(q, k, cu_seqlens_q, cu_seqlens_k, max_seqlen_q):
    """Raise a ValueError unless both are int32 [S + 1]; values are looked at on a CPU alone."""
    longest = 0
    ends = {"cu_seqlens_q": (cu_seqlens_q, q), "cu_seqlens_k": (cu_seqlens_k, k)}
    for name, (x, tokens) in ends.items():
        check_index(name, x, "[S + 1]", q.device)
        if x.dim() != 1 or len(x) < 1 or x.shape != cu_seqlens_q.shape:
            wanted = "[S + 1], a 0 and the end of each of S sequences, the same S for q and k"
            raise ValueError(f"{name} must have shape {wanted}, not {list(x.shape)}")
        if x.device.type != "cpu":
            continue
        came, T = x.tolist(), len(tokens)
        if came[0] != 0 or came != sorted(came) or came[-1] > T:
            wanted = f"start at 0, never decrease and end at {T} tokens or before"
            raise ValueError(f"{name} must {wanted}, not {came}")
        if name == "cu_seqlens_q":
            longest = max((b - a for a, b in zip(came, came[1:], strict=False)), default=0)
    if not isinstance(max_seqlen_q, int) or max_seqlen_q < longest:
        wanted = f"an integer from {longest}, the longest sequence of queries, on"
        raise ValueError(f"max_seqlen_q must be {wanted}, not {max_seqlen_q!r}")
