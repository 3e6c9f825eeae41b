"""Blocks go to the left, k and v in messages of their own; parts are weighed by exp."""

import torch
import torch.distributed as dist
from torch.autograd.function import once_differentiable


def turn(tensors, group):
    """Send to the left, receive from the right, and wait."""
    rank, world = dist.get_rank(group), dist.get_world_size(group)
    left = dist.get_global_rank(group, (rank - 1) % world)
    right = dist.get_global_rank(group, (rank + 1) % world)
    came = [torch.empty_like(x) for x in tensors]
    messages = [dist.P2POp(dist.isend, x, left, group, n) for n, x in enumerate(tensors)]
    messages += [dist.P2POp(dist.irecv, x, right, group, n) for n, x in enumerate(came)]
    for request in dist.batch_isend_irecv(messages):
        request.wait()
    return came


def places(rank, world, x, zigzag):
    n = x.shape[2]
    if not zigzag:
        return torch.arange(rank * n, (rank + 1) * n, device=x.device)
    first, last = rank, 2 * world - 1 - rank
    half = torch.arange(n // 2, device=x.device)
    return torch.cat((first * (n // 2) + half, last * (n // 2) + half))


def scores(q, k, scale, hidden):
    k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1).to(torch.float32)
    return (scale * (q.to(torch.float32) @ k.mT)).masked_fill(hidden, -torch.inf)


class Ring(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, group, causal, zigzag, scale):
        rank, world = dist.get_rank(group), dist.get_world_size(group)
        mine = places(rank, world, q, zigzag)
        acc = torch.zeros_like(q, dtype=torch.float32)
        total, top = torch.zeros_like(acc[..., 0]), torch.full_like(acc[..., 0], -torch.inf)
        block = [k.contiguous(), v.contiguous()]
        for step in range(world):
            owner = (rank + step) % world
            hidden = torch.tensor(causal, device=q.device) & (
                places(owner, world, q, zigzag)[None, :] > mine[:, None]
            )
            s = scores(q, block[0], scale, hidden)
            new = torch.maximum(top, s.amax(3))
            p = torch.exp(s - new[..., None])
            old = torch.exp(top - new)
            v_ = block[1].repeat_interleave(q.shape[1] // v.shape[1], dim=1)
            total = old * total + p.sum(3)
            acc = old[..., None] * acc + p @ v_.to(torch.float32)
            top = new
            if step + 1 < world:
                block = turn(block, group)
        o = (acc / total[..., None]).to(q.dtype)
        lse = top + torch.log(total)
        ctx.save_for_backward(q, k, v, o, lse)
        ctx.call = group, causal, zigzag, scale
        ctx.mark_non_differentiable(lse)
        return o, lse

    @staticmethod
    @once_differentiable
    def backward(ctx, do, _):
        q, k, v, o, lse = ctx.saved_tensors
        group, causal, zigzag, scale = ctx.call
        rank, world = dist.get_rank(group), dist.get_world_size(group)
        mine, heads = places(rank, world, q, zigzag), q.shape[1] // k.shape[1]
        q_, do_ = q.to(torch.float32), do.to(torch.float32)
        delta = (do_ * o.to(torch.float32)).sum(3, keepdim=True)
        dq, *dkv = (torch.zeros_like(x, dtype=torch.float32).contiguous() for x in (q, k, v))
        block = [k.contiguous(), v.contiguous(), *dkv]
        for step in range(world):
            theirs = places((rank + step) % world, world, q, zigzag)
            hidden = torch.tensor(causal, device=q.device) & (theirs[None, :] > mine[:, None])
            p = torch.exp(scores(q, block[0], scale, hidden) - lse[..., None])
            k_, v_ = (x.repeat_interleave(heads, dim=1).to(torch.float32) for x in block[:2])
            ds = scale * p * (do_ @ v_.mT - delta)
            dq += ds @ k_
            block[2] += (ds.mT @ q_).unflatten(1, (-1, heads)).sum(2)
            block[3] += (p.mT @ do_).unflatten(1, (-1, heads)).sum(2)
            if world > 1:
                block = turn(block, group)
        dk, dv = block[2:]
        return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype), None, None, None, None


def ring_attention(q, k, v, group, *, causal=False, zigzag=False, sm_scale=None):
    if zigzag and q.shape[2] % 2:
        raise ValueError("q must have an even number of rows")
    scale = q.shape[3] ** -0.5 if sm_scale is None else sm_scale
    return Ring.apply(q, k, v, group, causal, zigzag, scale)
