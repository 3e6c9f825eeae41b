"""Flash forward of one head [N, D] in eight styles: all correct, none may be reported."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def moving_pointers(q, k, v, o, N, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.arange(0, BN)
    d = tl.arange(0, D)
    q_tile = tl.load(q + m[:, None] * D + d[None, :], mask=m[:, None] < N, other=0.0)
    k_ptrs = k + n[:, None] * D + d[None, :]
    v_ptrs = v + n[:, None] * D + d[None, :]
    m_i = tl.full([BM], -float("inf"), tl.float32)
    l_i = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    for start in range(0, N, BN):
        keep = start + n < N
        s = tl.dot(q_tile, tl.load(k_ptrs, mask=keep[:, None], other=0.0).T) * scale
        s = tl.where(keep[None, :], s, -float("inf"))
        m_new = tl.maximum(m_i, tl.max(s, axis=1))
        p = tl.exp(s - m_new[:, None])
        alpha = tl.exp(m_i - m_new)
        l_i = l_i * alpha + tl.sum(p, axis=1)
        acc = acc * alpha[:, None]
        acc += tl.dot(p.to(tl.float16), tl.load(v_ptrs, mask=keep[:, None], other=0.0))
        m_i = m_new
        k_ptrs += BN * D
        v_ptrs += BN * D
    o_ptrs = o + m[:, None] * D + d[None, :]
    tl.store(o_ptrs, (acc / l_i[:, None]).to(tl.float16), mask=m[:, None] < N)


@triton.jit
def base_two(q, k, v, o, N, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    keep_m = m[:, None] < N
    q_tile = tl.load(q + m[:, None] * D + d[None, :], mask=keep_m)  # extra rows are never stored
    m_i = tl.full([BM], float("-inf"), tl.float32)
    l_i = tl.full([BM], 0.0, tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for i in range(tl.cdiv(N, BN)):
        n = i * BN + tl.arange(0, BN)
        k_t = tl.load(k + n[None, :] * D + d[:, None], mask=n[None, :] < N)  # K already transposed
        s = tl.dot(q_tile, k_t) * (scale * 1.4426950408889634)
        s = tl.where(n[None, :] < N, s, float("-inf"))
        m_new = tl.maximum(m_i, tl.max(s, 1))
        p = tl.exp2(s - m_new[:, None])
        alpha = tl.exp2(m_i - m_new)
        l_i = tl.fma(l_i, alpha, tl.sum(p, 1))
        v_tile = tl.load(v + n[:, None] * D + d[None, :], mask=n[:, None] < N, other=0)
        acc = tl.dot(p.to(v_tile.dtype), v_tile, acc=acc * alpha[:, None])
        m_i = m_new
    tl.store(o + m[:, None] * D + d[None, :], (acc / l_i[:, None]).to(q_tile.dtype), mask=keep_m)


@triton.jit
def kept_dimensions(q, k, v, o, N, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    m = (tl.program_id(0) * BM + tl.arange(0, BM))[:, None]
    d = tl.arange(0, D)[None, :]
    q_tile = tl.load(q + m * D + d, mask=m < N, other=0.0).to(tl.float32) * scale
    m_i = tl.full([BM, 1], float("-inf"), tl.float32)
    l_i = tl.zeros([BM, 1], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    for start in tl.range(0, N, BN):
        n = (start + tl.arange(0, BN))[:, None]
        k_tile = tl.load(k + n * D + d, mask=n < N, other=0.0).to(tl.float32)
        v_tile = tl.load(v + n * D + d, mask=n < N, other=0.0).to(tl.float32)
        s = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee")
        s += tl.where(tl.trans(n) < N, 0.0, float("-inf"))
        m_new = tl.maximum(m_i, tl.max(s, 1, keep_dims=True))
        p = tl.exp(s - m_new)
        alpha = tl.exp(m_i - m_new)
        l_i = l_i * alpha + tl.sum(p, 1, keep_dims=True)
        acc = acc * alpha + tl.dot(p, v_tile, input_precision="ieee")
        m_i = m_new
    tl.store(o + m * D + d, (acc / l_i).to(tl.float16), mask=m < N)


@triton.jit
def normalised_each_step(
    q, k, v, o, N, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr
):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    keep_m = (m < N)[:, None]
    q_tile = tl.load(q + m[:, None] * D + d[None, :], mask=keep_m, other=0.0)
    lse = tl.full([BM], float("-inf"), tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    start = 0
    while start < N:
        n = start + tl.arange(0, BN)
        keep_n = (n < N)[:, None]
        k_tile = tl.load(k + n[:, None] * D + d[None, :], mask=keep_n, other=0.0)
        v_tile = tl.load(v + n[:, None] * D + d[None, :], mask=keep_n, other=0.0)
        s = tl.where((n < N)[None, :], tl.dot(q_tile, tl.trans(k_tile)) * scale, float("-inf"))
        top = tl.max(s, 1)
        part = top + tl.log(tl.sum(tl.exp(s - top[:, None]), 1))
        high = tl.maximum(lse, part)
        new = high + tl.log(tl.exp(lse - high) + tl.exp(part - high))
        p = tl.exp(s - new[:, None])
        acc = acc * tl.exp(lse - new)[:, None] + tl.dot(p.to(tl.float16), v_tile)
        lse = new
        start += BN
    tl.store(o + m[:, None] * D + d[None, :], acc.to(tl.float16), mask=keep_m)


@triton.jit
def _tile(q_tile, k, v, acc, m_i, l_i, n, N, scale, D: tl.constexpr, MASK: tl.constexpr):
    d = tl.arange(0, D)
    if MASK:
        k_tile = tl.load(k + n[:, None] * D + d[None, :], mask=(n < N)[:, None], other=0.0)
        v_tile = tl.load(v + n[:, None] * D + d[None, :], mask=(n < N)[:, None], other=0.0)
    else:
        k_tile = tl.load(k + n[:, None] * D + d[None, :])
        v_tile = tl.load(v + n[:, None] * D + d[None, :])
    s = tl.dot(q_tile, tl.trans(k_tile)) * scale
    if MASK:
        s = tl.where((n < N)[None, :], s, float("-inf"))
    m_new = tl.maximum(m_i, tl.max(s, 1))
    p = tl.exp(s - m_new[:, None])
    alpha = tl.exp(m_i - m_new)
    acc = tl.dot(p.to(tl.float16), v_tile, acc * alpha[:, None])
    return acc, m_new, l_i * alpha + tl.sum(p, 1)


@triton.jit
def full_tiles_first(q, k, v, o, N, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    keep_m = (m < N)[:, None]
    q_tile = tl.load(q + m[:, None] * D + d[None, :], mask=keep_m, other=0.0)
    m_i = tl.full([BM], float("-inf"), tl.float32)
    l_i = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    whole = N // BN * BN
    for start in range(0, whole, BN):
        n = start + tl.arange(0, BN)
        acc, m_i, l_i = _tile(q_tile, k, v, acc, m_i, l_i, n, N, scale, D, False)
    if whole < N:
        n = whole + tl.arange(0, BN)
        acc, m_i, l_i = _tile(q_tile, k, v, acc, m_i, l_i, n, N, scale, D, True)
    tl.store(o + m[:, None] * D + d[None, :], (acc / l_i[:, None]).to(tl.float16), mask=keep_m)


@triton.jit
def two_passes(q, k, v, o, N, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    keep_m = (m < N)[:, None]
    q_tile = tl.load(q + m[:, None] * D + d[None, :], mask=keep_m, other=0.0)
    m_i = tl.full([BM], float("-inf"), tl.float32)
    for start in range(0, N, BN):
        n = start + tl.arange(0, BN)
        k_tile = tl.load(k + n[:, None] * D + d[None, :], mask=(n < N)[:, None])
        s = tl.dot(q_tile, tl.trans(k_tile)) * scale
        m_i = tl.maximum(m_i, tl.max(tl.where(n[None, :] < N, s, float("-inf")), 1))
    l_i = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    for start in range(0, N, BN):
        n = start + tl.arange(0, BN)
        k_tile = tl.load(k + n[:, None] * D + d[None, :], mask=(n < N)[:, None])
        v_tile = tl.load(v + n[:, None] * D + d[None, :], mask=(n < N)[:, None], other=0.0)
        s = tl.dot(q_tile, tl.trans(k_tile)) * scale
        p = tl.where(n[None, :] < N, tl.exp(s - m_i[:, None]), 0.0)
        l_i += tl.sum(p, 1)
        acc += tl.dot(p.to(tl.float16), v_tile)
    tl.store(o + m[:, None] * D + d[None, :], (acc / l_i[:, None]).to(tl.float16), mask=keep_m)


@triton.jit
def with_descriptors(q, k, v, o, N, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    start_m = tl.program_id(0) * BM
    q_tile = q.load([start_m, 0])
    m_i = tl.full([BM], float("-inf"), tl.float32)
    l_i = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    for start in range(0, N, BN):
        keep = start + tl.arange(0, BN) < N
        s = tl.dot(q_tile, k.load([start, 0]).T) * scale
        s = tl.where(keep[None, :], s, float("-inf"))
        m_new = tl.maximum(m_i, s.max(1))
        p = (s - m_new[:, None]).exp()
        alpha = (m_i - m_new).exp()
        l_i = l_i * alpha + p.sum(1)
        acc = tl.dot(p.to(tl.float16), v.load([start, 0]), acc * alpha[:, None])
        m_i = m_new
    o.store([start_m, 0], (acc / l_i[:, None]).to(tl.float16))


@triton.jit
def keys_outside(q, k, v, o, N, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    """FlashAttention-1's order in one program: K and V outside, o read and written again."""
    d = tl.arange(0, D)
    for start_n in range(0, N, BN):
        n = start_n + tl.arange(0, BN)
        k_tile = tl.load(k + n[:, None] * D + d[None, :], mask=n[:, None] < N, other=0.0)
        v_tile = tl.load(v + n[:, None] * D + d[None, :], mask=n[:, None] < N, other=0.0)
        for start_m in range(0, N, BM):
            m = start_m + tl.arange(0, BM)
            at = m[:, None] * D + d[None, :]
            q_tile = tl.load(q + at, mask=m[:, None] < N, other=0.0)
            s = tl.where(n[None, :] < N, tl.dot(q_tile, k_tile.T) * scale, float("-inf"))
            top = tl.max(s, 1)
            p = tl.exp(s - top[:, None])
            part = tl.dot(p.to(tl.float16), v_tile) / tl.sum(p, 1)[:, None]
            lse = top + tl.log(tl.sum(p, 1))
            stats = o + N * D + m  # the state kept behind o
            if start_n > 0:
                old = tl.load(stats, mask=m < N, other=0.0)
                new = tl.maximum(old, lse) + tl.log(1 + tl.exp(-tl.abs(old - lse)))
                before = tl.load(o + at, mask=m[:, None] < N, other=0.0)
                part = before * tl.exp(old - new)[:, None] + part * tl.exp(lse - new)[:, None]
                lse = new
            tl.store(o + at, part, mask=m[:, None] < N)
            tl.store(stats, lse, mask=m < N)


STYLES = (
    moving_pointers,
    base_two,
    kept_dimensions,
    normalised_each_step,
    full_tiles_first,
    two_passes,
    with_descriptors,
    keys_outside,
)


def run(style, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bm: int, bn: int):
    """o [N, D] of one style."""
    n, d = q.shape
    args = (n, d**-0.5, d, bm, bn)
    if style is keys_outside:
        o = torch.empty(n * d + n)
        style[(1,)](q, k, v, o, *args)
        return o[: n * d].view(n, d)
    o = torch.empty_like(q)
    tensors = [q, k, v, o]
    if style is with_descriptors:
        blocks = ([bm, d], [bn, d], [bn, d], [bm, d])
        tensors = [
            TensorDescriptor.from_tensor(t, b) for t, b in zip(tensors, blocks, strict=True)
        ]
    style[(triton.cdiv(n, bm),)](*tensors, *args)
    return o
