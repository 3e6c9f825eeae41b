"""Block-sparse attention: one kernel lists the tiles of each mask row, one walks the lists."""

import torch
import triton
import triton.language as tl

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
LOG2E = 1.4426950408889634  # 1 / ln 2: exp(x) is exp2(x * LOG2E)
LN2 = tl.constexpr(0.6931471805599453)  # and x in base 2 is x * LN2 in nats


@triton.jit
def block_list_kernel(
    mask_ptr,  # [H or 1, T_q, T_k], bool
    list_ptr,  # [H or 1, T_q, T_k], int32, contiguous
    count_ptr,  # [H or 1, T_q], int32, contiguous
    stride_mh, stride_mm, stride_mn,
    T_q, T_k,
    BLOCK_T: tl.constexpr,  # T_k up to a power of two
):  # fmt: skip
    # Given: my row of the mask, and a program for every row
    row = tl.program_id(0).to(tl.int64)
    offs_t = tl.arange(0, BLOCK_T)  # [BLOCK_T], the tiles of my row
    mask_row = mask_ptr + row // T_q * stride_mh + row % T_q * stride_mm
    keep = tl.load(mask_row + offs_t.to(tl.int64) * stride_mn, mask=offs_t < T_k, other=0)
    list_row = list_ptr + row * T_k

    # 1. List the tiles that are kept
    # Step 1: store the numbers of the kept tiles to list_row, in order; define count
    tl.static_assert(False, "Step 1 is not written yet")
    tl.store(count_ptr + row, count)


@triton.jit
def load_tile(ptrs, mask, CHECK: tl.constexpr):
    # Given: a tile; only where CHECK says that it may hang over the edge is the mask looked at
    if CHECK:
        tile = tl.load(ptrs, mask=mask, other=0.0)
    else:
        tile = tl.load(ptrs)
    return tile


