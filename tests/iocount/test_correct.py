"""Correct kernels give right results and no report, whatever the order of their programs."""

import pytest
import torch
from triton.tools.tensor_descriptor import TensorDescriptor

from flashlab.iocount import count_io, redzone
from tests.iocount import correct as c
from tests.iocount import styles

N = 50
CASES = {}


def case(run):
    """A function -> [(got, wanted), ...] that launches kernels."""
    CASES[run.__name__] = run
    return run


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape).to(dtype)


def fresh(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    from flashlab.iocount import expect_output

    y = torch.empty(*shape, dtype=dtype)
    expect_output(y)
    return y


@case
def scaling():
    x, y = redzone(normal(N)), fresh(N)
    c.scale[(4,)](x, y, N, 3.0, 16)
    return [(y, 3 * x)]


@case
def single_loads():
    x, at, y = redzone(normal(4)), redzone(torch.tensor([3, 2, 1, 0])), fresh(6)
    c.single_loads[(6,)](x, at, y, 4)
    return [(y, torch.cat([x + x.flip(0), x[:1], x[:1]]))]


@case
def scaling_half():
    x, y = normal(N, dtype=torch.float16), fresh(N, dtype=torch.float16)
    c.scale[lambda meta: (-(-meta["n"] // meta["B"]),)](x, y, N, 3.0, B=16, num_warps=2)
    return [(y, 3 * x)]


@case
def nothing_to_do():
    c.scale[(0,)](torch.empty(0), torch.empty(0), 0, 3.0, 16)
    c.scale[(1,)](torch.empty(0), torch.empty(0), 0, 3.0, 16)
    return []


@case
def changing_in_place():
    x = normal(N)
    want = x + 2
    c.in_place[(4,)](x, N, 16)
    c.in_place[(4,)](x, N, 16)
    return [(x, want)]


@case
def optional_arguments():
    x, bias, y, z = normal(N), normal(N), fresh(N), fresh(N)
    c.optional[(4,)](x, None, y, N, False, 16)
    c.optional[(4,)](x, bias, z, N, True, 16)
    return [(y, x), (z, (x + bias) * 2)]


@case
def softmax_of_rows():
    x, y = redzone(normal(7, 20)), fresh(7, 20)
    c.row_softmax[(7,)](x, y, *x.stride(), 20, 32)
    return [(y, x.softmax(1))]


@case
def softmax_of_columns():
    x, y = normal(20, 7).T, fresh(7, 20)
    c.row_softmax[(7,)](x, y, *x.stride(), 20, 32)
    return [(y, x.softmax(1))]


@case
def cleaning_with_where():
    x, y = redzone(normal(N)), fresh(1)
    c.where_cleans[(1,)](x, y, N, 64)
    return [(y, x.sum().view(1))]


@case
def cleaning_with_and():
    x, y = normal(N), fresh(N)
    c.and_cleans[(1,)](x, y, N, 64)
    return [(y, (x > 0).float())]


@case
def cumulative_sum():
    x, y = normal(N), fresh(N)
    c.running_sum[(1,)](x, y, N, 64)
    return [(y, x.cumsum(0))]


@case
def scan_of_ones_own():
    x, y = normal(16), fresh(16)
    c.running_least[(1,)](x, y, 16)
    return [(y, x.cummin(0).values)]


@case
def normalising_rows():
    x, w, y = normal(5, 20), normal(20), fresh(5, 20)
    c.layer_norm[(5,)](x, w, y, 20, 1e-5, 32)
    return [(y, torch.nn.functional.layer_norm(x, [20], w))]


@case
def transposing():
    x, y = normal(20, 30), fresh(30, 20)
    c.transpose[(2, 2)](x, y, 20, 30, 16)
    return [(y, x.T)]


@case
def products():
    a, b, y = normal(20, 30), normal(30, 40), fresh(20, 40)
    c.matmul[(3, 2)](a, b, y, 20, 40, 30, *b.stride(), 16)
    return [(y, a @ b)]


@case
def products_of_a_transposed_view():
    a, b = normal(20, 30, dtype=torch.bfloat16), normal(40, 30, dtype=torch.bfloat16).T
    y = fresh(20, 40, dtype=torch.bfloat16)
    c.matmul[(3, 2)](a, b, y, 20, 40, 30, *b.stride(), 16)
    return [(y, (a.float() @ b.float()).bfloat16())]


@case
def rows_of_a_table():
    table, index, y = normal(9, 20), torch.randint(0, 9, (N,)), fresh(N, 20)
    c.gather_rows[(4,)](table, index, y, N, 20, 16, 32)
    return [(y, table[index])]


@case
def scattering():
    index, x, y = torch.randperm(N).int(), normal(N), fresh(N)
    c.scatter[(4,)](index, x, y, N, 16)
    return [(y, torch.empty(N).index_copy(0, index.long(), x))]


@case
def counting_with_atomics():
    x, y = torch.randint(0, 8, (N,), dtype=torch.int32), torch.zeros(8, dtype=torch.int32)
    c.count_atomically[(4,)](x, y, N, 16)
    return [(y, x.bincount(minlength=8).int())]


@case
def counting_in_a_tile():
    x, y = torch.randint(0, 8, (N,), dtype=torch.int32), fresh(8, dtype=torch.int32)
    c.histogram[(1,)](x, y, N, 64, 8)
    return [(y, x.bincount(minlength=8).int())]


@case
def atomic_extremes():
    x = torch.randint(-99, 99, (N,), dtype=torch.int32)
    high, slot = torch.full((1,), -(2**31)).int(), torch.zeros(1, dtype=torch.int32)
    c.extremes[(4,)](x, high, slot, N, 16)
    return [(high, x.max().view(1)), (slot, torch.tensor([7]).int())]


@case
def while_loop():
    x, y = normal(N), fresh(1)
    c.total_in_while[(1,)](x, y, N, 16)
    return [(y, x.sum().view(1))]


@case
def static_range():
    x, y = normal(64), fresh(16)
    c.unrolled[(1,)](x, y, 16, 4)
    return [(y, x.view(4, 16).sum(0))]


@case
def tuple_arguments():
    a, b, y, z = normal(16), normal(16), fresh(16), fresh(16)
    c.tuples[(1,)]((a, b), (y, z), 16)
    return [(y, a / 2 + b), (z, 2 * a + 1.25 * a)]


@case
def grid_of_three_dimensions():
    x, y = normal(4, 3, 2), fresh(4, 3, 2)
    c.cube[(2, 3, 4)](x, y, 2, 3, 4)
    return [(y, 4 * x)]


@case
def every_other_column():
    x, y = normal(20, 60)[:, ::2], fresh(20, 30)
    c.strided_copy[(2,)](x, y, *x.stride(), 20, 30, 16, 32)
    return [(y, x)]


@case
def expanded_rows():
    x, y = normal(30).expand(20, 30), fresh(20, 30)
    c.strided_copy[(2,)](x, y, *x.stride(), 20, 30, 16, 32)
    return [(y, x)]


@case
def packed_views():
    packed, y = normal(20, 3, 30), fresh(3, 20, 30)
    for i in range(3):
        x = packed[:, i]
        c.strided_copy[(2,)](x, y[i], *x.stride(), 20, 30, 16, 32)
    return [(y, packed.transpose(0, 1))]


@case
def tensor_descriptors():
    x, y = normal(20, 32), fresh(20, 32)
    c.shift_descriptor[(2,)](TensorDescriptor.from_tensor(x, [16, 32]), y, 20, 32, 16, 32)
    return [(y, x + 1)]


@case
def reshaping():
    x, y = normal(32), fresh(32)
    c.shapes[(1,)](x, y, 32)
    return [(y, x)]


@case
def arguments_of_the_maximum():
    x, at, y = normal(5, 16), fresh(5, dtype=torch.int32), fresh(5, 16)
    c.largest[(5,)](x, at, y, 16, 16)
    return [(at, x.argmax(1).int()), (y, x.sort(1).values)]


@case
def random_numbers():
    x, y = torch.ones(N), fresh(N)
    c.dropout[(4,)](x, y, N, 0.5, 7, 16)
    assert 5 < int((y == 0).sum()) < 45
    return [(y, torch.where(y == 0, 0.0, 2 * x))]


@case
def one_tensor_as_two_arguments():
    x, y = normal(N), fresh(N)
    c.same_tensor[(1,)](x, x, y, N, 64)
    return [(y, x * x.flip(0))]


@case
def wider_elements():
    x, y = normal(32, dtype=torch.float16), fresh(32, dtype=torch.float16)
    c.wide_pointer[(1,)](x, y, 16)
    return [(y, x)]


@case
def blocks_of_columns():
    x, y = normal(5, N), fresh(N)
    c.column_blocks[(4,)](x, y, 5, N, 16)
    return [(y, x.amax(0))]


@case
def autotuned():
    x, y = normal(N), fresh(N)
    c.tuned[lambda meta: (-(-N // meta["B"]),)](x, y, N)
    return [(y, x + 1)]


@case
def with_a_heuristic():
    x, y = normal(N), fresh(N)
    c.heuristic[(1,)](x, y, N)
    return [(y, x + 1)]


@pytest.mark.parametrize("order", ["forward", "reversed", 5])
@pytest.mark.parametrize("name", CASES)
def test_no_false_report(name, order):
    torch.manual_seed(0)
    with count_io(order=order) as tally:
        results = CASES[name]()
    for got, want in results:
        torch.testing.assert_close(got, want)
    assert tally.findings == [] and tally.unwritten == {}


@pytest.mark.parametrize("order", ["forward", "reversed"])
@pytest.mark.parametrize("n,bm,bn", [(64, 32, 16), (45, 16, 32)])
@pytest.mark.parametrize("style", styles.STYLES, ids=lambda style: style.__name__)
def test_flash_in_eight_styles(style, n, bm, bn, order):
    torch.manual_seed(0)
    q, k, v = (torch.randn(n, 32).half() for _ in range(3))
    want = ((q.double() @ k.double().T) * 32**-0.5).softmax(-1) @ v.double()
    with count_io(outputs=["o"], order=order) as tally:
        o = styles.run(style, q, k, v, bm, bn)
    torch.testing.assert_close(o.double(), want, atol=3e-3, rtol=0)
    assert tally.unwritten == {}
