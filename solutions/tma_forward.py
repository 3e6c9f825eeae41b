"""FlashAttention-2's forward pass with tensor descriptors: tiles by coordinates, no pointers."""

import torch
import triton
import triton.language as tl

# Read at every call; powers of two from 16. choose_tiles makes them smaller where it must
BLOCK_M = 64  # query rows of a tile
BLOCK_N = 128  # key rows of a tile; choose_tiles halves them where rows are long
DTYPES = (torch.float16, torch.bfloat16, torch.float32)
STEP = 16  # bytes: what a descriptor counts starts and strides in
LOG2E = tl.constexpr(1.4426950408889634)  # 1 / ln 2: exp(x) is exp2(x * LOG2E)


@triton.jit
def describe(head_ptr, N, D, stride_n, ROWS: tl.constexpr, BLOCK_D: tl.constexpr):
    # 1. Describe a head
    ### BEGIN SOLUTION 1: define desc: a head of N rows of D, stride_n apart, in boxes of ROWS rows
    desc = tl.make_tensor_descriptor(
        head_ptr,
        shape=[N, D],  # what lies outside is not read (zeros come) and not written
        strides=[stride_n, 1],
        block_shape=[ROWS, BLOCK_D],  # what one load brings
    )
    ### END SOLUTION
    return desc


@triton.jit
def tma_fwd_kernel(
    q_ptr,  # [B, H, N_q, D]
    k_ptr,  # [B, H_kv, N_k, D]
    v_ptr,  # [B, H_kv, N_k, D]
    o_ptr,  # [B, H, N_q, D]
    lse_ptr,  # [B, H, N_q], fp32, contiguous
    stride_qb, stride_qh, stride_qm,  # D side by side: a descriptor takes nothing else
    stride_kb, stride_kh, stride_kn,
    stride_vb, stride_vh, stride_vn,
    stride_ob, stride_oh, stride_om,
    H, H_kv, N_q, N_k,
    scale,  # |sm_scale|, above 0
    NEGATIVE: tl.constexpr,  # sm_scale is below 0
    D: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr,  # D up to a power of two: a box's size has to be one
    RAGGED: tl.constexpr,  # the last tile of keys is not full
    CAUSAL: tl.constexpr,
):  # fmt: skip
    # Given: which tile is mine. Under a causal mask the last block has most to do and starts first
    pid = tl.program_id(0)
    blocks = tl.cdiv(N_q, BLOCK_M)
    start_m = (blocks - 1 - pid % blocks) * BLOCK_M
    head = (pid // blocks).to(tl.int64)  # b * H + h; int64: an offset may pass 2**31
    b, h = head // H, head % H
    h_kv = h // (H // H_kv)  # query heads that follow each other share a key head

    # Given: the heads that I read and write
    q_head = describe(q_ptr + b * stride_qb + h * stride_qh, N_q, D, stride_qm, BLOCK_M, BLOCK_D)
    k_head = describe(
        k_ptr + b * stride_kb + h_kv * stride_kh, N_k, D, stride_kn, BLOCK_N, BLOCK_D
    )
    v_head = describe(
        v_ptr + b * stride_vb + h_kv * stride_vh, N_k, D, stride_vn, BLOCK_N, BLOCK_D
    )
    o_head = describe(o_ptr + b * stride_ob + h * stride_oh, N_q, D, stride_om, BLOCK_M, BLOCK_D)

    # Given: what stays on chip. q takes the sign of the scale: the largest s is the largest score
    offs_m = start_m + tl.arange(0, BLOCK_M)  # [BLOCK_M], my queries
    keys = tl.arange(0, BLOCK_N)  # of a tile
    q = q_head.load([start_m, 0])  # [BLOCK_M, BLOCK_D], once per program
    if NEGATIVE:
        q = -q
    m_log2 = tl.full([BLOCK_M], float("-inf"), tl.float32)  # largest score so far, in base 2
    l_i = tl.zeros([BLOCK_M], tl.float32)  # sum of the weights so far
    acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)  # sum of weights times v so far

    # Given: tiles to visit. All my queries see the keys below full, none sees end and beyond
    shift = N_k - N_q  # query i sees key j if j <= i + shift
    full, end = N_k, N_k
    if CAUSAL:
        full = tl.minimum(full, start_m + 1 + shift)
        end = tl.minimum(end, start_m + BLOCK_M + shift)

    for start_n in range(0, end, BLOCK_N):
        # 2. Score the tile
        ### BEGIN SOLUTION 2: load the keys from start_n on; define s = q k^T [BLOCK_M, BLOCK_N]
        k = k_head.load([start_n, 0])  # [BLOCK_N, BLOCK_D]; zeros beyond N_k and D
        s = tl.dot(q, tl.trans(k), input_precision="ieee")  # not scaled yet
        ### END SOLUTION

        # 3. Hide keys
        ### BEGIN SOLUTION 3: s is -inf where a query sees no key, in tiles that reach beyond full
        if CAUSAL or RAGGED:
            if start_n + BLOCK_N > full:
                offs_n = start_n + keys  # [BLOCK_N], the keys of this tile
                visible = (offs_n < N_k)[None, :]  # a row of zeros would score 0, which is much
                if CAUSAL:
                    visible = visible & (offs_n[None, :] <= offs_m[:, None] + shift)
                s = tl.where(visible, s, float("-inf"))
        ### END SOLUTION

        # Given: the weights of chapter 07
        scale_log2 = scale * LOG2E
        m_new = tl.maximum(m_log2, scale_log2 * tl.max(s, 1))
        m_safe = tl.where(m_new == float("-inf"), 0.0, m_new)  # no key yet: -inf - -inf is NaN
        alpha = tl.exp2(m_log2 - m_safe)
        p = tl.exp2(scale_log2 * s - m_safe[:, None])
        m_log2 = m_new

        # 4. Add the values
        ### BEGIN SOLUTION 4: load the values from start_n on; rescale acc by alpha, add p v to it
        v = v_head.load([start_n, 0])  # [BLOCK_N, BLOCK_D]
        acc = tl.dot(p.to(v.dtype), v, alpha[:, None] * acc, input_precision="ieee")
        ### END SOLUTION

        # Given: the sum comes last. Before the product it would keep the tensor cores waiting
        l_i = alpha * l_i + tl.sum(p, 1)

    # Given: the sums of my rows
    l_safe = tl.where(l_i == 0.0, 1.0, l_i)  # no key at all: 0 / 0 is NaN
    lse = (m_log2 + tl.log2(l_safe)) / LOG2E

    # 5. Divide and store
    ### BEGIN SOLUTION 5: divide acc by l_safe once, and store it where my queries are, by o_head
    o = acc * (1.0 / l_safe)[:, None]  # one division a row
    o_head.store([start_m, 0], o)  # rounded to o's dtype; rows beyond N_q, columns beyond D stay
    ### END SOLUTION

    # Given: rows of lse start anywhere, so it has no descriptor: pointers and a mask
    tl.store(lse_ptr + head * N_q + offs_m, lse, mask=offs_m < N_q)


