"""FlashAttention-1's loop order in Triton: keys outside, each output block read and written again.

Kept for comparison (chapters 04, 05, 07): one program a head, o normalised after every tile, two
statistics a row (m and l) in memory.
"""

import math

import torch
import triton
import triton.language as tl

BLOCK_M, BLOCK_N = 64, 64


@triton.jit
def flash1_fwd_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    o_ptr,
    m_ptr,  # contiguous [B * H, N_q], like l
    l_ptr,
    stride_qb, stride_qh, stride_qm, stride_qd,
    stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd,
    stride_ob, stride_oh, stride_om, stride_od,
    H, N_q, N_k,
    sm_scale,
    CAUSAL: tl.constexpr,
    D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """o = softmax(q k^T * sm_scale) v of one head; the inner loop passes all query blocks."""
    # 1. Which head is mine
    bh = tl.program_id(0).to(tl.int64)
    b, h = bh // H, bh % H
    q_ptr += b * stride_qb + h * stride_qh
    k_ptr += b * stride_kb + h * stride_kh
    v_ptr += b * stride_vb + h * stride_vh
    o_ptr += b * stride_ob + h * stride_oh
    offs_d = tl.arange(0, BLOCK_D)
    mask_d = offs_d < D

    for start_n in range(0, N_k, BLOCK_N):
        # 2. K_j and V_j stay on chip: BLOCK_N * D elements each
        offs_n = start_n + tl.arange(0, BLOCK_N)
        mask_n = offs_n < N_k
        kv_mask = mask_n[:, None] & mask_d[None, :]
        rows_n = offs_n.to(tl.int64)[:, None]
        k_at = k_ptr + rows_n * stride_kn + offs_d[None, :] * stride_kd
        v_at = v_ptr + rows_n * stride_vn + offs_d[None, :] * stride_vd
        k = tl.load(k_at, mask=kv_mask, other=0.0)  # [BLOCK_N, BLOCK_D]
        v = tl.load(v_at, mask=kv_mask, other=0.0)  # [BLOCK_N, BLOCK_D]

        for start_m in range(0, N_q, BLOCK_M):
            # 3. Q_i, and what is known of its rows (nothing before the first key block)
            offs_m = start_m + tl.arange(0, BLOCK_M)
            mask_m = offs_m < N_q
            q_mask = mask_m[:, None] & mask_d[None, :]
            rows_m = offs_m.to(tl.int64)[:, None]
            q_at = q_ptr + rows_m * stride_qm + offs_d[None, :] * stride_qd
            o_at = o_ptr + rows_m * stride_om + offs_d[None, :] * stride_od
            q = tl.load(q_at, mask=q_mask, other=0.0)  # [BLOCK_M, BLOCK_D]
            known = mask_m & (start_n > 0)
            m_i = tl.load(m_ptr + bh * N_q + offs_m, mask=known, other=-float("inf"))  # [BLOCK_M]
            l_i = tl.load(l_ptr + bh * N_q + offs_m, mask=known, other=0.0)  # [BLOCK_M]
            o = tl.load(o_at, mask=known[:, None] & mask_d[None, :], other=0.0).to(tl.float32)

            # 4. Score, mask, new maximum
            s = tl.dot(q, tl.trans(k), input_precision="ieee") * sm_scale  # [BLOCK_M, BLOCK_N]
            seen = mask_n[None, :]
            if CAUSAL:
                seen = seen & (offs_n[None, :] <= offs_m[:, None] + N_k - N_q)
            s = tl.where(seen, s, -float("inf"))
            m_new = tl.maximum(m_i, tl.max(s, 1))
            m_safe = tl.where(m_new == -float("inf"), 0.0, m_new)  # rows without a key yet
            p = tl.exp(s - m_safe[:, None])  # [BLOCK_M, BLOCK_N]

            # 5. Rescale the normalised output, add this tile, normalise again
            l_old = l_i * tl.exp(m_i - m_safe)
            l_new = l_old + tl.sum(p, 1)
            inverse = 1.0 / tl.where(l_new == 0.0, 1.0, l_new)
            pv = tl.dot(p.to(v.dtype), v, input_precision="ieee")
            o = (o * l_old[:, None] + pv) * inverse[:, None]  # [BLOCK_M, BLOCK_D]

            # 6. Back to memory: BLOCK_M * D elements and two statistics a row
            tl.store(o_at, o.to(o_ptr.dtype.element_ty), mask=q_mask)
            tl.store(m_ptr + bh * N_q + offs_m, m_new, mask=mask_m)
            tl.store(l_ptr + bh * N_q + offs_m, l_new, mask=mask_m)
        tl.debug_barrier()  # the next key block reads what other threads of this program stored


def flash1_forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    sm_scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Attention with the keys in the outer loop.

    Args:
        q: [B, H, N_q, D]; k, v: [B, H, N_k, D] with N_q, N_k > 0; fp16, bf16 or fp32.
        causal: Bottom-right aligned.
        sm_scale: None means 1/sqrt(D).

    Returns:
        o: [B, H, N_q, D], dtype of q; m, l: [B, H, N_q] fp32, so that lse = m + log(l).

    Source: Dao et al., 2022, Algorithm 1 (arXiv:2205.14135).
    """
    B, H, N_q, D = q.shape
    o = torch.empty_like(q)
    m = torch.empty(B, H, N_q, dtype=torch.float32, device=q.device)
    l_sum = torch.empty_like(m)
    if sm_scale is None:
        sm_scale = 1.0 / math.sqrt(D)
    flash1_fwd_kernel[(B * H,)](
        q, k, v, o, m, l_sum, *q.stride(), *k.stride(), *v.stride(), *o.stride(),
        H, N_q, k.shape[2], sm_scale, CAUSAL=causal, D=D,
        BLOCK_D=max(16, triton.next_power_of_2(D)), BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N,
        num_warps=4, num_stages=1,
    )  # fmt: skip
    return o, m, l_sum
