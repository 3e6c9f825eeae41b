"""Two roles and two slots: a producer copies boxes, a consumer adds them up. One fault each."""

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from flashlab.worked.flash3_prepare import tma_load, tma_store

ROWS = gl.constexpr(16)
SLOTS = gl.constexpr(2)
LAYOUT = gl.constexpr(gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0]))


@gluon.jit
def barriers(n: gl.constexpr, arrivals: gl.constexpr):
    bars = gl.allocate_shared_memory(gl.int64, [n, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(n):
        mbarrier.init(bars.index(i), count=arrivals)
    return bars


@gluon.jit
def load_all(x_desc, boxes, full, empty, n, FAULT: gl.constexpr):
    for i in range(n):
        slot, phase = i % SLOTS, i // SLOTS & 1
        if FAULT != "empty not awaited":
            mbarrier.wait(empty.index(slot), phase ^ 1)
        bar = full.index(slot if FAULT != "slot not wrapped" else i)
        if FAULT == "expected afterwards":  # right: the phase also waits for the arrival
            tma_load(x_desc, [i * ROWS, 0], bar, boxes.index(slot))
            mbarrier.expect(bar, x_desc.block_type.nbytes)
        elif FAULT == "bytes of one row":
            mbarrier.expect(bar, 128)
            tma_load(x_desc, [i * ROWS, 0], bar, boxes.index(slot))
        else:
            mbarrier.expect(bar, x_desc.block_type.nbytes)
            tma_load(x_desc, [i * ROWS, 0], bar, boxes.index(slot), pred=i >= 0)


@gluon.jit
def add_all(y_desc, boxes, full, empty, n, FAULT: gl.constexpr):
    total = gl.zeros([ROWS, 64], gl.float32, LAYOUT)
    for i in range(n):
        slot, phase = i % SLOTS, i // SLOTS & 1
        if FAULT == "next slot awaited":
            mbarrier.wait(full.index((i + 1) % SLOTS), (i + 1) // SLOTS & 1, pred=i + 1 < n)
        else:
            mbarrier.wait(full.index(slot), phase, pred=FAULT != "full not awaited")
        if FAULT == "given back before it is read":
            mbarrier.arrive(empty.index(slot))
        total += boxes.index(slot).load(LAYOUT).to(gl.float32)
        if FAULT == "given back twice":
            mbarrier.arrive(empty.index(slot), count=1)
        if FAULT != "given back before it is read":
            mbarrier.arrive(empty.index(slot), count=1)
    out = gl.allocate_shared_memory(y_desc.dtype, [ROWS, 64], y_desc.layout)
    out.store(total.to(y_desc.dtype))
    if FAULT != "no fence":
        fence_async_shared()
    tma_store(y_desc, [0, 0], out)
    if FAULT == "stored over what leaves":
        out.store(total.to(y_desc.dtype))
    tma.store_wait(0)


@gluon.jit
def sum_kernel(x_desc, y_desc, n, FAULT: gl.constexpr):
    boxes = gl.allocate_shared_memory(x_desc.dtype, [SLOTS, ROWS, 64], x_desc.layout)
    full = barriers(SLOTS, 2 if FAULT == "an arrival too many awaited" else 1)
    empty = barriers(SLOTS, 1)
    gl.warp_specialize(
        [
            (add_all, (y_desc, boxes, full, empty, n, FAULT)),
            (load_all, (x_desc, boxes, full, empty, n, FAULT)),
        ],
        worker_num_warps=[1],
        worker_num_regs=[24],
    )


def sum_of_boxes(x: torch.Tensor, fault: str = "") -> torch.Tensor:
    """The sum of x's boxes of 16 rows, [16, 64]."""
    y = torch.empty(ROWS.value, 64, dtype=x.dtype)
    layout = gl.NVMMASharedLayout.get_default_for([ROWS.value, 64], gl.float16)
    x_desc, y_desc = (TensorDescriptor.from_tensor(t, [ROWS.value, 64], layout) for t in (x, y))
    sum_kernel[(1,)](x_desc, y_desc, len(x) // ROWS.value, fault)
    return y


@gluon.jit
def told_kernel(y_ptr, AWAITED: gl.constexpr):
    number = gl.allocate_shared_memory(gl.int32, [1], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    told = mbarrier.allocate_mbarrier() if AWAITED == "once more" else barriers(1, 1).index(0)
    if AWAITED == "once more":
        mbarrier.init(told, count=1)
    gl.warp_specialize([(listen, (y_ptr, number, told, AWAITED)), (tell, (number, told))], [1])


@gluon.jit
def tell(number, told):
    number.store(gl.full([1], 7, gl.int32, gl.BlockedLayout([1], [32], [1], [0])))
    mbarrier.arrive(told, count=1)


@gluon.jit
def listen(y_ptr, number, told, AWAITED: gl.constexpr):
    if AWAITED != "never":
        mbarrier.wait(told, 0)
    seen = number.load(gl.BlockedLayout([1], [32], [4], [0]))
    gl.store(y_ptr + gl.arange(0, 1, gl.BlockedLayout([1], [32], [4], [0])), seen // 2 + seen % 2)


@gluon.jit
def strange_kernel(y_ptr, WHAT: gl.constexpr):
    tile = gl.arange(0, 32, gl.BlockedLayout([1], [32], [4], [0]))
    box = gl.allocate_shared_memory(gl.int32, [32], gl.SwizzledSharedLayout(1, 1, 1, [0]), tile)
    if WHAT == "a tile's":
        tile = tile.cumsum(0)
    if WHAT == "a buffer's":
        box._keep_alive()
    if WHAT == "a module's":
        tma.make_tensor_descriptor(y_ptr, [1], [1], [1], None)
    if WHAT == "nobody's":
        tile = box.mistyped(tile)
    gl.store(y_ptr + tile, box.load(gl.BlockedLayout([1], [32], [4], [0])))
