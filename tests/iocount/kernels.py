"""The kernels whose bytes and FLOPs the acid tests derive by hand, and their launchers.

Tensors are [heads, rows, D] and contiguous; learners' files honour strides, these need not.
"""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def score(q, k, sm_scale, keep):
    """One tile of scores, -inf where ``keep`` is false."""
    return tl.where(keep, tl.dot(q, tl.trans(k)) * sm_scale, float("-inf"))


@triton.jit
def absorb(s, v, m_i, l_i, acc):
    """Online softmax: take a tile of scores and its values into the running state."""
    m_new = tl.maximum(m_i, tl.max(s, 1))
    alpha = tl.exp(m_i - m_new)
    p = tl.exp(s - m_new[:, None])
    l_i = l_i * alpha + tl.sum(p, 1)
    acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
    return m_new, l_i, acc


@triton.jit
def flash_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, N_q, N_k, group, sm_scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    start_m = tl.program_id(0) * BLOCK_M
    head = tl.program_id(1)
    offs_m = start_m + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, D)
    mask_m = offs_m < N_q
    rows = (head * N_q + offs_m[:, None]) * D + offs_d[None, :]
    q = tl.load(q_ptr + rows, mask=mask_m[:, None], other=0.0)
    m_i = tl.full([BLOCK_M], float("-inf"), tl.float32)
    l_i = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    end = N_k
    if CAUSAL:
        end = tl.minimum(N_k, start_m + BLOCK_M)
    for start_n in range(0, end, BLOCK_N):
        offs_n = start_n + tl.arange(0, BLOCK_N)
        mask_n = offs_n < N_k
        kv = (head // group * N_k + offs_n[:, None]) * D + offs_d[None, :]
        k = tl.load(k_ptr + kv, mask=mask_n[:, None], other=0.0)
        s = tl.dot(q, tl.trans(k)) * sm_scale
        keep = mask_n[None, :]
        if CAUSAL:
            keep = keep & (offs_m[:, None] >= offs_n[None, :])
        s = tl.where(keep, s, float("-inf"))
        m_new = tl.maximum(m_i, tl.max(s, 1))
        alpha = tl.exp(m_i - m_new)
        p = tl.exp(s - m_new[:, None])
        l_i = l_i * alpha + tl.sum(p, 1)
        v = tl.load(v_ptr + kv, mask=mask_n[:, None], other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        m_i = m_new
    tl.store(o_ptr + rows, (acc / l_i[:, None]).to(o_ptr.dtype.element_ty), mask=mask_m[:, None])
    tl.store(lse_ptr + head * N_q + offs_m, m_i + tl.log(l_i), mask=mask_m)


def flash(q, k, v, bm, bn, causal=False):
    """Forward; k and v may have fewer heads than q -> (o, lse)."""
    heads, n_q, d = q.shape
    o, lse = torch.empty_like(q), torch.empty(heads, n_q, dtype=torch.float32, device=q.device)
    flash_kernel[(triton.cdiv(n_q, bm), heads)](
        q, k, v, o, lse, n_q, k.shape[1], heads // k.shape[0], d**-0.5, d, bm, bn, causal
    )
    return o, lse


@triton.jit
def backward_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dq_ptr, dk_ptr, dv_ptr, N, sm_scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1)
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, D)
    mask_n = offs_n < N
    kv = (head * N + offs_n[:, None]) * D + offs_d[None, :]
    k = tl.load(k_ptr + kv, mask=mask_n[:, None], other=0.0)
    v = tl.load(v_ptr + kv, mask=mask_n[:, None], other=0.0)
    dk = tl.zeros([BLOCK_N, D], tl.float32)
    dv = tl.zeros([BLOCK_N, D], tl.float32)
    for start_m in range(0, N, BLOCK_M):
        offs_m = start_m + tl.arange(0, BLOCK_M)
        mask_m = offs_m < N
        rows = (head * N + offs_m[:, None]) * D + offs_d[None, :]
        q = tl.load(q_ptr + rows, mask=mask_m[:, None], other=0.0)
        do = tl.load(do_ptr + rows, mask=mask_m[:, None], other=0.0)
        lse = tl.load(lse_ptr + head * N + offs_m, mask=mask_m, other=float("inf"))
        delta = tl.load(delta_ptr + head * N + offs_m, mask=mask_m, other=0.0)
        s = tl.dot(q, tl.trans(k)) * sm_scale
        p = tl.exp(s - lse[:, None])
        dv = tl.dot(tl.trans(p.to(do.dtype)), do, dv)
        dp = tl.dot(do, tl.trans(v))
        ds = (p * (dp - delta[:, None]) * sm_scale).to(q.dtype)
        dk = tl.dot(tl.trans(ds), q, dk)
        tl.atomic_add(dq_ptr + rows, tl.dot(ds, k), mask=mask_m[:, None])
    tl.store(dk_ptr + kv, dk.to(dk_ptr.dtype.element_ty), mask=mask_n[:, None])
    tl.store(dv_ptr + kv, dv.to(dv_ptr.dtype.element_ty), mask=mask_n[:, None])


