"""Small correct kernels of many kinds: none may be reported, in any program order."""

import triton
import triton.language as tl


@triton.jit
def scale(x_ptr, y_ptr, n, a, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n)  # masked-off lanes are stored nowhere
    tl.store(y_ptr + i, a * x, mask=i < n)


@triton.jit
def single_loads(x_ptr, at_ptr, y_ptr, n):
    row = tl.program_id(0)
    at = tl.load(at_ptr + row, mask=row < n, other=0)  # a single 0, used as an offset
    one = row + tl.arange(0, 1)
    x = tl.load(x_ptr + at) + tl.load(x_ptr + one, mask=one < n, other=0.0)
    tl.store(y_ptr + one, x)


@triton.jit
def in_place(x_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x_ptr + i, tl.load(x_ptr + i, mask=i < n, other=0.0) + 1.0, mask=i < n)


@triton.jit
def optional(x_ptr, bias_ptr, y_ptr, n, twice, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    if bias_ptr is not None:
        x += tl.load(bias_ptr + i, mask=i < n, other=0.0)
    if twice:
        x = x * 2
    tl.store(y_ptr + i, x, mask=i < n)


@triton.jit
def row_softmax(x_ptr, y_ptr, stride_r, stride_c, columns, B: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, B)
    at = x_ptr + row * stride_r + i * stride_c
    x = tl.load(at, mask=i < columns, other=float("-inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(y_ptr + row * columns + i, e / tl.sum(e, 0), mask=i < columns)


@triton.jit
def where_cleans(x_ptr, y_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n)
    x = tl.where(i < n, x, 0.0)
    tl.store(y_ptr, tl.sum(x, 0))


@triton.jit
def and_cleans(x_ptr, y_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n)
    keep = (i < n) & (x > 0)
    tl.store(y_ptr + i, 1.0, mask=keep)
    tl.store(y_ptr + i, 0.0, mask=(i < n) & (x <= 0))


@triton.jit
def running_sum(x_ptr, y_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n)  # the lanes behind n come after all that is stored
    tl.store(y_ptr + i, tl.cumsum(x, 0), mask=i < n)


@triton.jit
def _smaller(a, b):
    return tl.minimum(a, b)


@triton.jit
def running_least(x_ptr, y_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y_ptr + i, tl.associative_scan(tl.load(x_ptr + i), 0, _smaller))


@triton.jit
def layer_norm(x_ptr, w_ptr, y_ptr, columns, eps, B: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, B)
    x = tl.load(x_ptr + row * columns + i, mask=i < columns, other=0.0)
    mean = tl.sum(x, 0) / columns
    centred = tl.where(i < columns, x - mean, 0.0)
    rstd = tl.rsqrt(tl.sum(centred * centred, 0) / columns + eps)
    w = tl.load(w_ptr + i, mask=i < columns)
    tl.store(y_ptr + row * columns + i, centred * rstd * w, mask=i < columns)


@triton.jit
def transpose(x_ptr, y_ptr, M, N, B: tl.constexpr):
    m = tl.program_id(0) * B + tl.arange(0, B)
    n = tl.program_id(1) * B + tl.arange(0, B)
    keep = (m < M)[:, None] & (n < N)[None, :]
    x = tl.load(x_ptr + m[:, None] * N + n[None, :], mask=keep)
    keep = (n < N)[:, None] & (m < M)[None, :]
    tl.store(y_ptr + n[:, None] * M + m[None, :], tl.trans(x), mask=keep)


@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, stride_bk, stride_bn, B: tl.constexpr):
    m = tl.program_id(1) * B + tl.arange(0, B)
    n = tl.program_id(0) * B + tl.arange(0, B)
    acc = tl.zeros([B, B], dtype=tl.float32)
    for k0 in tl.range(0, K, B, num_stages=2):
        k = k0 + tl.arange(0, B)
        a_keep = (m[:, None] < M) & (k[None, :] < K)
        b_keep = (k[:, None] < K) & (n[None, :] < N)
        a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=a_keep, other=0.0)
        b = tl.load(b_ptr + k[:, None] * stride_bk + n[None, :] * stride_bn, b_keep, 0.0)
        acc += tl.dot(a, b, input_precision="ieee")
    keep = (m[:, None] < M) & (n[None, :] < N)
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc.to(c_ptr.dtype.element_ty), mask=keep)