def choose_tiles(BLOCK_D, itemsize, on_chip):
    """block_m, block_n, num_warps, num_stages that fit in on_chip bytes: try your own here."""
    row_bytes = BLOCK_D * itemsize
    block_m, block_n = BLOCK_M, BLOCK_N
    if itemsize == 4:  # no tensor cores: the products themselves need registers
        small = min(32, 4096 // BLOCK_D)
        block_m, block_n = min(block_m, small), min(block_n, small)
    if row_bytes > 128:  # acc is large: fewer scores leave room for two programs on an SM
        block_n = min(block_n, 64)
    num_stages = 3 if row_bytes == 256 else 2  # 3: two tiles, of 64 keys, are on their way
    while (2 * block_m + 2 * num_stages * block_n) * row_bytes > on_chip:  # q, o; stages of k, v
        if num_stages > 2:
            num_stages -= 1
        else:
            block_n //= 2
    num_warps = 4 if block_m * row_bytes <= 16 << 10 else 8  # acc is in registers
    return block_m, block_n, num_warps, num_stages


def steps(x):
    """Strides of x [B, H, N, D] but the last; that of a single row may be odd, and is not used."""
    return *x.stride()[:2], x.stride(2) if x.shape[2] > 1 else STEP


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
    for name, x in (("q", q), ("k", k), ("v", v)):
        size = x.element_size()
        steps = [s * size for s, n in zip(x.stride()[:3], x.shape[:3], strict=True) if n > 1]
        fits = x.stride(3) == 1 and not any(at % STEP for at in (x.data_ptr(), *steps))
        if x.numel() and not fits:
            raise ValueError(
                f"{name} must have D side by side, and start and step in multiples of {STEP} "
                f"bytes, to be described: not strides {list(x.stride())} of {size}-byte elements"
            )


def tma_forward(
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
    step = STEP // q.element_size()  # rows of o are whole steps: TMA writes nothing smaller
    o = torch.empty([B, H, N_q, triton.cdiv(D, step) * step], dtype=q.dtype, device=q.device)
    o = o[..., :D]
    lse = torch.empty([B, H, N_q], dtype=torch.float32, device=q.device)
    scale = D**-0.5 if sm_scale is None else float(sm_scale)
    BLOCK_D = max(16, triton.next_power_of_2(D))
    on_chip = 99 << 10  # what the smallest cards have; more is asked for where there is more
    if q.is_cuda:
        card = torch.cuda.get_device_properties(q.device)
        on_chip = card.shared_memory_per_multiprocessor - 1024  # CUDA keeps 1 KB for itself
        triton.set_allocator(  # a descriptor lies in memory while its program runs
            lambda size, align, stream: torch.empty(size, dtype=torch.int8, device=q.device)
        )
    block_m, block_n, num_warps, num_stages = choose_tiles(BLOCK_D, q.element_size(), on_chip)
    tma_fwd_kernel[(triton.cdiv(N_q, block_m) * B * H,)](
        q, k, v, o, lse,
        *steps(q), *steps(k), *steps(v), *steps(o),
        H, H_kv, N_q, N_k,
        max(abs(scale), 1e-30),  # not 0: a hidden key's score is -inf * scale
        NEGATIVE=scale < 0,
        D=D, BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_D=BLOCK_D,
        RAGGED=N_k % block_n > 0, CAUSAL=causal,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return o, lse
