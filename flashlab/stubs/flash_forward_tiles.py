"""FlashAttention forward in plain torch, tile by tile: every batch and head at once."""

import torch

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


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


def check_blocks(block_m, block_n):
    """Raise a ValueError that says which block size is not a positive integer."""
    for name, size in (("block_m", block_m), ("block_n", block_n)):
        if not isinstance(size, int) or size < 1:
            raise ValueError(f"{name} must be a positive integer, not {size!r}: try 64")


def flash_forward_tiles(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    block_m: int,
    block_n: int,
    causal: bool = False,
    sm_scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    check_inputs(q, k, v)
    check_blocks(block_m, block_n)
    B, H, N_q, D = q.shape
    N_k = k.shape[2]
    if sm_scale is None:
        sm_scale = D**-0.5
    high = torch.promote_types(q.dtype, torch.float32)  # fp32, fp64 for fp64
    o = torch.empty_like(q)
    lse = torch.empty(B, H, N_q, dtype=high, device=q.device)

    # Outer loop: a block of query rows (on a GPU each one is a program)
    for start_m in range(0, N_q, block_m):
        q_i = q[:, :, start_m : start_m + block_m].to(high)  # [B, H, rows, D]; rows <= block_m
        rows = q_i.shape[2]
        offs_m = torch.arange(start_m, start_m + rows, device=q.device)  # [rows]

        # 1. Running state
        # Step 1: define m_i, l_i [B, H, rows] and acc [B, H, rows, D], dtype high
        raise NotImplementedError("Step 1 is not written yet")

        # Inner loop: tiles of key rows pass by
        for start_n in range(0, N_k, block_n):
            k_j = k[:, :, start_n : start_n + block_n].to(high)  # [B, H, cols, D]
            v_j = v[:, :, start_n : start_n + block_n].to(high)  # [B, H, cols, D]
            offs_n = torch.arange(start_n, start_n + k_j.shape[2], device=q.device)  # [cols]

            # 2. Score and mask
            # Step 2: score the tile, -inf where causal hides a key; define s
            raise NotImplementedError("Step 2 is not written yet")

            # 3. New maximum and weights
            # Step 3: define m_new, alpha [B, H, rows], p [B, H, rows, cols], never NaN
            raise NotImplementedError("Step 3 is not written yet")

            # 4. Rescale and accumulate
            # Step 4: rescale and add this tile; update l_i, acc, m_i
            raise NotImplementedError("Step 4 is not written yet")

        # 5. Divide once, store
        # Step 5: write this block's rows of o (divided by l_i) and lse (nats)
        raise NotImplementedError("Step 5 is not written yet")
    return o, lse
