"""Natural exponentials, P rounded as it is, all keys of a row scaled as the scores are."""

import torch
import triton
import triton.language as tl

# Read at every call; powers of two from 32, what an FP8 product needs
BLOCK_M = 64  # query rows of a tile
BLOCK_N = 64  # key rows of a tile; 32 where scales change more often
E4M3 = torch.float8_e4m3fn


@triton.jit
def fp8_fwd_kernel(
    q_ptr,  # [B, H, N_q, D], e4m3
    k_ptr,  # [B, H_kv, N_k, D], e4m3
    v_ptr,  # [B, H_kv, N_k, D], e4m3
    q_scale_ptr,  # [B, H, ceil(N_q / block_rows)], fp32
    k_scale_ptr,  # [B, H_kv, ceil(N_k / block_rows)], fp32
    v_scale_ptr,
    o_ptr,  # [B, H, N_q, D], bf16
    lse_ptr,  # [B, H, N_q], fp32
    stride_qb, stride_qh, stride_qm, stride_qd,
    stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd,
    stride_qsb, stride_qsh, stride_qsn,
    stride_ksb, stride_ksh, stride_ksn,
    stride_vsb, stride_vsh, stride_vsn,
    stride_ob, stride_oh, stride_om, stride_od,
    stride_lb, stride_lh, stride_lm,
    H, H_kv, N_q, N_k, block_rows,
    sm_scale,
    D: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,  # a tile lies within one block of scales
    BLOCK_D: tl.constexpr,  # D up to a power of two, 32 at least
    CAUSAL: tl.constexpr,
):  # fmt: skip
    # Given: which tile is mine. Under a causal mask the last block has most to do and starts first
    pid = tl.program_id(0)
    blocks = tl.cdiv(N_q, BLOCK_M)
    start_m = (blocks - 1 - pid % blocks) * BLOCK_M
    head = (pid // blocks).to(tl.int64)  # b * H + h; int64: an offset may pass 2**31
    b, h = head // H, head % H
    h_kv = h // (H // H_kv)

    # Given: offsets and masks
    offs_m = start_m + tl.arange(0, BLOCK_M)  # [BLOCK_M], my queries
    offs_d = tl.arange(0, BLOCK_D).to(tl.int64)[None, :]  # [1, BLOCK_D]
    mask_m, mask_d = offs_m < N_q, offs_d < D
    mask_q = mask_m[:, None] & mask_d
    rows = offs_m.to(tl.int64)
    k_head = k_ptr + b * stride_kb + h_kv * stride_kh + offs_d * stride_kd
    v_head = v_ptr + b * stride_vb + h_kv * stride_vh + offs_d * stride_vd
    k_scales = k_scale_ptr + b * stride_ksb + h_kv * stride_ksh
    v_scales = v_scale_ptr + b * stride_vsb + h_kv * stride_vsh
    shift = N_k - N_q  # query i sees key j if j <= i + shift
    end = N_k
    if CAUSAL:
        end = tl.minimum(end, start_m + BLOCK_M + shift)  # what my last query sees

    # Given: what stays on chip, and the running state in fp32
    q_head = q_ptr + b * stride_qb + h * stride_qh + offs_d * stride_qd
    q8 = tl.load(q_head + rows[:, None] * stride_qm, mask=mask_q, other=0.0)
    q_scales = q_scale_ptr + b * stride_qsb + h * stride_qsh
    q_scale = tl.load(q_scales + offs_m // block_rows * stride_qsn, mask=mask_m, other=0.0)
    m_i = tl.full([BLOCK_M], float("-inf"), tl.float32)  # largest score so far
    l_i = tl.zeros([BLOCK_M], tl.float32)  # sum of the weights so far
    acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)  # sum of weights times v

    for start_n in range(0, end, BLOCK_N):
        offs_n = start_n + tl.arange(0, BLOCK_N)  # [BLOCK_N], the keys of this tile
        keys = offs_n.to(tl.int64)[:, None]
        mask_kv = (offs_n < N_k)[:, None] & mask_d
        k8 = tl.load(k_head + keys * stride_kn, mask=mask_kv, other=0.0)  # [BLOCK_N, BLOCK_D]
        k_scale = tl.load(k_scales + start_n // block_rows * stride_ksn)  # of the whole tile

        # 1. Scores
        s = tl.dot(q8, tl.trans(k8))  # e4m3 times e4m3, summed in fp32
        s = s * q_scale[:, None] * k_scale * sm_scale

        # Given: what a query does not see
        visible = (offs_n < N_k)[None, :]
        if CAUSAL:
            visible = visible & (offs_n[None, :] <= offs_m[:, None] + shift)
        s = tl.where(visible, s, float("-inf"))

        # 2. Weights
        m_new = tl.maximum(m_i, tl.max(s, 1))
        m_safe = tl.where(m_new == float("-inf"), 0.0, m_new)  # no key yet: -inf - -inf is NaN
        alpha = tl.exp(m_i - m_safe)
        p = tl.exp(s - m_safe[:, None])  # up to 1

        v8 = tl.load(v_head + keys * stride_vn, mask=mask_kv, other=0.0)  # [BLOCK_N, BLOCK_D]
        v_scale = tl.load(v_scales + start_n // block_rows * stride_vsn)

        # 3. Accumulate
        l_i = alpha * l_i + tl.sum(p, 1)
        pv = tl.dot(p.to(v8.dtype), v8)  # [BLOCK_M, BLOCK_D], in units of v_scale
        acc = alpha[:, None] * acc + v_scale * pv
        m_i = m_new

    # 4. Finish
    l_safe = tl.where(l_i == 0.0, 1.0, l_i)  # no key at all: 0 / 0 is NaN
    o = acc * (1.0 / l_safe)[:, None]
    lse = m_i + tl.log(l_safe)

    # Given: store, once per program, o rounded to bf16
    o_head = o_ptr + b * stride_ob + h * stride_oh + offs_d * stride_od
    tl.store(o_head + rows[:, None] * stride_om, o, mask=mask_q)
    tl.store(lse_ptr + b * stride_lb + h * stride_lh + rows * stride_lm, lse, mask=mask_m)


def check_inputs(q8, k8, v8):
    """Raise a ValueError that says which of q8, k8, v8 does not fit, and what came."""
    for name, x in (("q8", q8), ("k8", k8), ("v8", v8)):
        if not isinstance(x, torch.Tensor) or x.dim() != 4 or x.shape[3] < 1:
            came = list(x.shape) if isinstance(x, torch.Tensor) else type(x).__name__
            raise ValueError(f"{name} must be a tensor [B, H, N, D] with D >= 1, not {came}")
        if x.dtype != E4M3 or x.device != q8.device:
            wanted, came = f"{E4M3} on {q8.device}", f"{x.dtype} on {x.device}"
            raise ValueError(f"{name} must be {wanted}, not {came}: quantize it")
    B, H, _, D = q8.shape
    if D > 256:
        raise ValueError(f"q8 must have D <= 256 to fit on chip, not {list(q8.shape)}")
    if list(k8.shape) != [B, k8.shape[1], k8.shape[2], D] or H % max(1, k8.shape[1]):
        wanted = f"[{B}, H_kv, N_k, {D}] with H_kv a divisor of {H}"
        raise ValueError(f"k8 must have shape {wanted}, not {list(k8.shape)}")
    if v8.shape != k8.shape:
        wanted, came = list(k8.shape), list(v8.shape)
        raise ValueError(f"v8 must have shape {wanted} like k8, not {came}")


def check_scales(block_rows, pairs):
    """Raise a ValueError unless every block of rows has its scale."""
    longest = max(x8.shape[2] for x8, _ in pairs.values())
    fits = isinstance(block_rows, int) and block_rows > 0
    if not fits or (block_rows % 32 and block_rows < longest):
        wanted = f"a multiple of 32 or >= {longest}"
        raise ValueError(f"block_rows must be {wanted}, not {block_rows!r}")
    for name, (x8, scale) in pairs.items():
        wanted = [*x8.shape[:2], triton.cdiv(x8.shape[2], block_rows)]
        if not isinstance(scale, torch.Tensor) or list(scale.shape) != wanted:
            came = list(scale.shape) if isinstance(scale, torch.Tensor) else type(scale).__name__
            raise ValueError(
                f"{name}_scale must be a tensor {wanted}, a scale a block, not {came}"
            )
        if scale.dtype != torch.float32 or scale.device != x8.device:
            came = f"{scale.dtype} on {scale.device}"
            raise ValueError(f"{name}_scale must be float32 on {x8.device}, not {came}")


def fp8_forward(
    q8: torch.Tensor,
    k8: torch.Tensor,
    v8: torch.Tensor,
    q_scale: torch.Tensor,
    k_scale: torch.Tensor,
    v_scale: torch.Tensor,
    *,
    block_rows: int,
    causal: bool = False,
    sm_scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    check_inputs(q8, k8, v8)
    check_scales(block_rows, {"q": (q8, q_scale), "k": (k8, k_scale), "v": (v8, v_scale)})
    (B, H, N_q, D), (H_kv, N_k) = q8.shape, k8.shape[1:3]
    if B * H * N_q * N_k * H_kv == 0:  # nothing to launch for
        lse = torch.full([B, H, N_q], float("-inf"), dtype=torch.float32, device=q8.device)
        return torch.zeros([B, H, N_q, D], dtype=torch.bfloat16, device=q8.device), lse
    o = torch.empty([B, H, N_q, D], dtype=torch.bfloat16, device=q8.device)
    lse = torch.empty([B, H, N_q], dtype=torch.float32, device=q8.device)
    one_scale = block_rows >= N_k or block_rows % BLOCK_N == 0  # for each tile of BLOCK_N keys
    BLOCK_D = max(32, triton.next_power_of_2(D))
    fp8_fwd_kernel[(triton.cdiv(N_q, BLOCK_M) * B * H,)](
        q8, k8, v8, q_scale, k_scale, v_scale, o, lse,
        *q8.stride(), *k8.stride(), *v8.stride(),
        *q_scale.stride(), *k_scale.stride(), *v_scale.stride(),
        *o.stride(), *lse.stride(),
        H, H_kv, N_q, N_k, block_rows,
        D**-0.5 if sm_scale is None else float(sm_scale),
        D=D, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N if one_scale else 32, BLOCK_D=BLOCK_D,
        CAUSAL=causal,
        num_warps=4 if BLOCK_M * BLOCK_D <= 8192 else 8,  # acc is in registers
        num_stages=2,
    )  # fmt: skip
    return o, lse