def backward(q, k, v, do, lse, delta, bm, bn):
    """Backward in one pass over K and V, dq by atomic additions -> (dq fp32, dk, dv)."""
    heads, n, d = q.shape
    dq, dk, dv = torch.zeros(heads, n, d), torch.empty_like(k), torch.empty_like(v)
    backward_kernel[(triton.cdiv(n, bn), heads)](
        q, k, v, do, lse, delta, dq, dk, dv, n, d**-0.5, d, bm, bn
    )
    return dq, dk, dv


@triton.jit
def split_kernel(
    q_ptr, k_ptr, v_ptr, part_ptr, part_lse_ptr, N, chunk, sm_scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    split = tl.program_id(0)
    head = tl.program_id(1)
    offs_m = tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, D)
    first = offs_m < 1
    q = tl.load(q_ptr + head * D + offs_d[None, :] + 0 * offs_m[:, None], first[:, None], 0.0)
    m_i = tl.full([BLOCK_M], float("-inf"), tl.float32)
    l_i = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    end = tl.minimum(split * chunk + chunk, N)
    for start_n in tl.range(split * chunk, end, BLOCK_N):
        offs_n = start_n + tl.arange(0, BLOCK_N)
        mask_n = offs_n < end
        kv = (head * N + offs_n[:, None]) * D + offs_d[None, :]
        k = tl.load(k_ptr + kv, mask=mask_n[:, None], other=0.0)
        v = tl.load(v_ptr + kv, mask=mask_n[:, None], other=0.0)
        s = score(q, k, sm_scale, mask_n[None, :])
        m_i, l_i, acc = absorb(s, v, m_i, l_i, acc)
    at = head * tl.num_programs(0) + split
    o = acc / l_i[:, None]
    tl.store(part_ptr + at * D + offs_d[None, :] + 0 * offs_m[:, None], o, mask=first[:, None])
    tl.store(part_lse_ptr + at + offs_m, m_i + tl.log(l_i), mask=first)


@triton.jit
def combine_kernel(part_ptr, part_lse_ptr, o_ptr, D: tl.constexpr, SPLITS: tl.constexpr):
    head = tl.program_id(0)
    offs_s = tl.arange(0, SPLITS)
    offs_d = tl.arange(0, D)
    lse = tl.load(part_lse_ptr + head * SPLITS + offs_s)
    parts = tl.load(part_ptr + (head * SPLITS + offs_s[:, None]) * D + offs_d[None, :])
    weight = tl.exp(lse - tl.max(lse, 0))
    o = tl.sum(parts * weight[:, None], 0) / tl.sum(weight, 0)
    tl.store(o_ptr + head * D + offs_d, o.to(o_ptr.dtype.element_ty))


def split_kv(q, k, v, splits, bn):
    """Decode of one query [H, 1, D] in two launches -> o."""
    heads, n, d = k.shape
    part, part_lse = torch.empty(heads, splits, d), torch.empty(heads, splits)
    o = torch.empty_like(q)
    split_kernel[(splits, heads)](
        q, k, v, part, part_lse, n, triton.cdiv(n, splits), d**-0.5, d, 16, bn
    )
    combine_kernel[(heads,)](part, part_lse, o, d, splits)
    return o


@triton.jit
def persistent_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    columns = tl.cdiv(N, BLOCK_N)
    tiles = tl.cdiv(M, BLOCK_M) * columns
    tile = tl.program_id(0)
    while tile < tiles:
        offs_m = tile // columns * BLOCK_M + tl.arange(0, BLOCK_M)
        offs_n = tile % columns * BLOCK_N + tl.arange(0, BLOCK_N)
        acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
        for start_k in range(0, K, BLOCK_K):
            offs_k = start_k + tl.arange(0, BLOCK_K)
            a_mask = (offs_m[:, None] < M) & (offs_k[None, :] < K)
            b_mask = (offs_k[:, None] < K) & (offs_n[None, :] < N)
            a = tl.load(a_ptr + offs_m[:, None] * K + offs_k[None, :], mask=a_mask, other=0.0)
            b = tl.load(b_ptr + offs_k[:, None] * N + offs_n[None, :], mask=b_mask, other=0.0)
            acc = tl.dot(a, b, acc)
        c_mask = (offs_m[:, None] < M) & (offs_n[None, :] < N)
        tl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(tl.float16), mask=c_mask)
        tile += tl.num_programs(0)


def persistent(a, b, block, programs):
    """a @ b with ``programs`` programs that take tiles in turn; block = (BM, BN, BK)."""
    c = torch.empty(a.shape[0], b.shape[1], dtype=a.dtype)
    (m, k), n = a.shape, b.shape[1]
    persistent_kernel[(programs,)](a, b, c, m, n, k, *block)
    return c


