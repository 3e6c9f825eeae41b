"""Contract and references of attention over a sequence that lies on several ranks. Floor: core."""

import torch
import torch.distributed as dist
from torch import Tensor

from flashlab.reference.attention import DTYPES, flash2_forward
from flashlab.reference.backward import flash2_backward
from flashlab.ring.shards import gather, shard


def ring_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    group: dist.ProcessGroup,
    *,
    causal: bool = False,
    zigzag: bool = False,
    sm_scale: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Exact attention of a sequence of N tokens of which each of ``world`` ranks holds a part.

    s_ij = sm_scale * q_i . k_j over the keys j, of any rank, that query i sees;
    lse_i = log sum_j exp(s_ij);  o_i = sum_j exp(s_ij - lse_i) * v_j.

    Every rank of the group calls it with its own rows, and gets its own rows of the result. Keys
    and values go round, block by block; no rank ever gathers all of them. ``o`` is differentiable,
    and backward, which every rank has to call too, gives each rank the gradients of its own q, k
    and v.

    Args:
        q: [B, H, N / world, D]; this rank's queries; float16, bfloat16 or float32 (here also
            float64); any strides.
        k: [B, H_kv, N / world, D]; this rank's keys; H_kv divides H, and query head h reads key
            head h // (H / H_kv); dtype and device of q.
        v: [B, H_kv, N / world, D]; this rank's values; likewise.
        group: the process group of the ring; gloo for CPU tensors, NCCL for CUDA tensors. A rank
            is a rank of this group.
        causal: token i sees the tokens j <= i of the whole sequence.
        zigzag: the sequence lies in 2 * world chunks, and rank r holds chunks r and
            2 * world - 1 - r, in this order; else in world chunks, and rank r holds chunk r.
        sm_scale: factor of the scores; None means 1/sqrt(D).

    Returns:
        o: [B, H, N / world, D]; dtype of q.
        lse: [B, H, N / world]; in nats; float32 (float64 for float64); without a gradient.

    Raises:
        ValueError: q, k or v is not such a tensor, or does not fit q; with zigzag an odd number
            of rows on a rank.

    Source: Liu, Zaharia and Abbeel 2023, Ring Attention with Blockwise Transformers; the merge:
        Rabe & Staats 2021, section 3.
    """
    check_shards(q, k, v, zigzag)
    rank, world = dist.get_rank(group), dist.get_world_size(group)
    whole = [gather(list(_Gathered.apply(x, group)), zigzag) for x in (q, k, v)]
    o, lse = flash2_forward(*whole, causal=causal, sm_scale=sm_scale)
    return shard(o, rank, world, zigzag), shard(lse, rank, world, zigzag).detach()


class _Gathered(torch.autograd.Function):
    """The tensors of all ranks, one after the other: what the ring does without."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        parts = [torch.empty_like(x, memory_format=torch.contiguous_format)
                 for _ in range(dist.get_world_size(group))]  # fmt: skip
        dist.all_gather(parts, x.contiguous(), group=group)
        return torch.stack(parts)

    @staticmethod
    def backward(ctx, grad):
        """Every rank's part of the gradient, added up where its tensor lies."""
        grad = grad.contiguous()
        dist.all_reduce(grad, group=ctx.group)
        return grad[dist.get_rank(ctx.group)], None


def whole_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    do: Tensor,
    *,
    world: int,
    causal: bool = False,
    zigzag: bool = False,
    sm_scale: float | None = None,
    spare: int = 0,
    late: int = -1,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """What all ranks together have to find, on one device and without any rank.

    Args:
        q, do: [B, H, N, D].
        k, v: [B, H_kv, N, D].
        world, zigzag, spare, late: how the sequence is spread; the results do not depend on it.
        causal: token i sees the tokens j <= i.
        sm_scale: factor of the scores; None means 1/sqrt(D).

    Returns:
        o [B, H, N, D], lse [B, H, N], and the gradients dq, dk, dv for the gradient do of o.
    """
    options = {"causal": causal, "sm_scale": sm_scale}
    o, lse = flash2_forward(q, k, v, **options)
    return o, lse, *flash2_backward(q, k, v, o, lse, do, **options)


def check_shards(q, k, v, zigzag):
    """Raise a ValueError that says which of q, k, v does not fit, and what came."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        if not isinstance(x, torch.Tensor) or x.dim() != 4 or x.shape[3] < 1:
            came = list(x.shape) if isinstance(x, torch.Tensor) else type(x).__name__
            raise ValueError(f"{name} must be a tensor [B, H, N / world, D], D >= 1, not {came}")
        if x.dtype not in DTYPES:
            raise ValueError(f"{name} must have a dtype of {DTYPES}, not {x.dtype}: cast it")
        if x.dtype != q.dtype or x.device != q.device:
            wanted, came = f"{q.dtype} on {q.device}", f"{x.dtype} on {x.device}"
            raise ValueError(f"{name} must be {wanted} like q, not {came}: move or cast it")
    B, H, n, D = q.shape
    if list(k.shape) != [B, k.shape[1], n, D] or not k.shape[1] or H % k.shape[1]:
        wanted = f"[{B}, H_kv, {n}, {D}] with H_kv a divisor of {H}"
        raise ValueError(f"k must have shape {wanted}, not {list(k.shape)}")
    if v.shape != k.shape:
        raise ValueError(f"v must have shape {list(k.shape)} like k, not {list(v.shape)}")
    if zigzag and n % 2:
        raise ValueError(f"q must have an even number of rows a rank for zigzag, not {n}: pad it")
