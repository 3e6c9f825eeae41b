"""Inputs of the FP8 exercises: random, or hostile in one named way. Floor: course."""

import torch
from torch import Tensor

from flashlab.exercise import Sizes
from flashlab.exercises import attention_inputs
from flashlab.reference.fp8 import E4M3, MOST, quantize_fp8

OUTLIER, SHARE = 10.0, 0.001  # N(0, 1) + N(0, 100) * Bernoulli(0.001)


def outliers(x: Tensor, generator: torch.Generator) -> Tensor:
    """x with large numbers here and there, as the paper draws them; always one at least.

    Source: Shah et al. 2024 (FlashAttention-3), section 4.3.
    """
    chosen = torch.rand(x.shape, generator=generator) < SHARE
    if x.numel():
        chosen.view(-1)[x.numel() // 3] = True
    return x + OUTLIER * torch.randn(x.shape, generator=generator, dtype=x.dtype) * chosen


def rotation_inputs(sizes: Sizes, dtype: torch.dtype, generator: torch.Generator) -> dict:
    """``{"x": [..., D], "signs": [D]}``.

    ``sizes`` holds shape, and may hold ``values``: random (default); outliers; unit (row i is unit
    vector i mod D: y shows H_D); large (3,000 each: sums pass fp16's 65,504); ``layout``:
    contiguous (default); permuted ([B, N, H, D] memory); strided (every second column).
    """
    x = torch.randn(sizes["shape"], generator=generator)
    D, values = x.shape[-1], sizes.get("values", "random")
    signs = torch.randint(0, 2, (D,), generator=generator) * 2.0 - 1.0
    if values == "outliers":
        x = outliers(x, generator)
    if values == "unit":
        x.copy_(torch.eye(D)[torch.arange(x.shape[-2]) % D])
    if values == "large":
        x.mul_(3000.0)
    return {"x": laid_out(x.to(dtype), sizes), "signs": laid_out(signs.to(dtype), sizes)}


def block_inputs(sizes: Sizes, dtype: torch.dtype, generator: torch.Generator) -> dict:
    """``{"x": [B, H, N, D], "block_rows"}``.

    ``sizes`` holds B H N D block_rows, and may hold ``values``: random (default); outliers;
    rising (each row a little larger than the one before); zeros (the first block of a head and the
    last head are 0); numbers (e4m3 numbers, 448 the largest: x8 is x); tiny (1e-30); low (all but
    one number of a block so small that they become subnormal); ``layout`` as ``rotation_inputs``.
    """
    B, H, N, D, block_rows = (sizes[name] for name in ("B", "H", "N", "D", "block_rows"))
    x, values = torch.randn(B, H, N, D, generator=generator), sizes.get("values", "random")
    if values == "outliers":
        x = outliers(x, generator)
    if values == "rising":
        x.mul_(1.0 + torch.arange(N)[:, None] / 8)
    if values == "zeros":
        x[:, :, :block_rows] = 0.0
        x[:, -1] = 0.0
    if values == "numbers":
        x = (150 * x).clamp(-MOST, MOST).to(E4M3).float()
        x[:, :, ::block_rows, 0] = -MOST
    if values == "tiny":
        x.mul_(1e-30)
    if values == "low":
        x.mul_(1e-5)
        x[:, :, ::block_rows, D // 2] = 1.0
    return {"x": laid_out(x.to(dtype), sizes), "block_rows": block_rows}


def fp8_inputs(sizes: Sizes, dtype: torch.dtype, generator: torch.Generator) -> dict:
    """What ``fp8_forward`` takes: q, k, v of ``attention_inputs`` quantized by the reference.

    ``sizes`` holds what they hold and block_rows, and may hold ``blocks``: random (default);
    outliers; apart (each block of rows three times as large as the one before); zeros (the first
    block of k and of v is 0); mean (v has mean 8); tiny (v is near 1e-12).
    """
    blocks, block_rows = sizes.get("blocks", "random"), sizes["block_rows"]
    made = attention_inputs.make_inputs(sizes | {"layout": "contiguous"}, torch.float32, generator)
    found = {}
    for name in "qkv":
        x = made.pop(name)
        factor = 3.0 ** (torch.arange(x.shape[2]) // block_rows)[:, None]
        if blocks == "outliers":
            x = outliers(x, generator)
        if blocks == "apart":
            x = x * (factor if name == "v" else factor**0.5)
        if blocks == "zeros" and name != "q":
            x[:, :, :block_rows] = 0.0
        if blocks == "mean" and name == "v":
            x = x + 8.0
        if blocks == "tiny" and name == "v":
            x = x * 1e-12
        x8, scale = quantize_fp8(x, block_rows=block_rows)
        found |= {f"{name}8": laid_out(x8, sizes), f"{name}_scale": scale}
    order = ("q8", "k8", "v8", "q_scale", "k_scale", "v_scale")
    return {name: found[name] for name in order} | {"block_rows": block_rows} | made


def laid_out(x: Tensor, sizes: Sizes) -> Tensor:
    """The same numbers in the memory order that ``sizes["layout"]`` names."""
    layout = sizes.get("layout", "contiguous")
    if layout == "permuted" and x.dim() == 4:
        return x.permute(0, 2, 1, 3).contiguous().permute(0, 2, 1, 3)
    if layout == "strided":
        return torch.stack((x, x), -1).flatten(-2)[..., ::2]
    return x
