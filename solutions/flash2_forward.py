"""FlashAttention-2 forward: one division a row, exp2, no tile above the diagonal, shared keys."""

import torch
import triton
import triton.language as tl

# Read at every call; powers of two from 16. Tiles this small leave room for two programs on an SM:
# one multiplies while the other takes exp2. choose_tiles makes them smaller where it must
BLOCK_M = 64  # query rows of a tile
BLOCK_N = 64  # key rows of a tile
DTYPES = (torch.float16, torch.bfloat16, torch.float32)
LOG2E = tl.constexpr(1.4426950408889634)  # 1 / ln 2: exp(x) is exp2(x * LOG2E)


@triton.jit
def flash2_fwd_kernel(
    q_ptr,  # [B, H, N_q, D]
    k_ptr,  # [B, H_kv, N_k, D]
    v_ptr,  # [B, H_kv, N_k, D]
    o_ptr,  # [B, H, N_q, D]
    lse_ptr,  # [B, H, N_q], fp32
    stride_qb, stride_qh, stride_qm, stride_qd,
    stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd,
    stride_ob, stride_oh, stride_om, stride_od,
    stride_lb, stride_lh, stride_lm,
    H, H_kv, N_q, N_k,
    scale,  # |sm_scale|, above 0
    NEGATIVE: tl.constexpr,  # sm_scale is below 0
    D: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr,  # D up to a power of two: a tile's size has to be one
    RAGGED: tl.constexpr,  # the last tile of keys is not full
    CAUSAL: tl.constexpr,
):  # fmt: skip
    # Given: which tile is mine. Under a causal mask the last block has most to do and starts first
    pid = tl.program_id(0)
    blocks = tl.cdiv(N_q, BLOCK_M)
    start_m = (blocks - 1 - pid % blocks) * BLOCK_M
    head = (pid // blocks).to(tl.int64)  # b * H + h; int64: an offset may pass 2**31
    b, h = head // H, head % H
    h_kv = key_head(h, H, H_kv)

    # Given: offsets and masks
    offs_m = start_m + tl.arange(0, BLOCK_M)  # [BLOCK_M], my queries
    offs_d = tl.arange(0, BLOCK_D).to(tl.int64)[None, :]  # [1, BLOCK_D]
    mask_m, mask_d = offs_m < N_q, offs_d < D
    mask_q = mask_m[:, None] & mask_d  # [BLOCK_M, BLOCK_D]
    rows = offs_m.to(tl.int64)
    keys = tl.arange(0, BLOCK_N)  # of a tile
    k_head = k_ptr + b * stride_kb + h_kv * stride_kh + offs_d * stride_kd
    v_head = v_ptr + b * stride_vb + h_kv * stride_vh + offs_d * stride_vd
    k_tile = k_head + keys.to(tl.int64)[:, None] * stride_kn  # [BLOCK_N, BLOCK_D], the first tile
    v_tile = v_head + keys.to(tl.int64)[:, None] * stride_vn
    shift = N_k - N_q  # query i sees key j if j <= i + shift
    full, end = tiles_to_visit(start_m, shift, N_k, BLOCK_M, BLOCK_N, CAUSAL)

    # Given: what stays on chip. q takes the sign of the scale: the largest s is the largest score
    q_head = q_ptr + b * stride_qb + h * stride_qh + offs_d * stride_qd
    q = tl.load(q_head + rows[:, None] * stride_qm, mask=mask_q, other=0.0)  # once per program
    if NEGATIVE:
        q = -q
    m_log2 = tl.full([BLOCK_M], float("-inf"), tl.float32)  # largest score so far, in base 2
    l_i = tl.zeros([BLOCK_M], tl.float32)  # sum of the weights so far
    acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)  # sum of weights times v so far

    for start_n in range(0, end, BLOCK_N):
        start = tl.cast(start_n, tl.int64)
        offs_n = start_n + keys  # [BLOCK_N], the keys of this tile
        mask_kv = mask_d
        if RAGGED:
            mask_kv = mask_d & (offs_n < N_k)[:, None]
        k = tl.load(k_tile + start * stride_kn, mask=mask_kv, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee")  # [BLOCK_M, BLOCK_N], not scaled
        if CAUSAL or RAGGED:
            if start_n + BLOCK_N > full:  # tiles before it need no mask: time is saved there
                visible = (offs_n < N_k)[None, :]
                if CAUSAL:
                    visible = visible & (offs_n[None, :] <= offs_m[:, None] + shift)
                s = tl.where(visible, s, float("-inf"))

        # 1. Weights by exp2
        ### BEGIN SOLUTION 1: scores are scale * s; define m_new (base 2), alpha, p, never NaN
        scale_log2 = scale * LOG2E  # the factor log2(e) costs no product of its own
        m_new = tl.maximum(m_log2, scale_log2 * tl.max(s, 1))  # a product a row
        m_safe = tl.where(m_new == float("-inf"), 0.0, m_new)  # no key yet: -inf - -inf is NaN
        alpha = tl.exp2(m_log2 - m_safe)
        p = tl.exp2(scale_log2 * s - m_safe[:, None])  # product and difference are one fma
        ### END SOLUTION

        v = tl.load(v_tile + start * stride_vn, mask=mask_kv, other=0.0)

        # 2. Rescale and accumulate
        ### BEGIN SOLUTION 2: add this tile to l_i and acc, at m_new, dividing nothing; keep m_log2
        l_i = alpha * l_i + tl.sum(p, 1)
        acc = tl.dot(p.to(v.dtype), v, alpha[:, None] * acc, input_precision="ieee")
        m_log2 = m_new
        ### END SOLUTION

    # 3. Divide once
    ### BEGIN SOLUTION 3: define o and lse (in nats) of acc, l_i, m_log2; no key: o 0, lse -inf
    l_safe = tl.where(l_i == 0.0, 1.0, l_i)  # no key at all: 0 / 0 is NaN
    o = acc * (1.0 / l_safe)[:, None]  # one division a row
    lse = (m_log2 + tl.log2(l_safe)) / LOG2E
    ### END SOLUTION

    # Given: store, once per program, o rounded to its dtype
    o_head = o_ptr + b * stride_ob + h * stride_oh + offs_d * stride_od
    tl.store(o_head + rows[:, None] * stride_om, o, mask=mask_q)
    tl.store(lse_ptr + b * stride_lb + h * stride_lh + rows * stride_lm, lse, mask=mask_m)


@triton.jit
def tiles_to_visit(
    start_m, shift, N_k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    # 4. Tiles to visit
    ### BEGIN SOLUTION 4: define full and end: all see keys below full, none sees end and beyond
    full, end = N_k, N_k
    if CAUSAL:
        full = tl.minimum(full, start_m + 1 + shift)  # so many keys my first query sees
        end = tl.minimum(end, start_m + BLOCK_M + shift)  # so many my last one
    ### END SOLUTION
    return full, end


@triton.jit
def key_head(h, H, H_kv):
    # 5. Key head of a query head
    ### BEGIN SOLUTION 5: define h_kv: the first H / H_kv query heads read key head 0, and so on
    group = H // H_kv  # query heads that share a key head
    h_kv = h // group
    ### END SOLUTION
    return h_kv


def choose_tiles(BLOCK_D, itemsize, on_chip):
    """block_m, block_n, num_warps, num_stages that fit in on_chip bytes: try your own here."""
    row_bytes = BLOCK_D * itemsize
    block_m, block_n = BLOCK_M, BLOCK_N
    if itemsize == 4:  # no tensor cores: the products themselves need registers
        small = min(32, 4096 // BLOCK_D)
        block_m, block_n = min(block_m, small), min(block_n, small)
    num_stages = 3 if row_bytes <= 256 else 2  # 3: two tiles are on their way
    while (block_m + 2 * num_stages * block_n) * row_bytes > on_chip:  # q, and stages of k and v
        if num_stages > 2:
            num_stages -= 1
        else:
            block_n //= 2
    num_warps = 4 if block_m * row_bytes <= 16 << 10 else 8  # acc is in registers
    return block_m, block_n, num_warps, num_stages


def check_inputs(q, k, v):
    """Raise a ValueError that says which of q, k, v does not fit, and what came."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        if not isinstance(x, torch.Tensor) or x.dim() != 4 or x.shape[3] < 1:
            came = list(x.shape) if isinstance(x, torch.Tensor) else type(x).__name__
            raise ValueError(f"{name} must be a tensor [B, H, N, D] with D >= 1, not {came}")
        if x.dtype not in DTYPES:
            raise ValueError(f"{name} must have a dtype of {DTYPES}, not {x.dtype}: cast it")
        if x.dtype != q.dtype or x.device != q.device:
            wanted, came = f"{q.dtype} on {q.device}", f"{x.dtype} on {x.device}"
            raise ValueError(f"{name} must be {wanted} like q, not {came}: move or cast it")
    B, H, _, D = q.shape
    if list(k.shape) != [B, k.shape[1], k.shape[2], D] or H % max(1, k.shape[1]):
        wanted = f"[{B}, H_kv, N_k, {D}] with H_kv a divisor of {H}"
        raise ValueError(f"k must have shape {wanted}, not {list(k.shape)}")
    if v.shape != k.shape:
        wanted, came = list(k.shape), list(v.shape)
        raise ValueError(f"v must have shape {wanted} like k, not {came}")


def flash2_forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    sm_scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    check_inputs(q, k, v)
    (B, H, N_q, D), (H_kv, N_k) = q.shape, k.shape[1:3]
    if D > 256:
        raise ValueError(f"q must have D <= 256 to fit on chip, not {list(q.shape)}")
    if B * H * N_q * N_k * H_kv == 0:  # nothing to launch for
        lse = torch.full([B, H, N_q], float("-inf"), dtype=torch.float32, device=q.device)
        return torch.zeros_like(q), lse
    o = torch.empty_like(q)
    lse = torch.empty([B, H, N_q], dtype=torch.float32, device=q.device)
    scale = D**-0.5 if sm_scale is None else float(sm_scale)
    BLOCK_D = max(16, triton.next_power_of_2(D))
    on_chip = 99 << 10  # what the smallest cards have; more is asked for where there is more
    if q.is_cuda:
        card = torch.cuda.get_device_properties(q.device)
        on_chip = card.shared_memory_per_multiprocessor - 1024  # CUDA keeps 1 KB for itself
    block_m, block_n, num_warps, num_stages = choose_tiles(BLOCK_D, q.element_size(), on_chip)
    flash2_fwd_kernel[(triton.cdiv(N_q, block_m) * B * H,)](
        q, k, v, o, lse,
        *q.stride(), *k.stride(), *v.stride(), *o.stride(), *lse.stride(),
        H, H_kv, N_q, N_k,
        max(abs(scale), 1e-30),  # not 0: a hidden key's score is -inf * scale
        NEGATIVE=scale < 0,
        D=D, BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_D=BLOCK_D,
        RAGGED=N_k % block_n > 0, CAUSAL=causal,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return o, lse
