"""Correct in another style: a grid of three axes, k loaded transposed, pointers that advance, an
accumulator that is divided once."""

import torch
import triton
import triton.language as tl

BLOCK_M = 64
BLOCK_N = 64


@triton.jit
def kernel(
    Q, K, V, Out, Lse,
    qb, qh, qm, qd, kb, kh, kn, kd, vb, vh, vn, vd, ob, oh, om, od, lb, lh, lm,
    n_q, n_k, scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
    CAUSAL: tl.constexpr,
):  # fmt: skip
    h = tl.program_id(1).to(tl.int64)
    b = tl.program_id(2).to(tl.int64)
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.arange(0, BLOCK_N)
    d = tl.arange(0, BLOCK_D)
    q = tl.load(
        Q + b * qb + h * qh + rows[:, None] * qm + d[None, :] * qd,
        mask=(rows[:, None] < n_q) & (d[None, :] < D),
        other=0.0,
    )
    k_ptrs = K + b * kb + h * kh + cols[None, :] * kn + d[:, None] * kd
    v_ptrs = V + b * vb + h * vh + cols[:, None] * vn + d[None, :] * vd
    m = tl.full([BLOCK_M], float("-inf"), tl.float32)
    den = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    for start in range(0, n_k, BLOCK_N):
        key = start + cols
        kt = tl.load(k_ptrs, mask=(key[None, :] < n_k) & (d[:, None] < D), other=0.0)
        v = tl.load(v_ptrs, mask=(key[:, None] < n_k) & (d[None, :] < D), other=0.0)
        s = tl.dot(q, kt, input_precision="ieee") * scale
        keep = key[None, :] < n_k
        if CAUSAL:
            keep = keep & (rows[:, None] + n_k - n_q >= key[None, :])
        s = tl.where(keep, s, float("-inf"))
        top = tl.maximum(m, tl.max(s, axis=1))
        base = tl.where(top == float("-inf"), 0.0, top)
        p = tl.exp(s - base[:, None])
        shrink = tl.exp(m - base)
        den = den * shrink + tl.sum(p, axis=1)
        acc = acc * shrink[:, None] + tl.dot(p.to(v.dtype), v, input_precision="ieee")
        m = top
        k_ptrs += BLOCK_N * kn
        v_ptrs += BLOCK_N * vn
    safe = tl.where(den == 0.0, 1.0, den)
    tl.store(
        Out + b * ob + h * oh + rows[:, None] * om + d[None, :] * od,
        (acc / safe[:, None]).to(Out.dtype.element_ty),
        mask=(rows[:, None] < n_q) & (d[None, :] < D),
    )
    tl.store(Lse + b * lb + h * lh + rows * lm, m + tl.log(safe), mask=rows < n_q)


def flash_forward(q, k, v, *, causal=False, sm_scale=None):
    B, H, n_q, D = q.shape
    n_k = k.shape[2]
    o = torch.zeros_like(q)
    lse = torch.full((B, H, n_q), float("-inf"), device=q.device)
    if B * H * n_q * n_k:
        kernel[(triton.cdiv(n_q, BLOCK_M), H, B)](
            q, k, v, o, lse,
            *q.stride(), *k.stride(), *v.stride(), *o.stride(), *lse.stride(),
            n_q, n_k, D**-0.5 if sm_scale is None else sm_scale,
            D, BLOCK_M, BLOCK_N, max(16, triton.next_power_of_2(D)), causal,
        )  # fmt: skip
    return o, lse
