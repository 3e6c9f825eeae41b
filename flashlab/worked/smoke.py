"""The smallest kernel that touches what the course relies on: dot, exp2, masks, a ragged tail."""

import torch
import triton
import triton.language as tl


@triton.jit
def smoke_kernel(a_ptr, b_ptr, c_ptr, N, D: tl.constexpr, BLOCK: tl.constexpr):
    """c = exp2(a @ b^T) for a, b of shape [N, D]; one program, N <= BLOCK."""
    offs_n = tl.arange(0, BLOCK)
    offs_d = tl.arange(0, D)
    mask_n = offs_n < N
    tile = offs_n[:, None] * D + offs_d[None, :]  # [BLOCK, D]
    a = tl.load(a_ptr + tile, mask=mask_n[:, None], other=0.0)
    b = tl.load(b_ptr + tile, mask=mask_n[:, None], other=0.0)
    s = tl.dot(a, tl.trans(b))  # [BLOCK, BLOCK]
    out = offs_n[:, None] * N + offs_n[None, :]
    tl.store(c_ptr + out, tl.exp2(s), mask=mask_n[:, None] & mask_n[None, :])


def smoke(device: str = "cpu") -> float:
    """Run the kernel on ``device`` and return its worst error against fp64 (no unit).

    On the CPU it has to run inside ``flashlab.count_io()``.
    """
    generator = torch.Generator().manual_seed(7)
    a, b = (0.2 * torch.randn(21, 16, generator=generator) for _ in range(2))
    a, b = a.to(device, torch.float16), b.to(device, torch.float16)
    c = torch.full((21, 21), float("nan"), device=device)
    smoke_kernel[(1,)](a, b, c, 21, D=16, BLOCK=32)
    expected = torch.exp2(a.double() @ b.double().T)
    return float((c.double() - expected).abs().max())
