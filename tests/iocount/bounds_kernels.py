"""Small kernels whose traffic the closed forms of iocount/bounds predict; launched by test_bounds.

Contiguous [B, H, N, D] tensors, one program a tile, causal tiles skipped where the name says so.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def rows_of(ptr, head, start, N, D: tl.constexpr, BLOCK: tl.constexpr, BLOCK_D: tl.constexpr):
    """Pointers to BLOCK rows from ``start`` of one head of [heads, N, D], and their mask."""
    offs = start + tl.arange(0, BLOCK)
    cols = tl.arange(0, BLOCK_D)
    where = ptr + (head * N + offs[:, None]) * D + cols[None, :]
    return where, (offs[:, None] < N) & (cols[None, :] < D)


@triton.jit
def flash2_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, group, N_q, N_k, scale,
    CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """FlashAttention-2's order; a causal block stops after its last visible tile."""
    start_m, head = tl.program_id(0) * BLOCK_M, tl.program_id(1)
    at, mask = rows_of(q_ptr, head, start_m, N_q, D, BLOCK_M, BLOCK_D)
    q = tl.load(at, mask=mask, other=0.0)
    offs_m = start_m + tl.arange(0, BLOCK_M)
    m_i = tl.full([BLOCK_M], float("-inf"), tl.float32)
    l_i = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    stop = N_k
    if CAUSAL:
        stop = tl.minimum(N_k, start_m + BLOCK_M + N_k - N_q)
    for start_n in range(0, stop, BLOCK_N):
        k_at, k_mask = rows_of(k_ptr, head // group, start_n, N_k, D, BLOCK_N, BLOCK_D)
        v_at, _ = rows_of(v_ptr, head // group, start_n, N_k, D, BLOCK_N, BLOCK_D)
        k = tl.load(k_at, mask=k_mask, other=0.0)
        v = tl.load(v_at, mask=k_mask, other=0.0)
        offs_n = start_n + tl.arange(0, BLOCK_N)
        seen = offs_n[None, :] < N_k
        if CAUSAL:
            seen &= offs_n[None, :] <= offs_m[:, None] + N_k - N_q
        s = tl.where(seen, tl.dot(q, tl.trans(k)) * scale, float("-inf"))
        m_new = tl.maximum(m_i, tl.max(s, 1))
        safe = tl.where(m_new == float("-inf"), 0.0, m_new)
        p = tl.exp(s - safe[:, None])
        alpha = tl.exp(m_i - safe)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        l_i = l_i * alpha + tl.sum(p, 1)
        m_i = m_new
    l_safe = tl.where(l_i == 0.0, 1.0, l_i)
    o_at, _ = rows_of(o_ptr, head, start_m, N_q, D, BLOCK_M, BLOCK_D)
    tl.store(o_at, (acc / l_safe[:, None]).to(o_ptr.dtype.element_ty), mask=mask)
    tl.store(lse_ptr + head * N_q + offs_m, m_i + tl.log(l_safe), mask=offs_m < N_q)


@triton.jit
def delta_kernel(
    o_ptr, do_ptr, delta_ptr, N_q,
    D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    """delta = rowsum(do * o)."""
    start_m, head = tl.program_id(0) * BLOCK_M, tl.program_id(1)
    o_at, mask = rows_of(o_ptr, head, start_m, N_q, D, BLOCK_M, BLOCK_D)
    do_at, _ = rows_of(do_ptr, head, start_m, N_q, D, BLOCK_M, BLOCK_D)
    o = tl.load(o_at, mask=mask, other=0.0).to(tl.float32)
    do = tl.load(do_at, mask=mask, other=0.0).to(tl.float32)
    offs_m = start_m + tl.arange(0, BLOCK_M)
    tl.store(delta_ptr + head * N_q + offs_m, tl.sum(o * do, 1), mask=offs_m < N_q)


@triton.jit
def weights(q, k, lse, offs_m, offs_n, N_q, N_k, scale, CAUSAL: tl.constexpr):
    """p = exp(s - lse) of one tile, 0 where a key is not seen."""
    seen = (offs_n[None, :] < N_k) & (offs_m[:, None] < N_q)
    if CAUSAL:
        seen &= offs_n[None, :] <= offs_m[:, None] + N_k - N_q
    s = tl.dot(q, tl.trans(k)) * scale
    return tl.where(seen, tl.exp(s - lse[:, None]), 0.0)


@triton.jit
def dkdv_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr, group, N_q, N_k, scale,
    CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """One key block of a key head; the queries of every head of its group."""
    start_n, kv_head = tl.program_id(0) * BLOCK_N, tl.program_id(1)
    k_at, k_mask = rows_of(k_ptr, kv_head, start_n, N_k, D, BLOCK_N, BLOCK_D)
    v_at, _ = rows_of(v_ptr, kv_head, start_n, N_k, D, BLOCK_N, BLOCK_D)
    k = tl.load(k_at, mask=k_mask, other=0.0)
    v = tl.load(v_at, mask=k_mask, other=0.0)
    offs_n = start_n + tl.arange(0, BLOCK_N)
    dk = tl.zeros([BLOCK_N, BLOCK_D], tl.float32)
    dv = tl.zeros([BLOCK_N, BLOCK_D], tl.float32)
    first = 0
    if CAUSAL:
        first = tl.maximum(0, start_n - (N_k - N_q)) // BLOCK_M * BLOCK_M
    for head in range(kv_head * group, kv_head * group + group):
        for start_m in range(first, N_q, BLOCK_M):
            q_at, mask = rows_of(q_ptr, head, start_m, N_q, D, BLOCK_M, BLOCK_D)
            do_at, _ = rows_of(do_ptr, head, start_m, N_q, D, BLOCK_M, BLOCK_D)
            q = tl.load(q_at, mask=mask, other=0.0)
            do = tl.load(do_at, mask=mask, other=0.0)
            offs_m = start_m + tl.arange(0, BLOCK_M)
            row = head * N_q + offs_m
            lse = tl.load(lse_ptr + row, mask=offs_m < N_q, other=0.0)
            delta = tl.load(delta_ptr + row, mask=offs_m < N_q, other=0.0)
            p = weights(q, k, lse, offs_m, offs_n, N_q, N_k, scale, CAUSAL)
            dv += tl.dot(tl.trans(p).to(do.dtype), do)
            ds = p * (tl.dot(do, tl.trans(v)) - delta[:, None])
            dk += tl.dot(tl.trans(ds).to(q.dtype), q) * scale
    dk_at, _ = rows_of(dk_ptr, kv_head, start_n, N_k, D, BLOCK_N, BLOCK_D)
    dv_at, _ = rows_of(dv_ptr, kv_head, start_n, N_k, D, BLOCK_N, BLOCK_D)
    tl.store(dk_at, dk.to(dk_ptr.dtype.element_ty), mask=k_mask)
    tl.store(dv_at, dv.to(dv_ptr.dtype.element_ty), mask=k_mask)


@triton.jit
def dq_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dq_ptr, group, N_q, N_k, scale,
    CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """One query block; the keys it sees."""
    start_m, head = tl.program_id(0) * BLOCK_M, tl.program_id(1)
    q_at, mask = rows_of(q_ptr, head, start_m, N_q, D, BLOCK_M, BLOCK_D)
    do_at, _ = rows_of(do_ptr, head, start_m, N_q, D, BLOCK_M, BLOCK_D)
    q = tl.load(q_at, mask=mask, other=0.0)
    do = tl.load(do_at, mask=mask, other=0.0)
    offs_m = start_m + tl.arange(0, BLOCK_M)
    row = head * N_q + offs_m
    lse = tl.load(lse_ptr + row, mask=offs_m < N_q, other=0.0)
    delta = tl.load(delta_ptr + row, mask=offs_m < N_q, other=0.0)
    dq = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    stop = N_k
    if CAUSAL:
        stop = tl.minimum(N_k, start_m + BLOCK_M + N_k - N_q)
    for start_n in range(0, stop, BLOCK_N):
        k_at, k_mask = rows_of(k_ptr, head // group, start_n, N_k, D, BLOCK_N, BLOCK_D)
        v_at, _ = rows_of(v_ptr, head // group, start_n, N_k, D, BLOCK_N, BLOCK_D)
        k = tl.load(k_at, mask=k_mask, other=0.0)
        v = tl.load(v_at, mask=k_mask, other=0.0)
        offs_n = start_n + tl.arange(0, BLOCK_N)
        p = weights(q, k, lse, offs_m, offs_n, N_q, N_k, scale, CAUSAL)
        ds = p * (tl.dot(do, tl.trans(v)) - delta[:, None])
        dq += tl.dot(ds.to(k.dtype), k) * scale
    dq_at, _ = rows_of(dq_ptr, head, start_m, N_q, D, BLOCK_M, BLOCK_D)
    tl.store(dq_at, dq.to(dq_ptr.dtype.element_ty), mask=mask)


@triton.jit
def sparse_kernel(
    q_ptr, k_ptr, v_ptr, block_mask_ptr, o_ptr, lse_ptr, H, mask_heads, N_q, N_k, scale,
    D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Flash forward over the tiles that a block mask keeps."""
    start_m, head = tl.program_id(0) * BLOCK_M, tl.program_id(1)
    at, mask = rows_of(q_ptr, head, start_m, N_q, D, BLOCK_M, BLOCK_D)
    q = tl.load(at, mask=mask, other=0.0)
    tiles = tl.cdiv(N_k, BLOCK_N)
    mask_row = (head % H % mask_heads * tl.num_programs(0) + tl.program_id(0)) * tiles
    m_i = tl.full([BLOCK_M], float("-inf"), tl.float32)
    l_i = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    for j in range(tiles):
        if tl.load(block_mask_ptr + mask_row + j) != 0:
            k_at, k_mask = rows_of(k_ptr, head, j * BLOCK_N, N_k, D, BLOCK_N, BLOCK_D)
            v_at, _ = rows_of(v_ptr, head, j * BLOCK_N, N_k, D, BLOCK_N, BLOCK_D)
            k = tl.load(k_at, mask=k_mask, other=0.0)
            v = tl.load(v_at, mask=k_mask, other=0.0)
            seen = (j * BLOCK_N + tl.arange(0, BLOCK_N))[None, :] < N_k
            s = tl.where(seen, tl.dot(q, tl.trans(k)) * scale, float("-inf"))
            m_new = tl.maximum(m_i, tl.max(s, 1))
            p = tl.exp(s - m_new[:, None])
            alpha = tl.exp(m_i - m_new)
            acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
            l_i = l_i * alpha + tl.sum(p, 1)
            m_i = m_new
    l_safe = tl.where(l_i == 0.0, 1.0, l_i)
    o_at, _ = rows_of(o_ptr, head, start_m, N_q, D, BLOCK_M, BLOCK_D)
    tl.store(o_at, (acc / l_safe[:, None]).to(o_ptr.dtype.element_ty), mask=mask)
    offs_m = start_m + tl.arange(0, BLOCK_M)
    tl.store(lse_ptr + head * N_q + offs_m, m_i + tl.log(l_safe), mask=offs_m < N_q)


def launch_sizes(D: int, block_m: int, block_n: int) -> dict[str, int]:
    """The constexprs that the kernels share."""
    block_d = max(16, triton.next_power_of_2(D))
    return {"D": D, "BLOCK_D": block_d, "BLOCK_M": block_m, "BLOCK_N": block_n}


def flash2(q, k, v, block_m, block_n, causal):
    """o and lse of grouped heads."""
    B, H, N_q, D = q.shape
    o, lse = torch.empty_like(q), torch.empty(B, H, N_q)
    flash2_kernel[triton.cdiv(N_q, block_m), B * H](
        q, k, v, o, lse, H // k.shape[1], N_q, k.shape[2], D**-0.5,
        CAUSAL=causal, **launch_sizes(D, block_m, block_n),
    )  # fmt: skip
    return o, lse


def backward(q, k, v, o, lse, do, block_m, block_n, causal):
    """dq, dk, dv by recomputation, in three kernels."""
    B, H, N_q, D = q.shape
    H_kv, N_k = k.shape[1:3]
    delta, dq, dk, dv = torch.empty_like(lse), *map(torch.empty_like, (q, k, v))
    sizes = launch_sizes(D, block_m, block_n)
    no_keys = {n: s for n, s in sizes.items() if n != "BLOCK_N"}
    delta_kernel[triton.cdiv(N_q, block_m), B * H](o, do, delta, N_q, **no_keys)
    rest = (H // H_kv, N_q, N_k, D**-0.5)
    dkdv_kernel[triton.cdiv(N_k, block_n), B * H_kv](
        q, k, v, do, lse, delta, dk, dv, *rest, CAUSAL=causal, **sizes
    )
    dq_kernel[triton.cdiv(N_q, block_m), B * H](
        q, k, v, do, lse, delta, dq, *rest, CAUSAL=causal, **sizes
    )
    return dq, dk, dv


def sparse(q, k, v, block_mask, block_m, block_n):
    """o and lse over the kept tiles; ``block_mask`` is int8."""
    B, H, N_q, D = q.shape
    o, lse = torch.empty_like(q), torch.empty(B, H, N_q)
    sparse_kernel[triton.cdiv(N_q, block_m), B * H](
        q, k, v, block_mask, o, lse, H, block_mask.shape[0], N_q, k.shape[2], D**-0.5,
        **launch_sizes(D, block_m, block_n),
    )  # fmt: skip
    return o, lse
