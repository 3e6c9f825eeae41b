"""Contracts and references of FP8 attention: rotation, quantisation, attention. Floor: core."""

import torch
from torch import Tensor

from flashlab.reference.attention import flash2_forward

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
E4M3 = torch.float8_e4m3fn
MOST = 448.0  # the largest e4m3 number
WIDEST = 1024  # columns that a kernel's row may have


def hadamard(x: Tensor, signs: Tensor) -> Tensor:
    """Rows with random signs, times the Hadamard matrix: a rotation.

    y = (x * signs) H_D / sqrt(D), with H_1 = [1] and H_2n = [[H_n, H_n], [H_n, -H_n]].
    H_D / sqrt(D) is orthogonal: rows of q and k that got the same signs keep their dot products.

    Args:
        x: [..., D]; 1 to 4 dimensions; float16, bfloat16 or float32 (here also float64); any
            strides; D is a power of two up to 1,024.
        signs: [D]; each +1 or -1 (not checked); dtype and device of x.

    Returns:
        y: [..., D]; dtype of x; computed in float32 (float64 for float64).

    Raises:
        ValueError: x or signs is not such a tensor, or D is no power of two up to 1,024.

    Source: Sylvester's construction; Shah et al. 2024 (FlashAttention-3), section 3.3.
    """
    check_rotation(x, signs)
    high = torch.promote_types(x.dtype, torch.float32)
    y = x.to(high) * signs.to(high) @ hadamard_matrix(x.shape[-1]).to(x.device, high)
    return (y * x.shape[-1] ** -0.5).to(x.dtype)


def hadamard_matrix(D: int) -> Tensor:
    """H_D of Sylvester, [D, D] fp64: -1 where i and j share an odd number of bits, else 1."""
    h = torch.ones(1, 1, dtype=torch.float64)
    while h.shape[0] < D:
        h = torch.cat([torch.cat([h, h], 1), torch.cat([h, -h], 1)])
    return h


def check_rotation(x, signs):
    """Raise a ValueError that says which of x and signs does not fit, and what came."""
    if not isinstance(x, Tensor) or not 1 <= x.dim() <= 4:
        came = list(x.shape) if isinstance(x, Tensor) else type(x).__name__
        raise ValueError(f"x must be a tensor [..., D] of 1 to 4 dimensions, not {came}")
    if x.dtype not in DTYPES:
        raise ValueError(f"x must have a dtype of {DTYPES}, not {x.dtype}: cast it")
    D = x.shape[-1]
    if D & (D - 1) or not 1 <= D <= WIDEST:
        raise ValueError(f"x must have D a power of two up to {WIDEST}, not {list(x.shape)}")
    if not isinstance(signs, Tensor) or list(signs.shape) != [D]:
        came = list(signs.shape) if isinstance(signs, Tensor) else type(signs).__name__
        raise ValueError(f"signs must be a tensor [{D}], one sign a column of x, not {came}")
    if signs.dtype != x.dtype or signs.device != x.device:
        wanted, came = f"{x.dtype} on {x.device}", f"{signs.dtype} on {signs.device}"
        raise ValueError(f"signs must be {wanted} like x, not {came}: move or cast it")