@triton.jit
def block_sparse_fwd_kernel(
    q_ptr,  # [B, H, N_q, D]
    k_ptr,  # [B, H, N_k, D]
    v_ptr,  # [B, H, N_k, D]
    list_ptr,  # [H, T_q, T_k], int32, the numbers of the kept tiles, ascending
    count_ptr,  # [H, T_q], int32, how many there are
    o_ptr,  # [B, H, N_q, D]
    lse_ptr,  # [B, H, N_q], fp32
    stride_qb, stride_qh, stride_qm, stride_qd,
    stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd,
    stride_th, stride_tm, stride_tn,
    stride_ch, stride_cm,
    stride_ob, stride_oh, stride_om, stride_od,
    stride_lb, stride_lh, stride_lm,
    H, N_q, N_k,
    scale_log2,  # |sm_scale| / ln 2, above 0
    NEGATIVE: tl.constexpr,  # sm_scale is below 0
    D: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr,  # D up to a power of two: a tile's size has to be one
):  # fmt: skip
    # Given: which block of queries is mine. The blocks of one head share K and V in L2
    pid = tl.program_id(0)
    blocks = tl.cdiv(N_q, BLOCK_M)
    my_block = pid % blocks
    head = (pid // blocks).to(tl.int64)  # b * H + h; int64: an offset may pass 2**31
    b, h = head // H, head % H

    # Given: offsets and masks
    offs_m = my_block * BLOCK_M + tl.arange(0, BLOCK_M)  # [BLOCK_M], my queries
    offs_d = tl.arange(0, BLOCK_D).to(tl.int64)  # [BLOCK_D]
    mask_m = offs_m < N_q
    mask_d = offs_d < D
    mask_q = mask_m[:, None] & mask_d[None, :]  # [BLOCK_M, BLOCK_D]
    rows = offs_m.to(tl.int64)[:, None]
    q_ptrs = q_ptr + b * stride_qb + h * stride_qh + rows * stride_qm + offs_d[None, :] * stride_qd
    o_ptrs = o_ptr + b * stride_ob + h * stride_oh + rows * stride_om + offs_d[None, :] * stride_od
    lse_ptrs = lse_ptr + b * stride_lb + h * stride_lh + offs_m.to(tl.int64) * stride_lm
    keys = tl.arange(0, BLOCK_N).to(tl.int64)[:, None]  # of a tile
    k_head = k_ptr + b * stride_kb + h * stride_kh + offs_d[None, :] * stride_kd
    v_head = v_ptr + b * stride_vb + h * stride_vh + offs_d[None, :] * stride_vd
    k_tile = k_head + keys * stride_kn  # [BLOCK_N, BLOCK_D], the first tile; a product a row, once
    v_tile = v_head + keys * stride_vn

    # Given: my list. Only its last tile may be the one that hangs over the end of k
    list_row = list_ptr + h * stride_th + my_block.to(tl.int64) * stride_tm
    count = tl.load(count_ptr + h * stride_ch + my_block.to(tl.int64) * stride_cm)
    last = tl.load(list_row + (count - 1) * stride_tn, mask=count > 0, other=-1)
    whole = count - ((last + 1) * BLOCK_N > N_k).to(tl.int32)

    # Given: the queries and the running state; acc is divided once, at the end
    q = tl.load(q_ptrs, mask=mask_q, other=0.0)  # [BLOCK_M, BLOCK_D], once per program
    if NEGATIVE:
        q = -q  # the largest s is the largest score
    m_i = tl.full([BLOCK_M], float("-inf"), tl.float32)  # largest score so far, in base 2
    l_i = tl.zeros([BLOCK_M], tl.float32)  # sum of the weights so far
    acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)  # sum of weights times v so far

    tile = tl.load(list_row, mask=count > 0, other=0)  # the number of the first tile
    for TAIL in tl.static_range(2):  # compiled twice: whole tiles without masks, then the last one
        for i in range(whole * TAIL, whole + (count - whole) * TAIL):
            # 2. Find the tile
            # Step 2: define start_n, tile's first key; load the next number into tile
            tl.static_assert(False, "Step 2 is not written yet")
            offs_n = start_n + tl.arange(0, BLOCK_N)  # [BLOCK_N], the keys of this tile
            k_ptrs = k_tile + start_n.to(tl.int64) * stride_kn  # [BLOCK_N, BLOCK_D]
            v_ptrs = v_tile + start_n.to(tl.int64) * stride_vn

            # 3. Load and score
            # Step 3: define v and s, not scaled; in the TAIL hide keys beyond the last
            tl.static_assert(False, "Step 3 is not written yet")

            # 4. Weigh and accumulate
            # Step 4: update m_i, l_i and acc (a sum) for scores scale_log2 * s, base 2
            tl.static_assert(False, "Step 4 is not written yet")

    # 5. Finish and store
    # Step 5: divide by l_i, store acc to o_ptrs and lse (nats) to lse_ptrs, masked
    tl.static_assert(False, "Step 5 is not written yet")


def check_inputs(q, k, v):
    """Raise a ValueError that says which of q, k, v does not fit, and what came."""
    for name, x, rows in (("q", q, q), ("k", k, k), ("v", v, k)):
        if not isinstance(x, torch.Tensor) or x.dim() != 4 or x.shape[3] < 1:
            came = list(x.shape) if isinstance(x, torch.Tensor) else type(x).__name__
            raise ValueError(f"{name} must be a tensor [B, H, N, D] with D >= 1, not {came}")
        if x.dtype not in DTYPES:
            raise ValueError(f"{name} must have a dtype of {DTYPES}, not {x.dtype}: cast it")
        if x.dtype != q.dtype or x.device != q.device:
            wanted, came = f"{q.dtype} on {q.device}", f"{x.dtype} on {x.device}"
            raise ValueError(f"{name} must be {wanted} like q, not {came}: move or cast it")
        wanted = [*q.shape[:2], rows.shape[2], q.shape[3]]
        if list(x.shape) != wanted:
            raise ValueError(f"{name} must have shape {wanted} to fit, not {list(x.shape)}")
    if q.shape[3] > 256:
        raise ValueError(f"q must have D <= 256 to fit on chip, not {list(q.shape)}")


