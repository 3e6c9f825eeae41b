"""What the worked forward kernels for Hopper share: products, softmax, masks, descriptors.

The same pieces stand in the lab's kernel, which is one file and imports nothing of the course.
Here N_q = N_k = N, so that of a warpgroup's rows the diagonal lies in one block of keys.
"""

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, warpgroup_mma

from flashlab.worked.flash3_prepare import descriptor, tma_load

ROWS = gl.constexpr(64)  # query rows of a warpgroup: a wgmma has 64
BLOCK_N = gl.constexpr(128)  # key rows of a block
S_LAYOUT = gl.constexpr(gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 128, 16]))  # of a wgmma
S_ROW = gl.constexpr(gl.SliceLayout(1, S_LAYOUT.value))  # one number a row of s
S_COLUMN = gl.constexpr(gl.SliceLayout(0, S_LAYOUT.value))  # one a column
LN2 = gl.constexpr(0.6931471805599453)


@gluon.jit
def tile_of(tile, sizes, BLOCK_M: gl.constexpr, CAUSAL: gl.constexpr):
    """Number of a tile -> b, h, its first row, its key blocks. Causal: a head's longest first."""
    H, group, N, n_tiles = sizes
    tiles = gl.cdiv(N, BLOCK_M)  # of a head
    head, place = tile // tiles, tile % tiles
    n_blocks = gl.cdiv(N, BLOCK_N)
    if CAUSAL:
        place = tiles - 1 - place
        n_blocks = gl.minimum(gl.cdiv((place + 1) * BLOCK_M, BLOCK_N), n_blocks)
    return head // H, head % H, place * BLOCK_M, n_blocks


@gluon.jit
def start_load(desc, full, buf, b, h, start, go):
    """Start TMA's copy of the block at row ``start``; ``full`` ends its phase when it is there."""
    mbarrier.expect(full, desc.block_type.nbytes, pred=go)
    tma_load(desc, [b, h, start, 0], full, buf, pred=go)


@gluon.jit
def start_qk(q, k_buf, D: gl.constexpr):
    """Start q k^T -> [ROWS, BLOCK_N]; both factors are read from shared memory."""
    zeros = gl.zeros([ROWS, BLOCK_N], gl.float32, S_LAYOUT)
    k = k_buf.reshape([BLOCK_N, D]).permute((1, 0))
    return warpgroup_mma(q, k, zeros, use_acc=False, is_async=True)


@gluon.jit
def start_pv(p, v_buf, acc, D: gl.constexpr):
    """Start acc + p v -> [ROWS, D]; p is read from registers."""
    return warpgroup_mma(p, v_buf.reshape([BLOCK_N, D]), acc, is_async=True)


@gluon.jit
def hide(s, row, start, N, CAUSAL: gl.constexpr):
    """s of the keys from ``start`` on, -inf where a row from ``row`` on does not see a key."""
    sees = gl.full([ROWS], N, gl.int32, S_ROW)
    if CAUSAL:
        sees = gl.minimum(row + gl.arange(0, ROWS, layout=S_ROW) + 1, N)
    keys = start + gl.arange(0, BLOCK_N, layout=S_COLUMN)
    return gl.where(keys[None, :] < sees[:, None], s, -float("inf"))


@gluon.jit
def softmax(s, m_log2, l_i, scale, D: gl.constexpr, dtype: gl.constexpr):
    """Online softmax; scale holds log2(e), m_log2 is in base 2. p is laid out for p v."""
    m_new = gl.maximum(m_log2, gl.max(s, 1) * scale)
    alpha = gl.exp2(m_log2 - m_new)
    p = gl.exp2(s * scale - m_new[:, None])
    l_i = alpha * l_i + gl.sum(p, 1)
    O_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    P_LAYOUT: gl.constexpr = gl.DotOperandLayout(0, O_LAYOUT, k_width=2)
    return m_new, l_i, gl.convert_layout(p.to(dtype), P_LAYOUT), alpha


@gluon.jit
def times(acc, factor):
    """Every row of acc times its own factor."""
    return acc * gl.convert_layout(factor, gl.SliceLayout(1, acc.type.layout))[:, None]


@gluon.jit
def store_lse(lse_ptr, b, h, row, m_log2, l_i, sizes):
    H, group, N, n_tiles = sizes
    rows = row + gl.arange(0, ROWS, layout=S_ROW)
    lse = (m_log2 + gl.log2(l_i)) * LN2
    gl.store(lse_ptr + (b * H + h).to(gl.int64) * N + rows, lse, mask=rows < N)


def check_forward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
    """Raise a ValueError that says which of q, k, v does not fit, and what came."""
    if q.dim() != 4 or q.shape[3] not in (64, 128):
        raise ValueError(f"q must be [B, H, N, D] with D 64 or 128, not {list(q.shape)}")
    if q.dtype not in (torch.float16, torch.bfloat16):
        raise ValueError(f"q must be float16 or bfloat16, not {q.dtype}")
    B, H, N, D = q.shape
    for name, x in (("k", k), ("v", v)):
        if list(x.shape) != [B, k.shape[1], N, D] or H % max(1, k.shape[1]):
            wanted = f"[{B}, H_kv, {N}, {D}] with H_kv a divisor of {H}"
            raise ValueError(f"{name} must have shape {wanted}, not {list(x.shape)}")
        if x.dtype != q.dtype:
            raise ValueError(f"{name} must be {q.dtype} like q, not {x.dtype}")


def described(q, k, v, o) -> list:
    """Descriptors of q, k, v and o; of q, k, v what TMA cannot read is copied first."""
    D = q.shape[3]
    blocks = (q, ROWS), (k, BLOCK_N), (v, BLOCK_N), (o, ROWS)
    return [descriptor(x, [1, 1, rows.value, D])[1] for x, rows in blocks]