def quantize_fp8(x: Tensor, *, block_rows: int) -> tuple[Tensor, Tensor]:
    """FP8 numbers and one scale for every block of rows: x is about x8 * scale.

    scale = max |x| / 448 over the block_rows rows of a block (the last block may have fewer), 1
    for a block of zeros;  x8 = x / scale, rounded to the nearest e4m3 number, ties to even.

    Args:
        x: [B, H, N, D]; float16, bfloat16 or float32 (here also float64); finite; any strides; a
            kernel takes D from 1 to 256. Any of B, H and N may be 0.
        block_rows: rows of a block, 1 or more; N or more: one scale a head.

    Returns:
        x8: [B, H, N, D]; float8_e4m3fn. (For float64 x / scale itself, not rounded:
            what a kernel's rounding is measured against.)
        scale: [B, H, ceil(N / block_rows)]; float32 (float64 for float64).

    Raises:
        ValueError: x is not such a tensor, or block_rows is not a positive integer.

    Source: Shah et al. 2024 (FlashAttention-3), section 3.3; e4m3: Micikevicius et al. 2022.
    """
    check_quantized(x, block_rows)
    high = torch.promote_types(x.dtype, torch.float32)
    B, H, N, _ = x.shape
    blocks = -(-N // block_rows)
    amax = torch.zeros(B, H, blocks, dtype=high, device=x.device)
    for n in range(blocks):
        rows = x[:, :, n * block_rows : (n + 1) * block_rows].to(high).abs()
        amax[:, :, n] = rows.amax((2, 3)) if rows.numel() else 0.0
    scale = torch.where(amax == 0, 1.0, amax / MOST)
    x8 = x.to(high) / per_row(scale, block_rows, N)
    return (x8 if x.dtype == torch.float64 else x8.clamp(-MOST, MOST).to(E4M3)).contiguous(), scale


def per_row(scale: Tensor, block_rows: int, N: int) -> Tensor:
    """[B, H, ceil(N / block_rows)] -> [B, H, N, 1]: the scale of every row."""
    blocks = torch.arange(N, device=scale.device) // block_rows
    return scale[:, :, blocks, None]


def check_quantized(x, block_rows):
    """Raise a ValueError that says which of x and block_rows does not fit, and what came."""
    if not isinstance(x, Tensor) or x.dim() != 4 or x.shape[3] < 1:
        came = list(x.shape) if isinstance(x, Tensor) else type(x).__name__
        raise ValueError(f"x must be a tensor [B, H, N, D] with D >= 1, not {came}")
    if x.dtype not in DTYPES:
        raise ValueError(f"x must have a dtype of {DTYPES}, not {x.dtype}: cast it")
    if not isinstance(block_rows, int) or block_rows < 1:
        raise ValueError(f"block_rows must be a positive integer, not {block_rows!r}: try 64")


def fp8_forward(
    q8: Tensor,
    k8: Tensor,
    v8: Tensor,
    q_scale: Tensor,
    k_scale: Tensor,
    v_scale: Tensor,
    *,
    block_rows: int,
    causal: bool = False,
    sm_scale: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Attention of FP8 tensors: both products multiply e4m3 numbers, the weights P among them.

    q = q8 * q_scale, k and v likewise, row by row;  s_ij = sm_scale * q_i . k_j;
    lse_i = log sum_j exp(s_ij);  o_i = sum_j exp(s_ij - lse_i) * v_j, over the keys that i sees.
    A kernel rounds P, relative to the running maximum, to e4m3: as it is, or times 2^8 (e4m3 ends
    at 448, and holds nothing below 2^-9). Sums, maxima and lse stay float32.

    Args:
        q8: [B, H, N_q, D]; float8_e4m3fn (here also float64); any strides; a kernel takes D from 1
            to 256.
        k8, v8: [B, H_kv, N_k, D]; H_kv divides H, and query head h reads key head
            h // (H / H_kv); dtype and device of q8.
        q_scale: [B, H, ceil(N_q / block_rows)]; float32 (here also float64); one scale for each
            block_rows rows of q8.
        k_scale, v_scale: [B, H_kv, ceil(N_k / block_rows)]; likewise.
        block_rows: a multiple of 32, or N_q and N_k at most (then one scale a head).
        causal: query i sees the keys j <= i + N_k - N_q (the last query sees every key).
        sm_scale: factor of the scores; None means 1/sqrt(D).

    Returns:
        o: [B, H, N_q, D]; bfloat16 (float64 for float64); 0 for a query that sees no key.
        lse: [B, H, N_q]; in nats; float32 (float64 for float64); -inf for a query without keys.
            Any of B, H, H_kv, N_q and N_k may be 0.

    Raises:
        ValueError: an argument is not such a tensor, or does not fit the others.

    Source: Shah et al. 2024 (FlashAttention-3), section 3.3.
    """
    check_fp8_inputs(q8, k8, v8, q_scale, k_scale, v_scale, block_rows)
    high = torch.promote_types(q_scale.dtype, torch.float32)
    q, k, v = (
        x8.to(high) * per_row(scale.to(high), block_rows, x8.shape[2])
        for x8, scale in ((q8, q_scale), (k8, k_scale), (v8, v_scale))
    )
    o, lse = flash2_forward(q, k, v, causal=causal, sm_scale=sm_scale)
    return o.to(torch.float64 if q8.dtype == torch.float64 else torch.bfloat16).contiguous(), lse


def check_fp8_inputs(q8, k8, v8, q_scale, k_scale, v_scale, block_rows):
    """Raise a ValueError that says which argument does not fit, and what came."""
    for name, x in (("q8", q8), ("k8", k8), ("v8", v8)):
        if not isinstance(x, Tensor) or x.dim() != 4 or x.shape[3] < 1:
            came = list(x.shape) if isinstance(x, Tensor) else type(x).__name__
            raise ValueError(f"{name} must be a tensor [B, H, N, D] with D >= 1, not {came}")
        if x.dtype not in (E4M3, torch.float64) or x.dtype != q8.dtype or x.device != q8.device:
            wanted, came = f"{E4M3} on {q8.device}", f"{x.dtype} on {x.device}"
            raise ValueError(f"{name} must be {wanted}, not {came}: quantize it")
    B, H, N_q, D = q8.shape
    if list(k8.shape) != [B, k8.shape[1], k8.shape[2], D] or H % max(1, k8.shape[1]):
        wanted = f"[{B}, H_kv, N_k, {D}] with H_kv a divisor of {H}"
        raise ValueError(f"k8 must have shape {wanted}, not {list(k8.shape)}")
    if v8.shape != k8.shape:
        wanted, came = list(k8.shape), list(v8.shape)
        raise ValueError(f"v8 must have shape {wanted} like k8, not {came}")
    check_scales(block_rows, {"q": (q8, q_scale), "k": (k8, k_scale), "v": (v8, v_scale)})


def check_scales(block_rows, pairs):
    """Raise a ValueError unless every block of rows has its scale."""
    longest = max(x8.shape[2] for x8, _ in pairs.values())
    if (
        not isinstance(block_rows, int)
        or block_rows < 1
        or (block_rows % 32 and block_rows < longest)
    ):
        wanted = f"a multiple of 32 or >= {longest}"
        raise ValueError(f"block_rows must be {wanted}, not {block_rows!r}")
    for name, (x8, scale) in pairs.items():
        wanted = [*x8.shape[:2], -(-x8.shape[2] // block_rows)]
        if not isinstance(scale, Tensor) or list(scale.shape) != wanted:
            came = list(scale.shape) if isinstance(scale, Tensor) else type(scale).__name__
            raise ValueError(
                f"{name}_scale must be a tensor {wanted}, a scale a block, not {came}"
            )
        if scale.dtype not in (torch.float32, torch.float64) or scale.device != x8.device:
            came = f"{scale.dtype} on {scale.device}"
            raise ValueError(f"{name}_scale must be float32 on {x8.device}, not {came}")
