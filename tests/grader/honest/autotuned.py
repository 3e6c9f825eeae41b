import torch
import triton
import triton.language as tl

BLOCK = 64


@triton.autotune(
    configs=[triton.Config({"BLOCK": b}, num_warps=w) for b in (64, 128) for w in (2, 4)],
    key=["N"],
)
@triton.heuristics({"EVEN": lambda args: args["N"] % 16 == 0})
@triton.jit
def scale_kernel(x_ptr, y_ptr, stride_x, N, a, EVEN: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs * stride_x, mask=offs < N, other=0.0)
    tl.store(y_ptr + offs, a * x, mask=offs < N)


def vector_scale(x, a):
    y = torch.empty(x.numel(), dtype=x.dtype, device=x.device)
    if x.numel():
        scale_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](
            x, y, x.stride(0), x.numel(), a
        )
    return y