@triton.jit
def gather_rows(table_ptr, index_ptr, y_ptr, n, columns, B: tl.constexpr, C: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    c = tl.arange(0, C)
    at = tl.load(index_ptr + i, mask=i < n)
    keep = (i < n)[:, None] & (c < columns)[None, :]
    rows = tl.load(table_ptr + at[:, None] * columns + c[None, :], mask=keep)
    tl.store(y_ptr + i[:, None] * columns + c[None, :], rows, mask=keep)


@triton.jit
def scatter(index_ptr, x_ptr, y_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    at = tl.load(index_ptr + i, mask=i < n, other=0)
    tl.store(y_ptr + at, tl.load(x_ptr + i, mask=i < n), mask=i < n)


@triton.jit
def count_atomically(x_ptr, y_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.atomic_add(y_ptr + x, 1, mask=i < n)


@triton.jit
def histogram(x_ptr, y_ptr, n, B: tl.constexpr, BINS: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(y_ptr + tl.arange(0, BINS), tl.histogram(x, BINS, mask=i < n))


@triton.jit
def extremes(x_ptr, high_ptr, slot_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n, other=-(2**31))
    tl.atomic_max(high_ptr, tl.max(x, 0))
    tl.atomic_cas(slot_ptr, 0, 7)


@triton.jit
def total_in_while(x_ptr, y_ptr, n, B: tl.constexpr):
    acc = tl.zeros([B], tl.float32)
    at = 0
    while at < n:
        i = at + tl.arange(0, B)
        acc += tl.load(x_ptr + i, mask=i < n, other=0.0)
        at += B
    tl.store(y_ptr, tl.sum(acc, 0))


@triton.jit
def unrolled(x_ptr, y_ptr, B: tl.constexpr, STEPS: tl.constexpr):
    acc = tl.zeros([B], tl.float32)
    for step in tl.static_range(STEPS):
        acc += tl.load(x_ptr + step * B + tl.arange(0, B))
    tl.store(y_ptr + tl.arange(0, B), acc)


@triton.jit
def _halves(x):
    return x * 0.5, x * 2.0


@triton.jit
def _sum_of_halves(x):
    low, high = _halves(x)
    return low + high


@triton.jit
def tuples(pair, out, B: tl.constexpr):
    i = tl.arange(0, B)
    low, high = _halves(tl.load(pair[0] + i))
    tl.store(out[0] + i, low + tl.load(pair[1] + i))
    tl.store(out[1] + i, high + _sum_of_halves(low))


@triton.jit
def cube(x_ptr, y_ptr, X, Y, Z):
    at = (tl.program_id(2) * Y + tl.program_id(1)) * X + tl.program_id(0)
    tl.store(y_ptr + at, tl.load(x_ptr + at) * tl.num_programs(2))


@triton.jit
def strided_copy(x_ptr, y_ptr, stride_m, stride_n, M, N, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.arange(0, BN)
    keep = (m < M)[:, None] & (n < N)[None, :]
    x = tl.load(x_ptr + m[:, None] * stride_m + n[None, :] * stride_n, mask=keep, other=0.0)
    tl.store(y_ptr + m[:, None] * N + n[None, :], x, mask=keep)


@triton.jit
def shift_descriptor(desc, y_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    out = tl.make_tensor_descriptor(y_ptr, [M, N], [N, 1], [BM, BN])
    m = tl.program_id(0) * BM
    out.store([m, 0], desc.load([m, 0]) + 1.0)


@triton.jit
def shapes(x_ptr, y_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i)
    square = tl.reshape(x, [4, B // 4])
    low, high = tl.split(tl.reshape(tl.permute(square, [1, 0]), [B // 2, 2]))
    back = tl.interleave(low, high)
    tl.store(y_ptr + i, tl.reshape(tl.trans(tl.reshape(back, [B // 4, 4])), [B]))


@triton.jit
def largest(x_ptr, at_ptr, y_ptr, columns, B: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, B)
    x = tl.load(x_ptr + row * columns + i, mask=i < columns, other=float("-inf"))
    tl.store(at_ptr + row, tl.argmax(x, 0))
    tl.store(y_ptr + row * B + i, tl.sort(x))


@triton.jit
def dropout(x_ptr, y_ptr, n, p, seed, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    keep = tl.rand(seed, i) >= p
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(y_ptr + i, tl.where(keep, x / (1 - p), 0.0), mask=i < n)


@triton.jit
def same_tensor(a_ptr, b_ptr, y_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(a_ptr + i, mask=i < n, other=0.0)
    b = tl.load(b_ptr + (n - 1 - i), mask=i < n, other=0.0)
    tl.store(y_ptr + i, a * b, mask=i < n)


@triton.jit
def wide_pointer(x_ptr, y_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr.to(tl.pointer_type(tl.int32)) + i)
    tl.store(y_ptr.to(tl.pointer_type(tl.int32)) + i, x)


@triton.jit
def column_blocks(x_ptr, y_ptr, rows, columns, B: tl.constexpr):
    c = tl.program_id(0) * B + tl.arange(0, B)
    best = tl.full([B], float("-inf"), tl.float32)
    for r in range(rows):
        best = tl.maximum(best, tl.load(x_ptr + r * columns + c, mask=c < columns, other=0.0))
    if tl.program_id(0) == 0 and rows > 0:
        tl.device_assert(rows > 0, "some rows")
    tl.store(y_ptr + c, best, mask=c < columns)


@triton.autotune([triton.Config({"B": 32}), triton.Config({"B": 64})], key=["n"])
@triton.jit
def tuned(x_ptr, y_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n) + 1, mask=i < n)


@triton.heuristics({"B": lambda args: triton.next_power_of_2(args["n"])})
@triton.jit
def heuristic(x_ptr, y_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n) + 1, mask=i < n)
