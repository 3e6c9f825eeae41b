"""Correct in another style: o and lse are filled first, natural exponentials, masks everywhere."""

import torch
import triton
import triton.language as tl

# Read at every call; powers of two from 16. Tiles this small leave room for two programs on an SM:
# one multiplies while the other takes exp2. choose_tiles makes them smaller where it must
BLOCK_M = 64  # query rows of a tile
BLOCK_N = 64  # key rows of a tile
DTYPES = (torch.float16, torch.bfloat16, torch.float32)


@triton.jit
def varlen_fwd_kernel(
    q_ptr,  # [T_q, H, D]
    k_ptr,  # [T_k, H_kv, D]
    v_ptr,  # [T_k, H_kv, D]
    cu_q_ptr,  # [S + 1], int32
    cu_k_ptr,  # [S + 1], int32
    o_ptr,  # [T_q, H, D], contiguous
    lse_ptr,  # [H, T_q], fp32, contiguous
    stride_qm, stride_qh, stride_qd,
    stride_kn, stride_kh, stride_kd,
    stride_vn, stride_vh, stride_vd,
    stride_cq, stride_ck,
    T_q, H, H_kv, blocks,
    scale,  # size of sm_scale, above 0
    NEGATIVE: tl.constexpr,  # sm_scale is below 0
    D: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr,  # D up to a power of two: a tile's size has to be one
    CAUSAL: tl.constexpr,
):  # fmt: skip
    # Given: which block of which head of which sequence; the last blocks have most to do
    pid = tl.program_id(0)
    start_m = (blocks - 1 - pid % blocks) * BLOCK_M  # counted from the start of the sequence
    h = (pid // blocks % H).to(tl.int64)
    h_kv = h // (H // H_kv)
    seq = (pid // blocks // H).to(tl.int64)

    # 1. My sequence
    q_first = tl.load(cu_q_ptr + seq * stride_cq)
    N_q = tl.load(cu_q_ptr + (seq + 1) * stride_cq) - q_first
    k_first = tl.load(cu_k_ptr + seq * stride_ck)
    N_k = tl.load(cu_k_ptr + (seq + 1) * stride_ck) - k_first

    # Given: a short sequence has fewer blocks than the longest one
    if start_m >= N_q:
        return

    # 2. Tiles to visit
    shift = N_k - N_q  # query i sees key j if j <= i + shift, both within the sequence
    end = N_k
    if CAUSAL:
        end = tl.minimum(end, start_m + BLOCK_M + shift)  # so many my last one

    # 3. Where my sequence starts
    q_seq = q_ptr + q_first.to(tl.int64) * stride_qm  # int64: an offset may pass 2**31
    k_seq = k_ptr + k_first.to(tl.int64) * stride_kn
    v_seq = v_ptr + k_first.to(tl.int64) * stride_vn
    o_seq = o_ptr + q_first.to(tl.int64) * (H * D)  # [T_q, H, D], contiguous
    lse_seq = lse_ptr + q_first  # [H, T_q]

    # Given: offsets and masks
    offs_m = start_m + tl.arange(0, BLOCK_M)  # [BLOCK_M], my queries, within the sequence
    offs_n = tl.arange(0, BLOCK_N)  # [BLOCK_N], the keys of a tile
    offs_d = tl.arange(0, BLOCK_D).to(tl.int64)[None, :]  # [1, BLOCK_D]
    mask_m = offs_m < N_q  # the row behind is the next sequence's
    mask_d = offs_d < D
    mask_q = mask_m[:, None] & mask_d  # [BLOCK_M, BLOCK_D]
    rows = offs_m.to(tl.int64)
    keys = offs_n.to(tl.int64)
    q_ptrs = q_seq + rows[:, None] * stride_qm + h * stride_qh + offs_d * stride_qd
    k_tile = k_seq + keys[:, None] * stride_kn + h_kv * stride_kh + offs_d * stride_kd
    v_tile = v_seq + keys[:, None] * stride_vn + h_kv * stride_vh + offs_d * stride_vd

    # Given: load what stays on chip, start the state, as in lab 07
    q = tl.load(q_ptrs, mask=mask_q, other=0.0)  # [BLOCK_M, BLOCK_D], once per program
    if NEGATIVE:
        q = -q
    m_i = tl.full([BLOCK_M], float("-inf"), tl.float32)
    l_i = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)

    # Given: lab 07's loop
    for start_n in range(0, end, BLOCK_N):
        start = tl.cast(start_n, tl.int64)
        mask_n = start_n + offs_n < N_k  # [BLOCK_N]; the key behind is the next sequence's
        mask_kv = mask_n[:, None] & mask_d  # [BLOCK_N, BLOCK_D]
        k = tl.load(k_tile + start * stride_kn, mask=mask_kv, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee")  # [BLOCK_M, BLOCK_N], not scaled
        # 4. Hide keys
        visible = mask_n[None, :]
        if CAUSAL:
            visible = visible & ((start_n + offs_n)[None, :] <= offs_m[:, None] + shift)
        s = tl.where(visible, s, float("-inf"))
        m_new = tl.maximum(m_i, scale * tl.max(s, 1))
        m_safe = tl.where(m_new == float("-inf"), 0.0, m_new)  # no key yet: -inf - -inf is NaN
        alpha = tl.exp(m_i - m_safe)
        p = tl.exp(scale * s - m_safe[:, None])
        l_i = alpha * l_i + tl.sum(p, 1)
        v = tl.load(v_tile + start * stride_vn, mask=mask_kv, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, alpha[:, None] * acc, input_precision="ieee")
        m_i = m_new

    # Given: divide once, store
    l_safe = tl.where(l_i == 0.0, 1.0, l_i)
    o_ptrs = o_seq + rows[:, None] * (H * D) + h * D + offs_d
    tl.store(o_ptrs, acc * (1.0 / l_safe)[:, None], mask=mask_q)
    tl.store(lse_seq + h * T_q + rows, m_i + tl.log(l_safe), mask=mask_m)


def room_on_chip(device):
    """Bytes of shared memory that a program may use: what the smallest cards have, or this one."""
    if device.type != "cuda":
        return 99 << 10
    card = torch.cuda.get_device_properties(device)
    return card.shared_memory_per_multiprocessor - 1024  # CUDA keeps 1 KB for itself


def choose_tiles(BLOCK_D, itemsize, on_chip):
    """block_m, block_n, num_warps, num_stages that fit in on_chip bytes: lab 07's rule."""
    row_bytes = BLOCK_D * itemsize
    block_m, block_n, num_stages = BLOCK_M, BLOCK_N, 3  # 3: two tiles are on their way
    if itemsize == 4:  # no tensor cores: the products themselves need registers
        small = 4096 // max(64, BLOCK_D)
        block_m, block_n = min(block_m, small), min(block_n, small)
    while (block_m + 2 * num_stages * block_n) * row_bytes > on_chip:  # q, and stages of k and v
        if num_stages > 2:
            num_stages -= 1
        else:
            block_n //= 2
    num_warps = 4 if itemsize < 4 and block_m * row_bytes <= 16 << 10 else 8  # acc is in registers
    return block_m, block_n, num_warps, num_stages


def check_inputs(q, k, v):
    """Raise a ValueError that says which of q, k, v does not fit, and what came."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        if not isinstance(x, torch.Tensor) or x.dim() != 3 or x.shape[2] < 1:
            came = list(x.shape) if isinstance(x, torch.Tensor) else type(x).__name__
            raise ValueError(f"{name} must be a tensor [T, H, D] with D >= 1, not {came}")
        if x.dtype not in DTYPES:
            raise ValueError(f"{name} must have a dtype of {DTYPES}, not {x.dtype}: cast it")
        if x.dtype != q.dtype or x.device != q.device:
            wanted, came = f"{q.dtype} on {q.device}", f"{x.dtype} on {x.device}"
            raise ValueError(f"{name} must be {wanted} like q, not {came}: move or cast it")
    _, H, D = q.shape
    if D > 256:
        raise ValueError(f"q must have D <= 256 to fit on chip, not {list(q.shape)}")
    if k.shape[2] != D or H % max(1, k.shape[1]):
        wanted = f"[T_k, H_kv, {D}] with H_kv a divisor of {H}"
        raise ValueError(f"k must have shape {wanted}, not {list(k.shape)}")
    if v.shape != k.shape:
        raise ValueError(f"v must have shape {list(k.shape)} like k, not {list(v.shape)}")


def check_ends(q, k, cu_seqlens_q, cu_seqlens_k, max_seqlen_q):
    """Raise a ValueError unless both are int32 [S + 1]; values are looked at on a CPU alone."""
    longest = 0
    ends = {"cu_seqlens_q": (cu_seqlens_q, len(q)), "cu_seqlens_k": (cu_seqlens_k, len(k))}
    for name, (x, T) in ends.items():
        if not isinstance(x, torch.Tensor):
            came = type(x).__name__
            raise ValueError(f"{name} must be a tensor [S + 1] of torch.int32, not {came}")
        if x.dtype != torch.int32 or x.device != q.device:
            wanted, came = f"torch.int32 on {q.device}", f"{x.dtype} on {x.device}"
            raise ValueError(f"{name} must be {wanted}, not {came}: move or cast it")
        if x.dim() != 1 or len(x) < 1 or x.shape != cu_seqlens_q.shape:
            wanted = "[S + 1], a 0 and the end of each of S sequences, the same S for q and k"
            raise ValueError(f"{name} must have shape {wanted}, not {list(x.shape)}")
        if x.device.type != "cpu":
            continue
        came = x.tolist()
        if came[0] != 0 or came != sorted(came) or came[-1] > T:
            wanted = f"start at 0, never decrease and end at {T} tokens or before"
            raise ValueError(f"{name} must {wanted}, not {came}")
        if name == "cu_seqlens_q":
            longest = max((b - a for a, b in zip(came, came[1:], strict=False)), default=0)
    if not isinstance(max_seqlen_q, int) or max_seqlen_q < longest:
        wanted = f"an integer from {longest}, the longest sequence of queries, on"
        raise ValueError(f"max_seqlen_q must be {wanted}, not {max_seqlen_q!r}")


def varlen_forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    *,
    max_seqlen_q: int,
    causal: bool = False,
    sm_scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    check_inputs(q, k, v)
    check_ends(q, k, cu_seqlens_q, cu_seqlens_k, max_seqlen_q)
    (T_q, H, D), H_kv, S = q.shape, k.shape[1], len(cu_seqlens_q) - 1
    if T_q * H * H_kv == 0:  # nothing to launch for
        lse = torch.full([H, T_q], float("-inf"), dtype=torch.float32, device=q.device)
        return torch.zeros([T_q, H, D], dtype=q.dtype, device=q.device), lse
    o = torch.zeros([T_q, H, D], dtype=q.dtype, device=q.device)
    lse = torch.full([H, T_q], float("-inf"), dtype=torch.float32, device=q.device)
    scale = D**-0.5 if sm_scale is None else float(sm_scale)
    BLOCK_D = max(16, triton.next_power_of_2(D))
    room = room_on_chip(q.device)
    block_m, block_n, num_warps, num_stages = choose_tiles(BLOCK_D, q.element_size(), room)
    blocks = triton.cdiv(max_seqlen_q, block_m)  # of the longest sequence
    if blocks * S:
        varlen_fwd_kernel[(blocks * H * S,)](
            q, k, v, cu_seqlens_q, cu_seqlens_k, o, lse,
            *q.stride(), *k.stride(), *v.stride(), cu_seqlens_q.stride(0), cu_seqlens_k.stride(0),
            T_q, H, H_kv, blocks,
            max(abs(scale), 1e-30),  # not 0: a hidden key's score is -inf * scale
            NEGATIVE=scale < 0,
            D=D, BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_D=BLOCK_D, CAUSAL=causal,
            num_warps=num_warps, num_stages=num_stages,
        )  # fmt: skip
    return o, lse
