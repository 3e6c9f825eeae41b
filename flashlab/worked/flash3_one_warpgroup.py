"""Step 1 of the growth of ``flash3_forward``: one warpgroup that loads by TMA and multiplies.

There is one slot for K and one for V. As soon as a product has read its slot, the same warpgroup
starts the next load into it, so that K comes under softmax and P V, and V under Q K.
"""

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma_wait,
)

from flashlab.worked.flash3_parts import (
    BLOCK_N,
    ROWS,
    S_ROW,
    check_forward,
    described,
    hide,
    softmax,
    start_load,
    start_pv,
    start_qk,
    store_lse,
    tile_of,
    times,
)
from flashlab.worked.flash3_prepare import LOG2E, barriers, tma_store


@gluon.jit
def one_warpgroup_kernel(
    q_desc, k_desc, v_desc, o_desc,  # [B, H, N, D] by ROWS rows, [B, H_kv, N, D] by BLOCK_N
    lse_ptr,  # [B, H, N], fp32
    H, group, N, n_tiles,
    scale,  # sm_scale * log2(e)
    D: gl.constexpr, CAUSAL: gl.constexpr, MASKED: gl.constexpr,
):  # fmt: skip
    # 1. Which tile is mine
    sizes = (H, group, N, n_tiles)
    b, h, row, n_blocks = tile_of(gl.program_id(0), sizes, ROWS, CAUSAL)
    # 2. Slots, and barriers that say "the block is there"
    dtype: gl.constexpr = q_desc.dtype
    O_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    q_buf = gl.allocate_shared_memory(dtype, [1, 1, ROWS, D], q_desc.layout)
    k_buf = gl.allocate_shared_memory(dtype, [1, 1, BLOCK_N, D], k_desc.layout)
    v_buf = gl.allocate_shared_memory(dtype, [1, 1, BLOCK_N, D], v_desc.layout)
    q_full, k_full, v_full = (
        barriers(1, 1).index(0),
        barriers(1, 1).index(0),
        barriers(1, 1).index(0),
    )
    # 3. Start the first loads: blocks go from right to left, the one with a mask comes first
    start = (n_blocks - 1) * BLOCK_N
    start_load(q_desc, q_full, q_buf, b, h, row, True)
    start_load(k_desc, k_full, k_buf, b, h // group, start, True)
    start_load(v_desc, v_full, v_buf, b, h // group, start, True)
    # 4. Running state, in fp32
    m_log2 = gl.full([ROWS], -float("inf"), gl.float32, S_ROW)
    l_i = gl.zeros([ROWS], gl.float32, S_ROW)
    acc = gl.zeros([ROWS, D], gl.float32, O_LAYOUT)
    # 5. Scores of a block; then softmax, product with V, scores of the next one, in this order
    q = q_buf.reshape([ROWS, D])
    mbarrier.wait(q_full, 0)
    mbarrier.wait(k_full, 0)
    s = warpgroup_mma_wait(0, deps=(start_qk(q, k_buf, D),))  # [ROWS, BLOCK_N]
    start_load(k_desc, k_full, k_buf, b, h // group, start - BLOCK_N, start > 0)
    if MASKED:
        s = hide(s, row, start, N, CAUSAL)
    for n in range(n_blocks - 1):
        m_log2, l_i, p, alpha = softmax(s, m_log2, l_i, scale, D, dtype)
        mbarrier.wait(v_full, n & 1)
        acc = warpgroup_mma_wait(0, deps=(start_pv(p, v_buf, times(acc, alpha), D),))
        start -= BLOCK_N
        start_load(v_desc, v_full, v_buf, b, h // group, start, True)
        mbarrier.wait(k_full, (n + 1) & 1)
        s = warpgroup_mma_wait(0, deps=(start_qk(q, k_buf, D),))
        start_load(k_desc, k_full, k_buf, b, h // group, start - BLOCK_N, start > 0)
    m_log2, l_i, p, alpha = softmax(s, m_log2, l_i, scale, D, dtype)
    mbarrier.wait(v_full, (n_blocks - 1) & 1)
    acc = warpgroup_mma_wait(0, deps=(start_pv(p, v_buf, times(acc, alpha), D),))
    # 6. Divide; lse
    store_lse(lse_ptr, b, h, row, m_log2, l_i, sizes)
    # 7. Store by TMA through q's slot, which nobody reads any more; rows from N on are left out
    q.store(times(acc, 1.0 / l_i).to(dtype))
    fence_async_shared()
    tma_store(o_desc, [b, h, row, 0], q_buf)
    tma.store_wait(0)


def flash3_one_warpgroup(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention forward on Hopper, step 1 of chapter 08's growth.

    Args:
        q: [B, H, N, D]; float16 or bfloat16, D 64 or 128.
        k, v: [B, H_kv, N, D]; H_kv divides H.
        causal: Query i sees the keys j <= i.

    Returns:
        o: [B, H, N, D]; lse: [B, H, N], fp32, nats. Scores are scaled by 1/sqrt(D).

    Raises:
        ValueError: shapes, dtypes or D do not fit.
    """
    check_forward(q, k, v)
    (B, H, N, D), H_kv = q.shape, k.shape[1]
    o = torch.empty(B, H, N, D, dtype=q.dtype, device=q.device)
    lse = torch.empty(B, H, N, dtype=torch.float32, device=q.device)
    n_tiles = triton.cdiv(N, ROWS.value) * B * H
    one_warpgroup_kernel[(n_tiles,)](
        *described(q, k, v, o), lse, H, H // H_kv, N, n_tiles, D**-0.5 * LOG2E,
        D=D, CAUSAL=causal, MASKED=causal or N % BLOCK_N.value != 0, num_warps=4,
    )  # fmt: skip
    return o, lse
