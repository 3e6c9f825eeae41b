"""What the Hopper backward needs: checks, descriptors, delta and lse, its launch, rounding dq."""

import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

if hasattr(tma, "async_load"):  # Triton 3.9's names; the older ones are still there and raise
    tma_load, tma_store = tma.async_load, tma.async_store
else:
    tma_load, tma_store = tma.async_copy_global_to_shared, tma.async_copy_shared_to_global

LOG2E = 1.4426950408889634
GLUON = {torch.float16: gl.float16, torch.bfloat16: gl.bfloat16, torch.float32: gl.float32}


@gluon.jit
def barriers(n: gl.constexpr, arrivals: gl.constexpr):
    bars = gl.allocate_shared_memory(gl.int64, [n, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(n):
        mbarrier.init(bars.index(i), count=arrivals)
    return bars


@gluon.jit
def query_blocks(start, KEYS: gl.constexpr, N_q, N_k, BLOCK_M: gl.constexpr, CAUSAL: gl.constexpr):
    """Block of keys from ``start`` on -> its first query block, the first unmasked one, number."""
    n_blocks = gl.cdiv(N_q, BLOCK_M)
    first = 0
    unmasked = 0
    if CAUSAL:  # query i sees key j if j <= i + N_k - N_q
        first_query = start - (N_k - N_q)
        first = gl.minimum(gl.maximum(first_query, 0) // BLOCK_M, n_blocks)
        unmasked = gl.cdiv(gl.maximum(first_query + KEYS - 1, 0), BLOCK_M)
        unmasked = gl.minimum(gl.maximum(unmasked, first), n_blocks)
    if start + KEYS > N_k:  # keys that do not exist: hidden in every tile
        unmasked = n_blocks
    return first, unmasked, n_blocks


@triton.jit
def prepare_kernel(
    o_ptr, do_ptr, lse_ptr,  # o, do [B, H, N, D]; lse [B, H, N]
    delta_ptr, lse2_ptr, dq_ptr,  # [B * H, N_pad], likewise; [B * H, N, D]
    stride_ob, stride_oh, stride_on, stride_dob, stride_doh, stride_don,
    stride_lb, stride_lh, stride_ln, H, N, N_pad,
    BLOCK: tl.constexpr, D: tl.constexpr, ZERO: tl.constexpr,
):  # fmt: skip
    """delta = rowsum(o * do); lse in base 2, +inf where p must be 0; dq = 0."""
    head = tl.program_id(1).to(tl.int64)
    b, h = head // H, head % H
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK).to(tl.int64)
    offs_d = tl.arange(0, D)[None, :]
    inside = rows < N
    mask = inside[:, None] & (offs_d < D)
    o_at = o_ptr + b * stride_ob + h * stride_oh + rows[:, None] * stride_on + offs_d
    do_at = do_ptr + b * stride_dob + h * stride_doh + rows[:, None] * stride_don + offs_d
    o = tl.load(o_at, mask=mask, other=0.0).to(tl.float32)
    do = tl.load(do_at, mask=mask, other=0.0).to(tl.float32)
    lse_at = lse_ptr + b * stride_lb + h * stride_lh + rows * stride_ln
    lse = tl.load(lse_at, mask=inside, other=float("-inf"))
    hidden = lse == float("-inf")  # a row that does not exist, or sees no key
    tl.store(
        lse2_ptr + head * N_pad + rows, tl.where(hidden, float("inf"), lse / 0.6931471805599453)
    )
    tl.store(delta_ptr + head * N_pad + rows, tl.sum(o * do, 1))
    if ZERO:
        dq_at = dq_ptr + (head * N + rows[:, None]) * D + offs_d
        tl.store(dq_at, tl.zeros([BLOCK, D], tl.float32), mask=mask)


def prepare(o, do, lse, BLOCK, sums):
    """lse in base 2 and delta, [B * H, N up to a multiple of BLOCK]; zeros to sum dq in."""
    B, H, N, D = o.shape
    tiles = triton.cdiv(N, BLOCK)
    fp32 = {"dtype": torch.float32, "device": o.device}
    lse2, delta = (torch.empty(B * H, tiles * BLOCK, **fp32) for _ in range(2))
    dq = torch.empty([B * H, N, D] if sums else [1, 64, 64], **fp32)
    o = o if o.stride(3) == 1 else o.contiguous()
    prepare_kernel[(tiles, B * H)](
        o, do, lse, delta, lse2, dq, *o.stride()[:3], *do.stride()[:3], *lse.stride(),
        H, N, tiles * BLOCK, BLOCK=BLOCK, D=D, ZERO=sums,
    )  # fmt: skip
    return lse2, delta, dq


@triton.jit
def round_kernel(x_ptr, y_ptr, scale, n, BLOCK: tl.constexpr):
    """y = x * scale in y's dtype, element by element."""
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
    tl.store(y_ptr + offs, (x * scale).to(y_ptr.dtype.element_ty), mask=offs < n)


def check(q, k, v, o, lse, do):
    """Raise a ValueError that says which tensor does not fit, and what came."""
    for name, x in (("q", q), ("k", k), ("v", v), ("o", o), ("do", do)):
        if x.dim() != 4:
            raise ValueError(f"{name} must be a tensor [B, H, N, D], not {list(x.shape)}")
    D = q.shape[3]
    if D not in (64, 128) or q.dtype not in (torch.float16, torch.bfloat16):
        raise ValueError(f"q must be float16 or bfloat16 with D 64 or 128, not {q.dtype}, D {D}")
    B, H, N_q = q.shape[:3]
    if list(k.shape) != [B, k.shape[1], k.shape[2], D] or H % max(1, k.shape[1]):
        wanted = f"[{B}, H_kv, N_k, {D}] with H_kv a divisor of {H}"
        raise ValueError(f"k must have shape {wanted}, not {list(k.shape)}")
    for name, x, shape in (("v", v, k.shape), ("o", o, q.shape), ("do", do, q.shape)):
        if x.shape != shape:
            raise ValueError(f"{name} must have shape {list(shape)}, not {list(x.shape)}")
    for name, x in (("k", k), ("v", v), ("o", o), ("do", do)):
        if x.dtype != q.dtype or x.device != q.device:
            wanted, came = f"{q.dtype} on {q.device}", f"{x.dtype} on {x.device}"
            raise ValueError(f"{name} must be {wanted} like q, not {came}: move or cast it")
    if list(lse.shape) != [B, H, N_q] or lse.dtype != torch.float32:
        came = f"{list(lse.shape)}, {lse.dtype}"
        raise ValueError(f"lse must be float32 of shape {[B, H, N_q]}, not {came}")


def descriptor(x, block):
    """x, copied if TMA cannot read it, and its descriptor with tiles of shape ``block``."""
    strides = [s if n > 1 else 8 for s, n in zip(x.stride(), x.shape, strict=True)]
    step = 16 // x.element_size()  # TMA's addresses and strides are multiples of 16 bytes
    if x.stride(-1) != 1 or any(s % step for s in strides[:-1]) or x.data_ptr() % 16:
        x = x.contiguous()
        strides = list(x.stride())
    layout = gl.NVMMASharedLayout.get_default_for(block, GLUON[x.dtype])
    return x, TensorDescriptor(x, list(x.shape), [*strides[:-1], 1], block, layout)


def gradients(
    kernel, q, k, v, o, lse, do, causal, sm_scale,
    *, keys=128, add_by_tma=True, dq_pass=None, **more,
):  # fmt: skip
    """dq, dk, dv by ``kernel``, each of whose programs owns ``keys`` keys.

    Args:
        add_by_tma: The kernel adds dq through a descriptor; else it gets a pointer to the sums.
        dq_pass: Makes dq in the kernel's place, as ``flash3_dq`` does.
        more: Further constants and options of the launch.
    """
    check(q, k, v, o, lse, do)
    (B, H, N_q, D), (H_kv, N_k) = q.shape, k.shape[1:3]
    dk, dv = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (k, v))
    if B * H * N_q * N_k * H_kv == 0:  # nothing to launch for
        return torch.zeros_like(q), dk.zero_(), dv.zero_()
    scale = D**-0.5 if sm_scale is None else float(sm_scale)
    BLOCK_M = 64 if D == 128 else 128
    blocks = ((q, BLOCK_M), (do, BLOCK_M), (k, keys), (v, keys))
    made = [descriptor(x, [1, 1, rows, D]) for x, rows in blocks]
    (q, q_desc), (do, do_desc), (k, k_desc), (v, v_desc) = made
    lse2, delta, sums = prepare(o, do, lse, BLOCK_M, dq_pass is None)
    to = [descriptor(sums, [1, 64, 64])[1] if add_by_tma else sums]
    to += [descriptor(x, [1, 1, 64, D])[1] for x in (dk, dv)]
    kernel[(triton.cdiv(N_k, keys), H_kv, B)](
        q_desc, do_desc, k_desc, v_desc, *to, lse2, delta,
        H, H // H_kv, N_q, N_k, scale * LOG2E,
        BLOCK_M=BLOCK_M, D=D, CAUSAL=causal, RAGGED=N_k % keys != 0, num_warps=4, **more,
    )  # fmt: skip
    if dq_pass is not None:
        return dq_pass(q, k, v, do, lse2, delta, causal=causal, scale=scale), dk, dv
    dq = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    grid = (triton.cdiv(dq.numel(), 4096),)
    round_kernel[grid](sums, dq, scale, dq.numel(), BLOCK=4096, num_warps=8)
    return dq, dk, dv
