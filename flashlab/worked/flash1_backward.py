"""FlashAttention-1's backward pass in Triton: keys outside, dq read and written again and again.

Kept for comparison (chapters 06, 07): one program a head; dk and dv stay on chip, the running sum
of dq travels once a key block; two statistics a row (m and l).
"""

import math

import torch
import triton
import triton.language as tl

BLOCK_M, BLOCK_N = 64, 64


@triton.jit
def flash1_bwd_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, do_ptr,
    m_ptr, l_ptr,  # contiguous [B * H, N_q]
    sum_ptr,  # contiguous [B * H, N_q, D], fp32: dq so far
    dq_ptr, dk_ptr, dv_ptr,  # contiguous
    stride_qb, stride_qh, stride_qm, stride_qd,
    stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd,
    stride_ob, stride_oh, stride_om, stride_od,
    stride_dob, stride_doh, stride_dom, stride_dod,
    H, N_q, N_k,
    sm_scale,
    CAUSAL: tl.constexpr,
    D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """dq, dk, dv of one head; the inner loop passes all query blocks."""
    # 1. Which head is mine
    bh = tl.program_id(0).to(tl.int64)
    b, h = bh // H, bh % H
    offs_d = tl.arange(0, BLOCK_D).to(tl.int64)[None, :]
    mask_d = offs_d < D
    q_head = q_ptr + b * stride_qb + h * stride_qh + offs_d * stride_qd
    k_head = k_ptr + b * stride_kb + h * stride_kh + offs_d * stride_kd
    v_head = v_ptr + b * stride_vb + h * stride_vh + offs_d * stride_vd
    o_head = o_ptr + b * stride_ob + h * stride_oh + offs_d * stride_od
    do_head = do_ptr + b * stride_dob + h * stride_doh + offs_d * stride_dod

    for start_n in range(0, N_k, BLOCK_N):
        # 2. K_j and V_j stay on chip, so do their gradients: BLOCK_N * D elements each
        offs_n = start_n + tl.arange(0, BLOCK_N)
        mask_n = offs_n < N_k
        keys = offs_n.to(tl.int64)[:, None]
        mask_kv = mask_n[:, None] & mask_d
        k = tl.load(k_head + keys * stride_kn, mask=mask_kv, other=0.0)  # [BLOCK_N, BLOCK_D]
        v = tl.load(v_head + keys * stride_vn, mask=mask_kv, other=0.0)  # [BLOCK_N, BLOCK_D]
        dk = tl.zeros([BLOCK_N, BLOCK_D], tl.float32)
        dv = tl.zeros([BLOCK_N, BLOCK_D], tl.float32)

        for start_m in range(0, N_q, BLOCK_M):
            # 3. Q_i, O_i, dO_i, the statistics, and dQ_i so far (nothing before the first block)
            offs_m = start_m + tl.arange(0, BLOCK_M)
            mask_m = offs_m < N_q
            mask_q = mask_m[:, None] & mask_d
            rows = offs_m.to(tl.int64)[:, None]
            q = tl.load(q_head + rows * stride_qm, mask=mask_q, other=0.0)  # [BLOCK_M, BLOCK_D]
            o = tl.load(o_head + rows * stride_om, mask=mask_q, other=0.0)
            do = tl.load(do_head + rows * stride_dom, mask=mask_q, other=0.0)
            m_i = tl.load(m_ptr + bh * N_q + offs_m, mask=mask_m, other=0.0)  # [BLOCK_M]
            l_i = tl.load(l_ptr + bh * N_q + offs_m, mask=mask_m, other=1.0)  # [BLOCK_M]
            at = (bh * N_q + rows) * D + offs_d
            dq = tl.load(sum_ptr + at, mask=mask_q & (start_n > 0), other=0.0)

            # 4. P again from m and l, and delta again in every pass
            s = tl.dot(q, tl.trans(k), input_precision="ieee") * sm_scale  # [BLOCK_M, BLOCK_N]
            seen = mask_n[None, :] & (l_i > 0.0)[:, None]
            if CAUSAL:
                seen = seen & (offs_n[None, :] <= offs_m[:, None] + N_k - N_q)
            p = tl.where(seen, tl.exp(s - m_i[:, None]) / l_i[:, None], 0.0)
            delta = tl.sum(do.to(tl.float32) * o.to(tl.float32), 1)  # [BLOCK_M]

            # 5. The four products of the tile
            dv = tl.dot(tl.trans(p.to(do.dtype)), do, dv, input_precision="ieee")
            dp = tl.dot(do, tl.trans(v), input_precision="ieee")  # [BLOCK_M, BLOCK_N]
            ds = (p * (dp - delta[:, None])).to(q.dtype)
            dq += tl.dot(ds, k, input_precision="ieee") * sm_scale
            dk = tl.dot(tl.trans(ds), q, dk, input_precision="ieee")

            # 6. dQ_i back to memory: BLOCK_M * D elements in every pass
            last = start_n + BLOCK_N >= N_k
            tl.store(sum_ptr + at, dq, mask=mask_q & (not last))
            tl.store(dq_ptr + at, dq.to(dq_ptr.dtype.element_ty), mask=mask_q & last)
        at_n = (bh * N_k + keys) * D + offs_d
        tl.store(dk_ptr + at_n, (dk * sm_scale).to(dk_ptr.dtype.element_ty), mask=mask_kv)
        tl.store(dv_ptr + at_n, dv.to(dv_ptr.dtype.element_ty), mask=mask_kv)
        tl.debug_barrier()  # the next key block reads what other threads of this program stored


def flash1_backward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    m: torch.Tensor,
    l_sum: torch.Tensor,
    do: torch.Tensor,
    *,
    causal: bool = False,
    sm_scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Gradients of attention with the keys in the outer loop.

    Args:
        q, o, do: [B, H, N_q, D]; k, v: [B, H, N_k, D] with N_q, N_k > 0; fp16, bf16 or fp32.
        m, l_sum: [B, H, N_q] fp32, contiguous, as ``flash1_forward`` returns them.
        causal: Bottom-right aligned.
        sm_scale: None means 1/sqrt(D).

    Returns:
        dq, dk, dv: shapes of q, k and v; contiguous.

    Source: Dao et al., 2022, Algorithm 4 (arXiv:2205.14135), without dropout.
    """
    B, H, N_q, D = q.shape
    dq, dk, dv = (torch.empty(x.shape, dtype=q.dtype, device=q.device) for x in (q, k, v))
    sums = torch.empty(B, H, N_q, D, dtype=torch.float32, device=q.device)
    strides = [n for x in (q, k, v, o, do) for n in x.stride()]
    scale = 1.0 / math.sqrt(D) if sm_scale is None else sm_scale
    flash1_bwd_kernel[(B * H,)](
        q, k, v, o, do, m, l_sum, sums, dq, dk, dv, *strides,
        H, N_q, k.shape[2], scale, CAUSAL=causal, D=D,
        BLOCK_D=max(16, triton.next_power_of_2(D)), BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N,
        num_warps=8, num_stages=1,
    )  # fmt: skip
    return dq, dk, dv
