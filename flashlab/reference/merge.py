"""Contract and reference of merging partial attention: torch, any float dtype. Floor: core."""

import torch
from torch import Tensor

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def check_inputs(o, lse):
    """Raise a ValueError that says which of o and lse does not fit, and what came."""
    if not isinstance(o, torch.Tensor) or o.dim() != 5 or o.shape[4] < 1:
        came = list(o.shape) if isinstance(o, torch.Tensor) else type(o).__name__
        raise ValueError(f"o must be a tensor [S, B, H, N, D] with D >= 1, not {came}")
    if o.dtype not in DTYPES:
        raise ValueError(f"o must have a dtype of {DTYPES}, not {o.dtype}: cast it")
    if not isinstance(lse, torch.Tensor) or lse.shape != o.shape[:4]:
        came = list(lse.shape) if isinstance(lse, torch.Tensor) else type(lse).__name__
        raise ValueError(f"lse must be a tensor {list(o.shape[:4])} to fit o, not {came}")
    wanted = torch.promote_types(o.dtype, torch.float32)
    if lse.dtype != wanted or lse.device != o.device:
        came = f"{lse.dtype} on {lse.device}"
        raise ValueError(f"lse must be {wanted} on {o.device}, not {came}: move or cast it")


def merge_partials(o: Tensor, lse: Tensor) -> tuple[Tensor, Tensor]:
    """Attention over all keys from attention over S parts of the keys.

    lse = log sum_s exp(lse_s);  o = sum_s exp(lse_s - lse) * o_s.

    Args:
        o: [S, B, H, N, D]; each part's output, normalised over its own keys; float16, bfloat16 or
            float32 (here also float64); any strides; a kernel takes D from 1 to 256.
        lse: [S, B, H, N]; each part's log-sum-exp in nats; float32 (float64 for float64); any
            strides; -inf for a part without keys, which adds nothing whatever its o, NaN too.

    Returns:
        o: [B, H, N, D]; dtype of o; computed in float32; 0 where every part is empty.
        lse: [B, H, N]; in nats; dtype of lse; -inf where every part is empty. Any of S, B, H
            and N may be 0.

    Raises:
        ValueError: o or lse is not such a tensor, or its dtype, device or shape does not fit.

    Source: Rabe & Staats 2021, section 3; Dao et al. 2023, Flash-Decoding (the reduction).
    """
    check_inputs(o, lse)
    total = torch.logsumexp(lse, dim=0)  # [B, H, N]
    safe = total.masked_fill(total == -torch.inf, 0.0)
    weights = torch.exp(lse - safe)[..., None]  # [S, B, H, N, 1], 0 for an empty part
    parts = o.to(lse.dtype).masked_fill((lse == -torch.inf)[..., None], 0.0)  # 0 * NaN is NaN
    return (weights * parts).sum(0).to(o.dtype), total
