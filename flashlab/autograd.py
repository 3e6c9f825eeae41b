"""Attention that PyTorch differentiates, put together from kernels written apart. Floor: core.

Which kernels run is the caller's choice. Saved for the backward pass: q, k, v, o and one number a
row, lse; no N_q x N_k matrix.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from flashlab import kernels, numerics
from flashlab.reference.attention import flash_forward
from flashlab.reference.honest import honest_attention, honest_attention_backward


@dataclass(frozen=True)
class Kernels:
    """Both directions of attention.

    Args:
        forward: ``(q, k, v, **options) -> (o, lse)``.
        backward: ``(q, k, v, o, lse, do, **options) -> (dq, dk, dv)``.
    """

    forward: Callable[..., tuple[Tensor, Tensor]]
    backward: Callable[..., tuple[Tensor, Tensor, Tensor]]


class FlashAttention(torch.autograd.Function):
    """``apply(q, k, v, kernels, options) -> o``; options go to both kernels."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, made_of: Kernels, options: dict[str, Any]
    ) -> Tensor:
        """Run the forward kernel and keep what the backward one needs."""
        o, lse = made_of.forward(q, k, v, **options)
        ctx.save_for_backward(q, k, v, o, lse)
        ctx.made_of, ctx.options = made_of, options
        return o

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, do: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of q, k and v; do may have any strides, such as 0 from ``o.sum()``."""
        dq, dk, dv = ctx.made_of.backward(*ctx.saved_tensors, do, **ctx.options)
        return dq, dk, dv, None, None


def in_three(delta: Callable, dkdv: Callable, dq: Callable) -> Callable:
    """One backward function made of the three of lab 06."""

    def backward(
        q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, do: Tensor, **options: Any
    ) -> tuple[Tensor, Tensor, Tensor]:
        sums = delta(o, do)
        dk, dv = dkdv(q, k, v, do, lse, sums, **options)
        return dq(q, k, v, do, lse, sums, **options), dk, dv

    return backward


def your_kernels() -> Kernels:
    """A learner's three of lab 06, whatever they do at the time of a call, and flash_forward.

    The forward kernel is the learner's own if it passed its check, else the course's.
    """
    names = ("backward_delta", "flash_backward_dkdv", "flash_backward_dq")
    forward, _ = kernels.passed_or_solution("flash_forward")
    return Kernels(forward, in_three(*map(kernels.entry, names)))


def flash_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = False,
    sm_scale: float | None = None,
    made_of: Kernels | None = None,
) -> Tensor:
    """Exact softmax attention with a gradient.

    Args:
        q: [B, H, N_q, D].
        k, v: [B, H, N_k, D], or with fewer heads where the kernels take that.
        causal: Query i sees the keys j <= i + N_k - N_q.
        sm_scale: None means 1/sqrt(D).
        made_of: The kernels; None is ``your_kernels()``.

    Returns:
        o: [B, H, N_q, D].
    """
    options = {"causal": causal, "sm_scale": sm_scale}
    return FlashAttention.apply(q, k, v, made_of or your_kernels(), options)


def check_gradients(
    attend: Callable[..., Tensor], q: Tensor, k: Tensor, v: Tensor, do: Tensor, **options: Any
) -> list[numerics.Finding]:
    """Compare o and the gradients of ``attend`` with fp64 autograd, by the course's comparer.

    Args:
        attend: ``(q, k, v, **options) -> o``, differentiable.
        q, do: [B, H, N_q, D].
        k, v: [B, H_kv, N_k, D].
        options: causal and sm_scale, as ``flash_attention`` takes them.

    Returns:
        One finding each for o, dq, dk and dv: status, error and limit.
    """
    got = _differentiate(attend, (q, k, v), do, options)
    wide = [x.double() for x in (q, k, v)]
    reference = _differentiate(_plain, wide, do.double(), options)
    honest = [
        forward | backward
        for forward, backward in zip(
            honest_attention(q, k, v, **options),
            honest_attention_backward(q, k, v, do, **options),
            strict=True,
        )
    ]
    inputs = {"q": q, "k": k, "v": v, "do": do, **options}
    return numerics.compare(got, reference, numerics.limits(reference, honest, inputs, q.dtype))


def _plain(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
    """The reference; autograd sums the gradients of repeated key heads."""
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
    return flash_forward(q, k, v, **options)[0]


def _differentiate(
    attend: Callable[..., Tensor], inputs: Any, do: Tensor, options: dict[str, Any]
) -> dict[str, Tensor]:
    leaves = [x.detach().requires_grad_() for x in inputs]
    o = attend(*leaves, **options)
    grads = torch.autograd.grad(o, leaves, do)
    return {"o": o.detach()} | dict(zip(("dq", "dk", "dv"), grads, strict=True))
