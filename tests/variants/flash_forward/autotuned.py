"""Correct in another style: tile sizes by autotuning; causal tiles beyond the diagonal skipped."""

import torch
import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"BLOCK_M": m, "BLOCK_N": n}, num_warps=4, num_stages=2)
    for m, n in ((32, 32), (64, 32), (64, 64))
]


@triton.autotune(CONFIGS, key=["N_q", "N_k", "D"])
@triton.jit
def kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr,
    qb, qh, qm, qd, kb, kh, kn, kd, vb, vh, vn, vd, ob, oh, om, od, lb, lh, lm,
    H, N_q, N_k, sm_scale,
    D: tl.constexpr, BLOCK_D: tl.constexpr, CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    start_m = tl.program_id(0) * BLOCK_M
    b, h = (tl.program_id(1) // H).to(tl.int64), (tl.program_id(1) % H).to(tl.int64)
    offs_m = start_m + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, BLOCK_D)
    mask_q = (offs_m < N_q)[:, None] & (offs_d < D)[None, :]
    at = b * qb + h * qh + offs_m[:, None] * qm + offs_d[None, :] * qd
    q = tl.load(q_ptr + at, mask=mask_q, other=0.0)
    m_i = tl.full([BLOCK_M], float("-inf"), tl.float32)
    l_i = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    end_n = N_k
    if CAUSAL:
        end_n = tl.maximum(tl.minimum(N_k, start_m + BLOCK_M + N_k - N_q), 0)
    for start_n in tl.range(0, end_n, BLOCK_N):
        offs_n = start_n + tl.arange(0, BLOCK_N)
        mask_kv = (offs_n < N_k)[:, None] & (offs_d < D)[None, :]
        at = b * kb + h * kh + offs_n[:, None] * kn + offs_d[None, :] * kd
        k = tl.load(k_ptr + at, mask=mask_kv, other=0.0)
        s = sm_scale * tl.dot(q, k.T, input_precision="ieee")
        visible = (offs_n < N_k)[None, :]
        if CAUSAL:
            visible = visible & (offs_n[None, :] <= offs_m[:, None] + N_k - N_q)
        s = tl.where(visible, s, float("-inf"))
        m_new = tl.maximum(m_i, s.max(1))
        m_ref = tl.where(m_new == float("-inf"), 0.0, m_new)
        alpha = tl.exp(m_i - m_ref)
        p = tl.exp(s - m_ref[:, None])
        l_i = alpha * l_i + p.sum(1)
        at = b * vb + h * vh + offs_n[:, None] * vn + offs_d[None, :] * vd
        v = tl.load(v_ptr + at, mask=mask_kv, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None], input_precision="ieee")
        m_i = m_new
    l_i = tl.where(l_i == 0.0, 1.0, l_i)
    at = b * ob + h * oh + offs_m[:, None] * om + offs_d[None, :] * od
    tl.store(o_ptr + at, acc / l_i[:, None], mask=mask_q)
    tl.store(lse_ptr + b * lb + h * lh + offs_m * lm, m_i + tl.log(l_i), mask=offs_m < N_q)


def flash_forward(q, k, v, *, causal=False, sm_scale=None):
    B, H, N_q, D = q.shape
    N_k = k.shape[2]
    o = torch.zeros_like(q)
    lse = torch.full((B, H, N_q), float("-inf"), device=q.device)
    if B * H * N_q * N_k:
        kernel[lambda meta: (triton.cdiv(N_q, meta["BLOCK_M"]), B * H)](
            q, k, v, o, lse,
            *q.stride(), *k.stride(), *v.stride(), *o.stride(), *lse.stride(),
            H, N_q, N_k, D**-0.5 if sm_scale is None else sm_scale,
            D=D, BLOCK_D=max(16, triton.next_power_of_2(D)), CAUSAL=causal,
        )  # fmt: skip
    return o, lse