def check_mask(block_mask, q, k, block_m, block_n):
    """Raise a ValueError that says what does not fit of block_m, block_n and block_mask."""
    for name, size in (("block_m", block_m), ("block_n", block_n)):
        if type(size) is not int or size < 16 or size & (size - 1):
            raise ValueError(f"{name} must be a power of two from 16, not {size!r}")
    is_tensor = isinstance(block_mask, torch.Tensor)
    if not is_tensor or block_mask.dtype != torch.bool:
        came = block_mask.dtype if is_tensor else type(block_mask).__name__
        raise ValueError(f"block_mask must be a tensor of torch.bool, not {came}")
    tiles = [triton.cdiv(q.shape[2], block_m), triton.cdiv(k.shape[2], block_n)]
    if list(block_mask.shape) not in ([q.shape[1], *tiles], [1, *tiles]):
        wanted = f"[{q.shape[1]} or 1, {tiles[0]}, {tiles[1]}]"
        came = list(block_mask.shape)
        raise ValueError(f"block_mask must have shape {wanted}, a flag a tile, not {came}")
    if block_mask.device != q.device:
        came = block_mask.device
        raise ValueError(f"block_mask must be on {q.device} like q, not on {came}: move it")


def stages(q, BLOCK_D, block_m, block_n):
    """How many pairs of k and v tiles are in flight, at most 3: what fits on chip beside q."""
    on_chip = 99 << 10  # what the smallest cards have
    if q.is_cuda:
        card = torch.cuda.get_device_properties(q.device)
        on_chip = card.shared_memory_per_multiprocessor - 1024  # CUDA keeps 1 KB for itself
    rows = on_chip // (BLOCK_D * q.element_size()) - block_m
    if on_chip > 200 << 10:  # Hopper and later multiply out of shared memory: a place a stage
        return max(1, min(3, rows // (2 * block_n)))
    return 2 if rows >= 2 * block_n + 8 else 1  # before, a tile in use has moved to registers


def list_blocks(block_mask, H):
    """Lists [H, T_q, T_k] of the kept tiles of each row and their counts [H, T_q]."""
    heads, T_q, T_k = block_mask.shape
    lists = torch.empty([heads, T_q, T_k], dtype=torch.int32, device=block_mask.device)
    counts = torch.empty([heads, T_q], dtype=torch.int32, device=block_mask.device)
    block_list_kernel[(heads * T_q,)](
        block_mask, lists, counts, *block_mask.stride(), T_q, T_k,
        BLOCK_T=triton.next_power_of_2(T_k), num_warps=4,
    )  # fmt: skip
    return lists.expand(H, T_q, T_k), counts.expand(H, T_q)  # a shared list has stride 0


def block_sparse_forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    block_mask: torch.Tensor,
    *,
    block_m: int,
    block_n: int,
    sm_scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    check_inputs(q, k, v)
    check_mask(block_mask, q, k, block_m, block_n)
    B, H, N_q, D = q.shape
    N_k = k.shape[2]
    if B * H * N_q * N_k == 0:  # nothing to launch for
        lse = torch.full([B, H, N_q], float("-inf"), dtype=torch.float32, device=q.device)
        return torch.zeros_like(q), lse
    lists, counts = list_blocks(block_mask, H)
    o = torch.empty_like(q)
    lse = torch.empty([B, H, N_q], dtype=torch.float32, device=q.device)
    BLOCK_D = max(16, triton.next_power_of_2(D))
    held = block_m * (block_n + BLOCK_D)  # numbers of s and acc, all in registers
    if held * q.element_size() > 64 << 10:
        raise ValueError(
            f"block_m={block_m} and block_n={block_n} do not fit on chip with D={D} and {q.dtype}"
        )
    scale_log2 = (D**-0.5 if sm_scale is None else float(sm_scale)) * LOG2E
    block_sparse_fwd_kernel[(lists.shape[1] * B * H,)](
        q, k, v, lists, counts, o, lse,
        *q.stride(), *k.stride(), *v.stride(), *lists.stride(), *counts.stride(),
        *o.stride(), *lse.stride(),
        H, N_q, N_k,
        max(abs(scale_log2), 1e-30),  # not 0: a hidden key's score is -inf * scale_log2
        NEGATIVE=scale_log2 < 0,
        D=D, BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_D=BLOCK_D,
        num_warps=4 if held <= 64 * 192 else 8,  # about 100 of those numbers a thread
        num_stages=stages(q, BLOCK_D, block_m, block_n),
    )  # fmt: skip
    return o, lse
