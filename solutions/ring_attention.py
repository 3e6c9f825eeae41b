"""Attention over a sequence that lies on several ranks: blocks of K and V go round a ring."""

import torch
import torch.distributed as dist
from torch.autograd.function import once_differentiable

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


# Given: attention of one block of queries over one block of keys, with the contracts of
# flash2_forward and flash2_backward. For CUDA tensors the course puts those kernels in their place
def attend(q, k, v, *, causal, sm_scale):
    s, v = scores(q, k, causal, sm_scale), v.repeat_interleave(q.shape[1] // v.shape[1], dim=1)
    lse = torch.logsumexp(s, dim=3)  # [B, H, rows], in nats
    return (torch.exp(s - lse[..., None]) @ v.to(s.dtype)).to(q.dtype), lse


def attend_backward(q, k, v, o, lse, do, *, causal, sm_scale):
    """Gradients through these keys alone; o and lse are those over all keys of the sequence."""
    H_kv, group = k.shape[1], q.shape[1] // k.shape[1]
    p = torch.exp(scores(q, k, causal, sm_scale) - lse[..., None])  # [B, H, rows, cols]
    wide = [x.to(p.dtype) for x in (q, o, do)]
    wide += [x.to(p.dtype).repeat_interleave(group, dim=1) for x in (k, v)]
    q_, o_, do_, k_, v_ = wide
    ds = sm_scale * p * (do_ @ v_.mT - (do_ * o_).sum(3, keepdim=True))
    dk, dv = ((x.mT @ y).unflatten(1, (H_kv, group)).sum(2) for x, y in ((ds, q_), (p, do_)))
    return (ds @ k_).to(q.dtype), dk.to(q.dtype), dv.to(q.dtype)


def scores(q, k, causal, sm_scale):
    high = torch.promote_types(q.dtype, torch.float32)
    k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)
    s = sm_scale * (q.to(high) @ k.to(high).mT)  # [B, H, rows, cols]
    return s.masked_fill(torch.ones_like(s, dtype=torch.bool).triu(1), -torch.inf) if causal else s


def pass_on(block, group, way=1):
    """Start sending a contiguous block to rank + way and receiving that of rank - way."""
    # 1. One message out, one in, neither waited for
    ### BEGIN SOLUTION 1: send to rank + way, receive from rank - way; define arriving, requests
    rank, world = dist.get_rank(group), dist.get_world_size(group)
    arriving = torch.empty_like(block)
    send = dist.P2POp(dist.isend, block, group=group, group_peer=(rank + way) % world)
    receive = dist.P2POp(dist.irecv, arriving, group=group, group_peer=(rank - way) % world)
    requests = dist.batch_isend_irecv([send, receive])
    ### END SOLUTION
    return arriving, requests


def arrived(travelling):
    """The block that pass_on receives, once it is here and mine is sent."""
    block, requests = travelling
    for request in requests:
        request.wait()
    return block


def kept_in(q, world):
    """dtype of running sums: two ranks add once, which rounds once anyway; more need fp32."""
    return q.dtype if world < 3 else torch.promote_types(q.dtype, torch.float32)


