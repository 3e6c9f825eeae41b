"""Contract and reference of block-sparse attention: torch, any float dtype. Floor: core."""

import torch
from torch import Tensor

from flashlab.reference.attention import check_inputs


def check_mask(block_mask, q, k, block_m, block_n):
    """Raise a ValueError that says what does not fit of block_m, block_n and block_mask."""
    for name, size in (("block_m", block_m), ("block_n", block_n)):
        if type(size) is not int or size < 16 or size & (size - 1):
            raise ValueError(f"{name} must be a power of two from 16, not {size!r}")
    is_tensor = isinstance(block_mask, torch.Tensor)
    if not is_tensor or block_mask.dtype != torch.bool:
        came = block_mask.dtype if is_tensor else type(block_mask).__name__
        raise ValueError(f"block_mask must be a tensor of torch.bool, not {came}")
    tiles = [-(-q.shape[2] // block_m), -(-k.shape[2] // block_n)]
    if list(block_mask.shape) not in ([q.shape[1], *tiles], [1, *tiles]):
        wanted = f"[{q.shape[1]} or 1, {tiles[0]}, {tiles[1]}]"
        came = list(block_mask.shape)
        raise ValueError(f"block_mask must have shape {wanted}, a flag a tile, not {came}")
    if block_mask.device != q.device:
        came = block_mask.device
        raise ValueError(f"block_mask must be on {q.device} like q, not on {came}: move it")


def block_sparse_forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    block_mask: Tensor,
    *,
    block_m: int,
    block_n: int,
    sm_scale: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Softmax attention in which a query sees only the keys of the tiles that a mask keeps.

    s_ij = sm_scale * q_i . k_j over the keys j with block_mask[h, i // block_m, j // block_n];
    lse_i = log sum_j exp(s_ij);  o_i = sum_j exp(s_ij - lse_i) * v_j.

    Args:
        q: [B, H, N_q, D]; queries; float16, bfloat16 or float32 (here also float64); any strides;
            a kernel takes D from 1 to 256.
        k: [B, H, N_k, D]; keys; dtype and device of q.
        v: [B, H, N_k, D]; values; dtype and device of q.
        block_mask: [H or 1, ceil(N_q / block_m), ceil(N_k / block_n)]; bool; device of q; any
            strides; True keeps a tile. Every batch has the same mask; with 1, every head too.
        block_m: query rows of a tile; a power of two from 16; need not divide N_q.
        block_n: key rows of a tile; a power of two from 16; need not divide N_k. A kernel refuses
            tiles that do not fit on chip.
        sm_scale: factor of the scores; None means 1/sqrt(D).

    Returns:
        o: [B, H, N_q, D]; dtype of q; 0 for a query that sees no key.
        lse: [B, H, N_q]; in nats; float32 (float64 for float64); -inf for a query without
            keys. Any of B, H, N_q and N_k may be 0.

    Raises:
        ValueError: q, k, v, block_m, block_n or block_mask is not as said, or does not fit q's
            dtype, device or shape.

    Source: Dao et al. 2022 (FlashAttention), Algorithm 5 and section 3.3.
    """
    check_inputs(q, k, v)
    check_mask(block_mask, q, k, block_m, block_n)
    high = torch.promote_types(q.dtype, torch.float32)
    sm_scale = q.shape[3] ** -0.5 if sm_scale is None else sm_scale
    s = sm_scale * (q.to(high) @ k.to(high).transpose(2, 3))  # [B, H, N_q, N_k]
    seen = visible_keys(block_mask, q.shape[2], k.shape[2], block_m, block_n)
    s = s.masked_fill(~seen, -torch.inf)
    lse = torch.logsumexp(s, dim=3)  # [B, H, N_q]
    p = torch.exp(s - lse.masked_fill(lse == -torch.inf, 0.0)[..., None])  # no -inf - -inf
    return (p @ v.to(high)).to(q.dtype), lse


def visible_keys(block_mask: Tensor, N_q: int, N_k: int, block_m: int, block_n: int) -> Tensor:
    """Which query sees which key: bool [H or 1, N_q, N_k], each flag spread over its tile."""
    rows = block_mask.repeat_interleave(block_m, dim=1)[:, :N_q]
    return rows.repeat_interleave(block_n, dim=2)[:, :, :N_k]
