"""The kernels that ours are timed beside: torch's SDPA backends and compiled FlexAttention.

Each function returns a call that does the GPU work alone, which a CUDA graph can capture.
"""

from collections.abc import Callable

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

aten = torch.ops.aten


def sdpa(q, k, v, causal: bool, backend: SDPBackend) -> Callable[[], torch.Tensor]:
    """torch's attention with one backend."""

    def call():
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    return call


def flex(q, k, v, mask_mod=None, block: int = 128) -> Callable[[], torch.Tensor]:
    """FlexAttention, compiled for these shapes. ``mask_mod`` (b, h, i, j) -> seen, or None."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    torch._dynamo.reset()  # each cell compiles anew: the cache of shapes is short
    compiled = torch.compile(flex_attention, dynamic=False)
    mask = None
    if mask_mod is not None:
        (H, N_q), N_k = q.shape[1:3], k.shape[2]
        mask = create_block_mask(mask_mod, None, H, N_q, N_k, device=q.device, BLOCK_SIZE=block)
    return lambda: compiled(q, k, v, block_mask=mask)


def seen_by_causal(b, h, i, j):
    """FlexAttention's mask of causal attention."""
    return i >= j


def flash_backward(q, k, v, do, causal: bool) -> Callable[[], object]:
    """torch's FlashAttention-2 backward as one operator."""
    o, lse, cum_q, cum_k, max_q, max_k, seed, offset, _ = aten._scaled_dot_product_flash_attention(
        q, k, v, 0.0, causal
    )
    return lambda: aten._scaled_dot_product_flash_attention_backward(
        do, q, k, v, o, lse, cum_q, cum_k, max_q, max_k, 0.0, causal, seed, offset
    )


def cudnn_backward(q, k, v, do, causal: bool) -> Callable[[], object]:
    """cuDNN's backward as one operator."""
    o, lse, cum_q, cum_k, max_q, max_k, seed, offset, _ = aten._scaled_dot_product_cudnn_attention(
        q, k, v, None, True, 0.0, causal
    )
    return lambda: aten._scaled_dot_product_cudnn_attention_backward(
        do, q, k, v, o, lse, seed, offset, None, cum_q, cum_k, max_q, max_k, 0.0, causal
    )


def flex_both(q, k, v, do, causal: bool) -> tuple[Callable[[], object], Callable[[], object]]:
    """FlexAttention's forward, and its forward with backward; the backward is the difference.

    A graph captures both in one stream, which a backward pass alone does not allow.
    """
    inputs = [x.detach().requires_grad_() for x in (q, k, v)]
    forward = flex(*inputs, seen_by_causal if causal else None)
    return forward, lambda: torch.autograd.grad(forward(), inputs, do)


def varlen_flash(q, k, v, cu_seqlens, longest: int, causal: bool) -> Callable[[], object]:
    """torch's FlashAttention-2 over packed sequences [T, H, D]."""
    return lambda: aten._flash_attention_forward(
        q, k, v, cu_seqlens, cu_seqlens, longest, longest, 0.0, causal, False
    )
