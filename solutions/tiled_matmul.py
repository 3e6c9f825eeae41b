"""Matrix product: a program keeps one tile of c on chip while tiles of a and b stream past."""

import torch
import triton
import triton.language as tl

# Read at every call; powers of two from 16. A tile of c this wide does 85 multiply-adds for each
# element of a and b that it loads, and fills half the registers of 8 warps
BLOCK_M = 128  # rows of a tile of c
BLOCK_N = 256  # columns of a tile of c
BLOCK_K = 64  # columns of a tile of a, rows of a tile of b
GROUP_M = 8  # row blocks whose programs run close together and share tiles of b in L2
DTYPES = (torch.float16, torch.bfloat16, torch.float32)


@triton.jit
def matmul_kernel(
    a_ptr,  # [M, K]
    b_ptr,  # [K, N]
    c_ptr,  # [M, N]
    stride_am, stride_ak,
    stride_bk, stride_bn,
    stride_cm, stride_cn,
    M, N, K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):  # fmt: skip
    # Given: which tile is mine. Down GROUP_M row blocks, then on to the next column block
    pid = tl.program_id(0)
    in_group = GROUP_M * tl.cdiv(N, BLOCK_N)  # programs of a group
    first_m = pid // in_group * GROUP_M
    height = tl.minimum(tl.cdiv(M, BLOCK_M) - first_m, GROUP_M)  # the last group may be lower
    pid_m = first_m + pid % in_group % height
    pid_n = pid % in_group // height

    # 1. My rows and columns, accumulator
    ### BEGIN SOLUTION 1: define offs_m, offs_n (int64, of tile pid_m, pid_n), acc (fp32, 0)
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M).to(tl.int64)  # [BLOCK_M]
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N).to(tl.int64)  # [BLOCK_N]
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)  # stays on chip until it is finished
    ### END SOLUTION

    # Given: a column of rows of a, a row of columns of b
    mask_m, mask_n = offs_m < M, offs_n < N
    a_rows = a_ptr + offs_m[:, None] * stride_am  # [BLOCK_M, 1]
    b_columns = b_ptr + offs_n[None, :] * stride_bn  # [1, BLOCK_N]

    for start_k in range(0, K, BLOCK_K):
        offs_k = start_k + tl.arange(0, BLOCK_K).to(tl.int64)  # [BLOCK_K]
        a_ptrs = a_rows + offs_k[None, :] * stride_ak  # [BLOCK_M, BLOCK_K]
        b_ptrs = b_columns + offs_k[:, None] * stride_bk  # [BLOCK_K, BLOCK_N]

        # 2. Load two tiles, multiply, add
        ### BEGIN SOLUTION 2: load a and b, 0 in lanes that are off; add their product to acc
        mask_k = offs_k < K
        a = tl.load(a_ptrs, mask=mask_m[:, None] & mask_k[None, :], other=0.0)
        b = tl.load(b_ptrs, mask=mask_k[:, None] & mask_n[None, :], other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
        ### END SOLUTION

    # 3. Store
    ### BEGIN SOLUTION 3: store acc to its place in c, by the strides of c, under a mask
    c_ptrs = c_ptr + offs_m[:, None] * stride_cm + offs_n[None, :] * stride_cn
    tl.store(c_ptrs, acc, mask=mask_m[:, None] & mask_n[None, :])  # rounded to the dtype of c
    ### END SOLUTION


def check_inputs(a, b):
    """Raise a ValueError that says which of a and b does not fit, and what came."""
    for name, x, shape in (("a", a, "[M, K]"), ("b", b, "[K, N]")):
        if not isinstance(x, torch.Tensor) or x.dim() != 2:
            came = list(x.shape) if isinstance(x, torch.Tensor) else type(x).__name__
            raise ValueError(f"{name} must be a tensor {shape}, not {came}: reshape it")
        if x.dtype not in DTYPES:
            raise ValueError(f"{name} must have a dtype of {DTYPES}, not {x.dtype}: cast it")
    if b.dtype != a.dtype or b.device != a.device:
        wanted, came = f"{a.dtype} on {a.device}", f"{b.dtype} on {b.device}"
        raise ValueError(f"b must be {wanted} like a, not {came}: move or cast it")
    if b.shape[0] != a.shape[1]:
        wanted = f"[{a.shape[1]}, N]"
        raise ValueError(f"b must have shape {wanted} to fit a, not {list(b.shape)}")


def tiled_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    check_inputs(a, b)
    (M, K), N = a.shape, b.shape[1]
    if M * N * K == 0:  # nothing to launch for
        return torch.zeros([M, N], dtype=a.dtype, device=a.device)
    c = torch.empty([M, N], dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N),)
    matmul_kernel[grid](
        a, b, c,
        *a.stride(), *b.stride(), *c.stride(),
        M, N, K,
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K, GROUP_M=GROUP_M,
        num_warps=8 if BLOCK_M * BLOCK_N >= 128 * 128 else 4,  # 128 numbers of acc a thread
        # Pairs of tiles under way: 3 of 48 KB fit on Hopper, the others need one place less
        num_stages=3 if a.element_size() == 2 else 2,
    )  # fmt: skip
    return c
