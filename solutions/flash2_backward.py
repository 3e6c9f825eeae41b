"""Attention's backward pass in three launches: delta, then dk and dv, then dq; grouped heads."""

import torch
import triton
import triton.language as tl

BLOCK_M = 64  # rows of a tile that passes by, a power of two from 16; read at every call
BLOCK_N = 128  # rows that a program keeps: keys for dk and dv, queries for dq; likewise
DTYPES = (torch.float16, torch.bfloat16, torch.float32)
LOG2E = tl.constexpr(1.4426950408889634)  # 1 / ln 2: exp(x) is exp2(x * LOG2E)


@triton.jit
def flash2_bwd_delta_kernel(
    o_ptr, do_ptr,  # [B, H, N_q, D]
    delta_ptr,  # [B, H, N_q], fp32, contiguous
    stride_ob, stride_oh, stride_om, stride_od,
    stride_dob, stride_doh, stride_dom, stride_dod,
    H, N_q,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    # Given: the kernel of backward_delta
    pid = tl.program_id(0)
    blocks = tl.cdiv(N_q, BLOCK_M)
    head = (pid // blocks).to(tl.int64)
    b, h = head // H, head % H
    offs_m = pid % blocks * BLOCK_M + tl.arange(0, BLOCK_M).to(tl.int64)  # [BLOCK_M]
    offs_d = tl.arange(0, BLOCK_D).to(tl.int64)[None, :]  # [1, BLOCK_D]
    mask = (offs_m < N_q)[:, None] & (offs_d < D)
    o_head = o_ptr + b * stride_ob + h * stride_oh + offs_d * stride_od
    do_head = do_ptr + b * stride_dob + h * stride_doh + offs_d * stride_dod
    o = tl.load(o_head + offs_m[:, None] * stride_om, mask=mask, other=0.0).to(tl.float32)
    do = tl.load(do_head + offs_m[:, None] * stride_dom, mask=mask, other=0.0).to(tl.float32)
    tl.store(delta_ptr + head * N_q + offs_m, tl.sum(do * o, 1), mask=offs_m < N_q)


@triton.jit
def flash2_bwd_dkdv_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr,  # q, do [B, H, N_q, D]; k, v [B, H_kv, N_k, D]
    lse_ptr, delta_ptr,  # [B, H, N_q], fp32; delta is contiguous
    dk_ptr, dv_ptr,  # [B, H_kv, N_k, D]
    stride_qb, stride_qh, stride_qm, stride_qd,
    stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd,
    stride_dob, stride_doh, stride_dom, stride_dod,
    stride_lb, stride_lh, stride_lm,
    stride_dkb, stride_dkh, stride_dkn, stride_dkd,
    stride_dvb, stride_dvh, stride_dvn, stride_dvd,
    H, H_kv, N_q, N_k,
    sm_scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
    CAUSAL: tl.constexpr,
):  # fmt: skip
    # Given: my block of keys; under a causal mask the first blocks have most to do and start first
    pid = tl.program_id(0)
    blocks = tl.cdiv(N_k, BLOCK_N)
    start_n = pid % blocks * BLOCK_N
    head = (pid // blocks).to(tl.int64)  # b * H_kv + h_kv; int64: an offset may pass 2**31
    b, h_kv = head // H_kv, head % H_kv

    # Given: offsets, masks, what stays on chip
    offs_n = start_n + tl.arange(0, BLOCK_N)  # [BLOCK_N]
    offs_d = tl.arange(0, BLOCK_D).to(tl.int64)[None, :]  # [1, BLOCK_D]
    mask_d = offs_d < D
    mask_kv = (offs_n < N_k)[:, None] & mask_d
    keys = offs_n.to(tl.int64)[:, None]
    rows = tl.arange(0, BLOCK_M).to(tl.int64)  # of a tile of queries
    k_head = k_ptr + b * stride_kb + h_kv * stride_kh + offs_d * stride_kd
    v_head = v_ptr + b * stride_vb + h_kv * stride_vh + offs_d * stride_vd
    k = tl.load(k_head + keys * stride_kn, mask=mask_kv, other=0.0)  # [BLOCK_N, BLOCK_D], once
    v = tl.load(v_head + keys * stride_vn, mask=mask_kv, other=0.0)  # [BLOCK_N, BLOCK_D], once
    dk = tl.zeros([BLOCK_N, BLOCK_D], tl.float32)
    dv = tl.zeros([BLOCK_N, BLOCK_D], tl.float32)
    scale_log2 = sm_scale * LOG2E
    shift = N_k - N_q  # query i sees key j if j <= i + shift

    # 1. Heads that share my keys
    ### BEGIN SOLUTION 1: query heads h_first to h_last - 1 read key head h_kv; define both
    group = H // H_kv
    h_first = h_kv * group  # query head h reads key head h // group
    h_last = h_first + group
    ### END SOLUTION

    # 2. Queries that see my keys
    ### BEGIN SOLUTION 2: define first, a tile's first row, and full: from there on all is seen
    first, full = 0, 0
    if CAUSAL:  # query i sees my first key from i = start_n - shift on, my last key later
        first = tl.maximum(start_n - shift, 0) // BLOCK_M * BLOCK_M
        full = start_n + BLOCK_N - 1 - shift
    ### END SOLUTION

    for h in range(h_first, h_last):
        q_tile = q_ptr + b * stride_qb + h * stride_qh + rows[:, None] * stride_qm
        q_tile += offs_d * stride_qd  # [BLOCK_M, BLOCK_D], pointers to the head's first tile
        do_tile = do_ptr + b * stride_dob + h * stride_doh + rows[:, None] * stride_dom
        do_tile += offs_d * stride_dod
        lse_tile = lse_ptr + b * stride_lb + h * stride_lh + rows * stride_lm
        delta_tile = delta_ptr + (b * H + h) * N_q + rows
        for start_m in range(first, N_q, BLOCK_M):
            start = tl.cast(start_m, tl.int64)  # one product a tile: addresses take registers too
            offs_m = start_m + tl.arange(0, BLOCK_M)  # [BLOCK_M], the queries of this tile
            mask_m = offs_m < N_q
            mask_q = mask_m[:, None] & mask_d  # [BLOCK_M, BLOCK_D]
            q = tl.load(q_tile + start * stride_qm, mask=mask_q, other=0.0)
            do = tl.load(do_tile + start * stride_dom, mask=mask_q, other=0.0)
            lse = tl.load(lse_tile + start * stride_lm, mask=mask_m, other=0.0)  # [BLOCK_M]
            delta = tl.load(delta_tile + start, mask=mask_m, other=0.0)  # [BLOCK_M]

            # 3. P transposed, in base 2
            ### BEGIN SOLUTION 3: weights by exp2, keys by rows, hidden ones 0; define p_t
            s_t = tl.dot(k, tl.trans(q), input_precision="ieee")  # [BLOCK_N, BLOCK_M], not scaled
            lse_log2 = lse * LOG2E  # [BLOCK_M]: a product a row, not one a weight
            p_t = tl.exp2(s_t * scale_log2 - lse_log2[None, :])  # [BLOCK_N, BLOCK_M]
            if CAUSAL:
                if start_m < full:  # only tiles on the diagonal; later queries see all my keys
                    p_t = tl.where(offs_n[:, None] <= offs_m[None, :] + shift, p_t, 0.0)
            ### END SOLUTION

            # 4. dV, dS, dK of this tile
            ### BEGIN SOLUTION 4: add p_t do to dv, define ds_t, add ds_t q (not scaled) to dk
            dv = tl.dot(p_t.to(do.dtype), do, dv, input_precision="ieee")  # nothing to transpose
            dp_t = tl.dot(v, tl.trans(do), input_precision="ieee")  # [BLOCK_N, BLOCK_M]
            ds_t = p_t * (dp_t - delta[None, :])
            dk = tl.dot(ds_t.to(q.dtype), q, dk, input_precision="ieee")
            ### END SOLUTION

    # Given: scale and store, once per program
    dk_head = dk_ptr + b * stride_dkb + h_kv * stride_dkh + offs_d * stride_dkd
    dv_head = dv_ptr + b * stride_dvb + h_kv * stride_dvh + offs_d * stride_dvd
    tl.store(dk_head + keys * stride_dkn, dk * sm_scale, mask=mask_kv)
    tl.store(dv_head + keys * stride_dvn, dv, mask=mask_kv)


@triton.jit
def flash2_bwd_dq_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr,  # q, do [B, H, N_q, D]; k, v [B, H_kv, N_k, D]
    lse_ptr, delta_ptr,  # [B, H, N_q], fp32; delta is contiguous
    dq_ptr,  # [B, H, N_q, D]
    stride_qb, stride_qh, stride_qm, stride_qd,
    stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd,
    stride_dob, stride_doh, stride_dom, stride_dod,
    stride_lb, stride_lh, stride_lm,
    stride_dqb, stride_dqh, stride_dqm, stride_dqd,
    H, H_kv, N_q, N_k,
    sm_scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
    CAUSAL: tl.constexpr,
):  # fmt: skip
    # Given: my block of queries; under a causal mask the last blocks have most to do: they start
    pid = tl.program_id(0)
    blocks = tl.cdiv(N_q, BLOCK_M)
    start_m = (blocks - 1 - pid % blocks) * BLOCK_M
    head = (pid // blocks).to(tl.int64)  # b * H + h; int64: an offset may pass 2**31
    b, h = head // H, head % H
    h_kv = h // (H // H_kv)

    # Given: offsets, masks, what stays on chip
    offs_m = start_m + tl.arange(0, BLOCK_M)  # [BLOCK_M]
    offs_d = tl.arange(0, BLOCK_D).to(tl.int64)[None, :]  # [1, BLOCK_D]
    mask_m, mask_d = offs_m < N_q, offs_d < D
    mask_q = mask_m[:, None] & mask_d
    rows = offs_m.to(tl.int64)
    q_head = q_ptr + b * stride_qb + h * stride_qh + offs_d * stride_qd
    do_head = do_ptr + b * stride_dob + h * stride_doh + offs_d * stride_dod
    q = tl.load(q_head + rows[:, None] * stride_qm, mask=mask_q, other=0.0)  # once
    do = tl.load(do_head + rows[:, None] * stride_dom, mask=mask_q, other=0.0)  # once
    lse_ptrs = lse_ptr + b * stride_lb + h * stride_lh + rows * stride_lm
    lse_log2 = tl.load(lse_ptrs, mask=mask_m, other=0.0) * LOG2E  # [BLOCK_M]
    delta = tl.load(delta_ptr + head * N_q + rows, mask=mask_m, other=0.0)  # [BLOCK_M]
    dq = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    keys = tl.arange(0, BLOCK_N).to(tl.int64)[:, None]  # of a tile of keys
    k_head = k_ptr + b * stride_kb + h_kv * stride_kh
    v_head = v_ptr + b * stride_vb + h_kv * stride_vh
    k_tile = k_head + keys * stride_kn + offs_d * stride_kd  # [BLOCK_N, BLOCK_D]
    v_tile = v_head + keys * stride_vn + offs_d * stride_vd
    scale_log2 = sm_scale * LOG2E
    shift = N_k - N_q  # query i sees key j if j <= i + shift

    # Given: keys below full are seen by all my queries, those from last on by none
    last, full = N_k, N_k
    if CAUSAL:
        last = tl.minimum(N_k, start_m + BLOCK_M + shift)
        full = tl.minimum(N_k, start_m + 1 + shift)
    for start_n in range(0, last, BLOCK_N):
        start = tl.cast(start_n, tl.int64)
        offs_n = start_n + tl.arange(0, BLOCK_N)  # [BLOCK_N], the keys of this tile
        mask_n = offs_n < N_k
        mask_kv = mask_n[:, None] & mask_d  # [BLOCK_N, BLOCK_D]
        k = tl.load(k_tile + start * stride_kn, mask=mask_kv, other=0.0)
        v = tl.load(v_tile + start * stride_vn, mask=mask_kv, other=0.0)

        # 5. dQ of this tile
        ### BEGIN SOLUTION 5: p by exp2 (hidden keys 0), ds, then add ds k (not scaled) to dq
        s = tl.dot(q, tl.trans(k), input_precision="ieee")  # [BLOCK_M, BLOCK_N], not scaled
        p = tl.exp2(s * scale_log2 - lse_log2[:, None])
        if start_n + BLOCK_N > full:  # only the diagonal, and the last keys where N_k is ragged
            visible = mask_n[None, :]  # a key that does not exist would weigh exp(0 - lse)
            if CAUSAL:
                visible = visible & (offs_n[None, :] <= offs_m[:, None] + shift)
            p = tl.where(visible, p, 0.0)
        dp = tl.dot(do, tl.trans(v), input_precision="ieee")  # [BLOCK_M, BLOCK_N]
        ds = p * (dp - delta[:, None])
        dq = tl.dot(ds.to(k.dtype), k, dq, input_precision="ieee")
        ### END SOLUTION

    # Given: scale and store, once per program
    dq_head = dq_ptr + b * stride_dqb + h * stride_dqh + offs_d * stride_dqd
    tl.store(dq_head + rows[:, None] * stride_dqm, dq * sm_scale, mask=mask_q)


def check_inputs(q, k, v, o, lse, do):
    """Raise a ValueError that says which tensor does not fit, and what came."""
    for name, x in (("q", q), ("k", k), ("v", v), ("o", o), ("do", do)):
        if not isinstance(x, torch.Tensor) or x.dim() != 4 or x.shape[3] < 1:
            came = list(x.shape) if isinstance(x, torch.Tensor) else type(x).__name__
            raise ValueError(f"{name} must be a tensor [B, H, N, D] with D >= 1, not {came}")
        if x.dtype not in DTYPES:
            raise ValueError(f"{name} must have a dtype of {DTYPES}, not {x.dtype}: cast it")
        if x.dtype != q.dtype or x.device != q.device:
            wanted, came = f"{q.dtype} on {q.device}", f"{x.dtype} on {x.device}"
            raise ValueError(f"{name} must be {wanted} like q, not {came}: move or cast it")
    B, H, N_q, D = q.shape
    if D > 256:
        raise ValueError(f"q must have D <= 256 to fit on chip, not {list(q.shape)}")
    if list(k.shape) != [B, k.shape[1], k.shape[2], D] or H % max(1, k.shape[1]):
        wanted = f"[{B}, H_kv, N_k, {D}] with H_kv a divisor of {H}"
        raise ValueError(f"k must have shape {wanted}, not {list(k.shape)}")
    for name, x, like, other in (("v", v, "k", k), ("o", o, "q", q), ("do", do, "q", q)):
        wanted, came = list(other.shape), list(x.shape)
        if came != wanted:
            raise ValueError(f"{name} must have shape {wanted} like {like}, not {came}")
    came = list(lse.shape) if isinstance(lse, torch.Tensor) else type(lse).__name__
    if came != [B, H, N_q]:
        raise ValueError(f"lse must have shape {[B, H, N_q]} to fit q, not {came}")
    if lse.dtype != torch.float32 or lse.device != q.device:
        wanted, came = f"torch.float32 on {q.device}", f"{lse.dtype} on {lse.device}"
        raise ValueError(f"lse must be {wanted}, not {came}: move or cast it")


def roomy(x):
    """Has a block of x's GPU the shared memory of an A100 or H100 (163 KB and more)? L4: 99 KB."""
    if not x.is_cuda:
        return True
    room = torch.cuda.get_device_properties(x.device).shared_memory_per_multiprocessor
    return room >= 160 << 10


def flash2_backward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    lse: torch.Tensor,
    do: torch.Tensor,
    *,
    causal: bool = False,
    sm_scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    check_inputs(q, k, v, o, lse, do)
    (B, H, N_q, D), (H_kv, N_k) = q.shape, k.shape[1:3]
    if B * H * N_q * N_k * H_kv == 0:  # nothing to launch for
        return torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    delta = torch.empty([B, H, N_q], dtype=torch.float32, device=q.device)
    scale = D**-0.5 if sm_scale is None else float(sm_scale)
    BLOCK_D = max(16, triton.next_power_of_2(D))
    shrink = max(1, BLOCK_D * q.element_size() ** 2 // 512)  # long rows, fp32: registers run out
    half = 1 if roomy(q) else 2
    passing, kept = max(16, BLOCK_M // shrink), max(16, BLOCK_N // shrink // half)
    flash2_bwd_delta_kernel[(triton.cdiv(N_q, passing) * B * H,)](
        o, do, delta, *o.stride(), *do.stride(), H, N_q, D, passing, BLOCK_D, num_warps=4,
    )  # fmt: skip
    strides = [n for x in (q, k, v, do, lse) for n in x.stride()]
    shared = {
        "D": D, "BLOCK_D": BLOCK_D, "CAUSAL": causal,
        "num_warps": 8 if kept > 64 or half == 2 else 4,  # 16 rows of what stays for each warp
        "num_stages": 3 if shrink == half == 1 else 1,  # load two tiles ahead where there is room
    }  # fmt: skip
    flash2_bwd_dkdv_kernel[(triton.cdiv(N_k, kept) * B * H_kv,)](
        q, k, v, do, lse, delta, dk, dv, *strides, *dk.stride(), *dv.stride(),
        H, H_kv, N_q, N_k, scale, BLOCK_M=passing, BLOCK_N=kept, **shared,
    )  # fmt: skip
    flash2_bwd_dq_kernel[(triton.cdiv(N_q, kept) * B * H,)](
        q, k, v, do, lse, delta, dq, *strides, *dq.stride(),
        H, H_kv, N_q, N_k, scale, BLOCK_M=kept, BLOCK_N=passing, **shared,
    )  # fmt: skip
    return dq, dk, dv
