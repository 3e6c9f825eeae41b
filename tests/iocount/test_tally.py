"""The numbers' finer views, options of the recording, and the report in words."""

import json

import pytest
import torch
import triton
import triton.language as tl

from flashlab.iocount import active, count_io, expect_output
from tests.iocount import correct, faults, kernels

H, N, D = 2, 48, 16


@triton.jit
def two_loops(x_ptr, y_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    acc = tl.load(x_ptr + i)
    for row in range(1, n):
        for part in range(2):
            half = part * (B // 2) + tl.arange(0, B // 2)
            tl.store(y_ptr + row * B + half, tl.load(x_ptr + row * B + half))
        acc += tl.load(x_ptr + row * B + i)
    tl.store(y_ptr + i, acc)


@triton.jit
def spread(x_ptr, y_ptr, stride, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y_ptr + i, tl.load(x_ptr + i * stride))


def qkv() -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(H, N, D).half() for _ in range(3)]


def test_a_step_is_one_pass_of_a_loop():
    x, y = torch.randn(3, 16), torch.empty(3, 16)
    with count_io() as tally:
        two_loops[(1,)](x, y, 3, 16)
    steps = [(step.loops, step.load, step.store) for step in tally.per_step]
    outer = two_loops.fn.__code__.co_firstlineno + 4
    inner = outer + 1
    half, row = {"x_ptr": 32}, {"x_ptr": 64}
    assert steps == [
        ((), row, {"y_ptr": 64}),
        (((outer, 0),), row, {}),
        (((outer, 0), (inner, 0)), half, {"y_ptr": 32}),
        (((outer, 0), (inner, 1)), half, {"y_ptr": 32}),
        (((outer, 1),), row, {}),
        (((outer, 1), (inner, 0)), half, {"y_ptr": 32}),
        (((outer, 1), (inner, 1)), half, {"y_ptr": 32}),
    ]
    assert all(step.program == (0, 0, 0) and step.launch == 0 for step in tally.per_step)


def test_views_add_up():
    with count_io() as tally:
        kernels.flash(*qkv(), 16, 32)
    total = tally.load_bytes()
    assert total == sum(sum(step.load.values()) for step in tally.per_step)
    assert total == sum(sum(row["load"].values()) for row in tally.per_program.values())
    assert total == sum(sum(row["load"].values()) for row in tally.per_line.values())
    assert len(tally.per_program) == 6
    assert tally.per_program[0, 0, 0]["load"]["k_ptr"] == 2 * N * D
    loads = [row["source"] for row in tally.per_line.values() if row["load"]]
    assert len(loads) == 3 and all("tl.load" in source for source in loads)
    flops = [sum(step.flops[kind] for step in tally.per_step) for kind in tally.flops]
    assert flops == list(tally.flops.values())
    assert tally.bytes == total + tally.store_bytes()
    assert tally.intensity == sum(tally.flops.values()) / tally.bytes


def test_bytes_by_tensor_and_scratch():
    q, k, v = (t[:, :1] if i == 0 else t for i, t in enumerate(qkv()))
    q = q.contiguous()
    with count_io() as tally:
        o = kernels.split_kv(q, k, v, 2, 16)
    got = tally.by_tensor({"q": q, "k": k, "v": v, "o": o})
    every = 2 * H * N * D
    scratch = 4 * H * 2 * (D + 1)
    assert got == {
        "q": (2 * H * 2 * D, 0),
        "k": (every, 0),
        "v": (every, 0),
        "o": (0, 2 * H * D),
        "scratch": (scratch, scratch),
    }


def test_bytes_by_tensor_tell_views_of_one_storage_apart():
    packed, y = torch.randn(3, 20), torch.empty(20)
    with count_io() as tally:
        correct.scale[(2,)](packed[1], y, 20, 1.0, 16)
        correct.scale[(2,)](packed[2], y, 20, 1.0, 16)
        correct.scale[(1,)](packed[2], y, 20, 1.0, 16)
    views = {"a": packed[0], "b": packed[1], "c": packed[2]}
    assert tally.by_tensor(views) == {
        "a": (0, 0),
        "b": (80, 0),
        "c": (144, 0),
        "scratch": (0, 224),
    }


def test_memory_used_again_is_another_tensor():
    with count_io() as tally:
        for _ in range(20):
            y = torch.empty(1000)
            expect_output(y)
            correct.scale[(1,)](torch.ones(1000), y, 1000, 1.0, 1024)
            del y
    assert tally.unwritten == {} and tally.unique_bytes["y_ptr"]["store"] == 20 * 4000


def test_an_output_stays_written_in_later_launches():
    y = torch.empty(16)
    with count_io() as tally:
        for _ in range(2):
            expect_output(y, "y")
            correct.scale[(1,)](torch.ones(16), y, 16, 1.0, 16)
        correct.in_place[(1,)](y, 16, 16)
    assert tally.unwritten == {}


def test_gaps_are_found_by_memory():
    y, z = torch.empty(4, 16), torch.empty(16)
    with count_io() as tally:
        expect_output(y)
        correct.scale[(1,)](torch.ones(20), y, 20, 1.0, 32)
    assert tally.gap(y) == (44, [1, 4]) and tally.gap(y[2:]) == (32, [0, 0])
    assert tally.gap(y[0]) == (0, None) and tally.gap(y[:0]) == (0, None)
    assert tally.gap(z) is None


def test_nested_recordings_are_one():
    with count_io() as outer:
        with count_io(strict=False) as inner:
            kernels.flash(*qkv(), 16, 16)
        assert inner is outer is active()
        kernels.flash(*qkv(), 16, 16)
    assert len(outer.launches) == 2
    with count_io() as other:
        pass
    assert other is not outer


def test_on_launch_sees_every_argument():
    seen = []
    with count_io(on_launch=lambda *call: seen.append(call)):
        kernels.flash(*qkv(), 16, 32)
        correct.scale[lambda meta: (meta["n"] // meta["B"],)](
            torch.ones(32), torch.ones(32), n=32, a=1.0, B=16, num_warps=8
        )
    (fn, grid, bound, options), second = seen
    assert fn is kernels.flash_kernel and grid == (3, H, 1) and options == {}
    assert bound["BLOCK_M"] == 16 and bound["N_q"] == N and bound["q_ptr"].shape == (H, N, D)
    assert second[1] == (2, 1, 1) and second[3] == {"num_warps": 8}


def test_orders():
    x, y = torch.ones(64), torch.empty(64)
    orders = {}
    for order in ("forward", "reversed", 1, 2):
        with count_io(order=order) as tally:
            correct.scale[(4,)](x, y, 64, 1.0, 16)
        orders[order] = list(tally.per_program)
    assert orders["forward"] == [(i, 0, 0) for i in range(4)] == orders["reversed"][::-1]
    assert orders[1] != orders[2] and sorted(orders[1]) == orders["forward"]
    with pytest.raises(ValueError, match="order must be 'forward'"), count_io(order="backwards"):
        pass


@pytest.mark.parametrize("sparse", [True, False])
def test_sparse_shadows_count_the_same(sparse):
    with count_io(outputs=["o_ptr"], sparse=sparse) as tally:
        kernels.flash(*qkv(), 16, 16)
    assert tally.unique_bytes["k_ptr"]["load"] == 2 * H * N * D
    assert (tally.heat("v_ptr") == 3).all() and tally.unwritten == {}


def test_heat_of_a_strided_view():
    x, y = torch.ones(40, 4)[::2], torch.empty(4)
    with count_io() as tally:
        spread[(1,)](x, y, x.stride(0), 4)
        spread[(1,)](x, y, x.stride(0), 2)
    heat = tally.heat("x_ptr")
    assert heat.shape == (20, 4) and heat[:, 0].tolist() == [2, 2, 1, 1] + [0] * 16
    assert heat[:, 1:].sum() == 0 and tally.unique_bytes["x_ptr"]["load"] == 16
    with pytest.raises(KeyError, match="recorded: x_ptr, y_ptr"):
        tally.heat("z_ptr")


def test_sectors():
    x, y = torch.ones(1024), torch.empty(16)
    with count_io(sectors=True) as tally:
        spread[(1,)](x, y, 64, 16)
    assert tally.sector_bytes("x_ptr") == 16 * 32 and tally.load_bytes("x_ptr") == 64
    assert tally.sector_bytes("y_ptr") == 64


def test_peak_is_of_program_zero_in_any_order():
    peaks = set()
    for order in ("forward", "reversed", 3):
        with count_io(order=order) as tally:
            kernels.flash(*qkv(), 16, 16)
        peaks.add(tally.peak_tile_bytes)
    assert len(peaks) == 1


def test_the_report_is_one_screen():
    q, k, v = qkv()
    with count_io(sram_bytes=4096, outputs=["o_ptr"]) as tally:
        o, lse = kernels.flash(q, k, v, 16, 32)
    once, every = 2 * H * N * D, 2 * H * 3 * N * D
    bound = {"q": (once, 0), "k": (every, 0), "v": (1, 0), "o": (0, once)}
    text = tally.report(bound)
    assert len(text.splitlines()) < 16 and max(map(len, text.splitlines())) < 100
    rows = {line.split()[0]: line for line in text.splitlines()}
    assert f"{every:,d}" in rows["k_ptr"] and "3.00x" in rows["k_ptr"]
    assert rows["k_ptr"].endswith("=") and rows["v_ptr"].endswith("!")
    assert "of 4,096 of SRAM: does not fit" in text and "FLOPs per byte" in text
    named = tally.report(tensors={"q": q, "k": k, "v": v, "o": o, "lse": lse}, bound=bound)
    assert "k_ptr" not in named and "scratch" not in named
    rows = {line.split()[0]: line for line in named.splitlines()}
    assert "3.00x" in rows["k"] and rows["q"].endswith("=")


def test_the_table_of_a_notebook():
    with count_io() as tally:
        kernels.flash(*qkv(), 16, 32)
    html = tally._repr_html_()
    assert html.count("<table") == 1 and html.count("<tr") == 6
    for word in ("http", "<script", "color:#", "background:#"):
        assert word not in html
    with count_io(strict=False) as tally:
        faults.write_write[(2,)](torch.ones(100), torch.ones(100), 100, 128)
    assert "fixed order" in tally._repr_html_()


def test_a_notebook_shows_the_report_as_a_table_beside_the_closed_form():
    with count_io() as tally:
        kernels.flash(*qkv(), 16, 32)
    report = tally.report({"q": (2 * H * N * D, 0), "v": (1, 0)})
    assert isinstance(report, str) and repr(report) == str(report)
    html = report._repr_html_()
    assert "closed form: loaded" in html and "✓" in html and "≠" in html


def test_a_wrong_output_name_is_told():
    with pytest.raises(ValueError, match="outputs names 'o', but the kernels' tensors are k_ptr"):
        with count_io(outputs=["o"]):
            kernels.flash(*qkv(), 16, 16)


def test_nothing_recorded_is_said():
    with count_io() as tally:
        pass
    assert "no launch was recorded" in tally.report() and tally.bytes == 0


def test_json():
    with count_io(strict=False, outputs=["y_ptr"]) as tally:
        faults.write_write[(2,)](torch.ones(100), torch.ones(128), 100, 128)
    data = json.loads(json.dumps(tally.to_json()))
    assert data["traffic"]["y_ptr"]["store"] == 800 and data["unwritten"] == {"y_ptr": 28}
    assert data["traffic"]["y_ptr"]["asked_store"] == 1024
    assert data["findings"][0]["kind"] == "race" and data["launches"][0]["grid"] == [2, 1, 1]