def visible(owner, rank, n, causal, zigzag):
    """Which of my n queries, and of the n keys of another rank, see each other: two slices."""
    rows, keys = slice(0, n), slice(0, n)  # all of them, without a mask
    # 2. What causal hides: whole halves, or everything
    ### BEGIN SOLUTION 2: narrow rows, keys where causal hides; empty slice where all is hidden
    if causal and zigzag and owner < rank:
        keys = slice(0, n // 2)  # its late chunk comes after all of mine
    elif causal and zigzag:
        rows = slice(n // 2, n)  # my early chunk comes before all of its
    elif causal and owner > rank:
        rows = slice(0, 0)  # its keys come after all my queries
    ### END SOLUTION
    return rows, keys


def merge(o, lse, o_part, lse_part):
    """Add attention over further keys, in place: o [B, H, rows, D] and lse [B, H, rows] (fp32)."""
    # 3. Weigh both by their lse
    ### BEGIN SOLUTION 3: update o and lse in place; no exp may overflow, whatever lse is
    weight = torch.sigmoid(lse_part - lse)[..., None]  # exp(lse_part) / (exp(lse) + exp(lse_part))
    o.copy_((1 - weight) * o + weight * o_part)  # in fp32, as the weight is; rounded here alone
    lse.copy_(torch.logaddexp(lse, lse_part))
    ### END SOLUTION


class RingAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, group, causal, zigzag, sm_scale):
        rank, world, n = dist.get_rank(group), dist.get_world_size(group), q.shape[2]
        kv = torch.stack((k, v))  # [2, B, H_kv, n, D], contiguous: one message a round
        if world > 1:
            travelling = pass_on(kv, group)
        # Given: my own block, the only one with a mask, while the first message travels
        o, lse = attend(q, k, v, causal=causal, sm_scale=sm_scale)
        o = o.to(kept_in(q, world))
        for step in range(1, world):
            # 4. A round: the block of another rank
            ### BEGIN SOLUTION 4: take kv, pass it on but in the last round; merge into o and lse
            kv = arrived(travelling)
            if step + 1 < world:
                travelling = pass_on(kv, group)  # while I compute with it
            rows, keys = visible((rank - step) % world, rank, n, causal, zigzag)
            k_part, v_part = kv[:, :, :, keys]
            part = attend(q[:, :, rows], k_part, v_part, causal=False, sm_scale=sm_scale)
            merge(o[:, :, rows], lse[:, :, rows], *part)
            ### END SOLUTION
        o = o.to(q.dtype)
        ctx.save_for_backward(q, k, v, o, lse, kv)  # kv: of rank + 1; a block kept, a message less
        ctx.group, ctx.causal, ctx.zigzag, ctx.sm_scale = group, causal, zigzag, sm_scale
        ctx.mark_non_differentiable(lse)
        return o, lse

    @staticmethod
    @once_differentiable
    def backward(ctx, do, _):
        q, k, v, o, lse, kv = ctx.saved_tensors
        group, causal, zigzag, sm_scale = ctx.group, ctx.causal, ctx.zigzag, ctx.sm_scale
        rank, world, n = dist.get_rank(group), dist.get_world_size(group), q.shape[2]
        # Given: what forward kept counts as arrived, with a gradient that nobody has added to
        dq = torch.zeros_like(q, dtype=kept_in(q, world))
        travelling, gradients = (kv, []), (torch.zeros_like(kv, dtype=dq.dtype), [])
        for step in range(1, world):
            # 5. A round backward, to the left: a block, and its gradient one round behind
            ### BEGIN SOLUTION 5: take kv, dkv; add to dq, dkv; pass on both, at last dkv alone
            kv = arrived(travelling)
            if step + 1 < world:
                travelling = pass_on(kv, group, -1)
            rows, keys = visible((rank + step) % world, rank, n, causal, zigzag)
            mine = (x[:, :, rows] for x in (o, lse, do))
            dq_part, *dkv_part = attend_backward(
                q[:, :, rows], *kv[:, :, :, keys], *mine, causal=False, sm_scale=sm_scale
            )
            dq[:, :, rows] += dq_part
            dkv = arrived(gradients)  # of this block, from the ranks after me
            for total, part in zip(dkv, dkv_part, strict=True):
                total[:, :, keys] += part
            gradients = pass_on(dkv, group, -1)  # the last one goes home
            ### END SOLUTION
        # Given: my own block, while its gradient from all other ranks comes home
        own = attend_backward(q, k, v, o, lse, do, causal=causal, sm_scale=sm_scale)
        for share, others in zip(own, (dq, *arrived(gradients)), strict=True):
            share += others  # rounded here alone
        return *own, None, None, None, None


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


def ring_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    group: dist.ProcessGroup,
    *,
    causal: bool = False,
    zigzag: bool = False,
    sm_scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    check_shards(q, k, v, zigzag)
    sm_scale = q.shape[3] ** -0.5 if sm_scale is None else sm_scale
    return RingAttention.apply(q, k, v, group, causal, zigzag, sm_scale)
