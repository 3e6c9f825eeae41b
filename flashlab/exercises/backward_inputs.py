"""Inputs of the backward exercises: a forward call, its results and a gradient. Floor: course."""

import torch
from torch import Tensor

from flashlab.exercise import Sizes
from flashlab.exercises import attention_inputs
from flashlab.reference.attention import flash_forward
from flashlab.reference.backward import backward_delta

GRADIENTS = ("random", "expanded", "permuted", "large")


def make_inputs(
    names: tuple[str, ...], sizes: Sizes, dtype: torch.dtype, generator: torch.Generator
) -> dict:
    """Those of q k v o lse do delta that ``names`` asks for, and causal, sm_scale if set.

    ``sizes`` is what ``attention_inputs`` takes and may hold ``gradient``: random (default);
    expanded (one number, all strides 0: what ``o.sum().backward()`` sends); permuted
    ([B, N, H, D] memory); large (in the hundreds). o, lse and delta are those of an exact forward
    pass, rounded once: o to ``dtype``, the statistics to float32.
    """
    inputs = attention_inputs.make_inputs(sizes, dtype, generator)
    exact = {n: x.double() if isinstance(x, Tensor) else x for n, x in inputs.items()}
    group = sizes["H"] // sizes.get("H_kv", sizes["H"]) if sizes["H"] else 1
    exact |= {n: exact[n].repeat_interleave(group, dim=1) for n in ("k", "v")}
    o, lse = flash_forward(**exact)
    o = o.to(dtype)
    do = gradient(sizes, dtype, generator)
    delta = backward_delta(o.double(), do.double())
    inputs |= {"o": o, "lse": lse.float(), "do": do, "delta": delta.float()}
    options = {name: inputs[name] for name in ("causal", "sm_scale") if name in inputs}
    return {name: inputs[name] for name in names} | options


def gradient(sizes: Sizes, dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    """do [B, H, N_q, D] as ``sizes["gradient"]`` says."""
    B, H, N_q, D = (sizes[name] for name in ("B", "H", "N_q", "D"))
    kind = sizes.get("gradient", "random")
    if kind not in GRADIENTS:
        raise ValueError(f"gradient must be one of {GRADIENTS}, not {kind!r}")
    if kind == "expanded":
        return torch.ones((), dtype=dtype).expand(B, H, N_q, D)
    do = torch.randn(B, N_q, H, D, generator=generator).permute(0, 2, 1, 3)
    do = do if kind == "permuted" else do.contiguous()
    return (300.0 * do if kind == "large" else do).to(dtype)