@triton.jit
def descriptor_kernel(
    q_desc, k_ptr, v_ptr, o_ptr, N_q, N_k, sm_scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    start_m = tl.program_id(0) * BLOCK_M
    k_desc = tl.make_tensor_descriptor(k_ptr, [N_k, D], [D, 1], [BLOCK_N, D])
    v_desc = tl.make_tensor_descriptor(v_ptr, [N_k, D], [D, 1], [BLOCK_N, D])
    o_desc = tl.make_tensor_descriptor(o_ptr, [N_q, D], [D, 1], [BLOCK_M, D])
    q = q_desc.load([start_m, 0])
    m_i = tl.full([BLOCK_M], float("-inf"), tl.float32)
    l_i = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    for start_n in range(0, N_k, BLOCK_N):
        keep = start_n + tl.arange(0, BLOCK_N) < N_k
        s = score(q, k_desc.load([start_n, 0]), sm_scale, keep[None, :])
        m_i, l_i, acc = absorb(s, v_desc.load([start_n, 0]), m_i, l_i, acc)
    o_desc.store([start_m, 0], (acc / l_i[:, None]).to(tl.float16))


def descriptors(q, k, v, bm, bn):
    """Forward of one head [N, D] with descriptors: q's from the host, the others' made inside."""
    o = torch.empty_like(q)
    q_desc = TensorDescriptor.from_tensor(q, [bm, q.shape[1]])
    descriptor_kernel[(triton.cdiv(len(q), bm),)](
        q_desc, k, v, o, len(q), len(k), q.shape[1] ** -0.5, q.shape[1], bm, bn
    )
    return o


@triton.jit
def attend(
    q, k_ptr, v_ptr, head, N, sm_scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr
):
    """All keys for one tile of queries -> (acc, m_i, l_i)."""
    m_i = tl.full([BM], float("-inf"), tl.float32)
    l_i = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    for start_n in range(0, N, BN):
        offs_n = start_n + tl.arange(0, BN)
        mask_n = offs_n < N
        kv = (head * N + offs_n[:, None]) * D + tl.arange(0, D)[None, :]
        k = tl.load(k_ptr + kv, mask=mask_n[:, None], other=0.0)
        v = tl.load(v_ptr + kv, mask=mask_n[:, None], other=0.0)
        m_i, l_i, acc = absorb(score(q, k, sm_scale, mask_n[None, :]), v, m_i, l_i, acc)
    return acc, m_i, l_i


@triton.jit
def nested_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, N, sm_scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1)
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    mask_m = (offs_m < N)[:, None]
    rows = (head * N + offs_m[:, None]) * D + tl.arange(0, D)[None, :]
    q = tl.load(q_ptr + rows, mask=mask_m, other=0.0)
    acc, m_i, l_i = attend(q, k_ptr, v_ptr, head, N, sm_scale, D, BLOCK_M, BLOCK_N)
    tl.store(o_ptr + rows, (acc / l_i[:, None]).to(tl.float16), mask=mask_m)


def nested(q, k, v, bm, bn):
    """Forward whose loop is in a jit function of its own -> o."""
    heads, n, d = q.shape
    o = torch.empty_like(q)
    nested_kernel[(triton.cdiv(n, bm), heads)](q, k, v, o, n, d**-0.5, d, bm, bn)
    return o


@triton.jit
def sparse_kernel(
    q_ptr, k_ptr, v_ptr, mask_ptr, o_ptr, N, columns, sm_scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    pid_m = tl.program_id(0)
    head = tl.program_id(1)
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, D)
    mask_m = offs_m < N
    rows = (head * N + offs_m[:, None]) * D + offs_d[None, :]
    q = tl.load(q_ptr + rows, mask=mask_m[:, None], other=0.0)
    m_i = tl.full([BLOCK_M], float("-inf"), tl.float32)
    l_i = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    for j in range(columns):
        if tl.load(mask_ptr + pid_m * columns + j):
            offs_n = j * BLOCK_N + tl.arange(0, BLOCK_N)
            mask_n = offs_n < N
            kv = (head * N + offs_n[:, None]) * D + offs_d[None, :]
            k = tl.load(k_ptr + kv, mask=mask_n[:, None], other=0.0)
            v = tl.load(v_ptr + kv, mask=mask_n[:, None], other=0.0)
            m_i, l_i, acc = absorb(score(q, k, sm_scale, mask_n[None, :]), v, m_i, l_i, acc)
    tl.store(o_ptr + rows, (acc / l_i[:, None]).to(tl.float16), mask=mask_m[:, None])


def block_sparse(q, k, v, mask, bm, bn):
    """Forward over the tiles where ``mask`` [query tiles, key tiles] is true, one a row."""
    heads, n, d = q.shape
    o = torch.empty_like(q)
    sparse_kernel[(triton.cdiv(n, bm), heads)](
        q, k, v, mask, o, n, mask.shape[1], d**-0.5, d, bm, bn
    )
    return o
