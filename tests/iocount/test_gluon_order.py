"""What two roles know of each other: a race is seen whatever the order in which they ran."""

import pytest
import torch

from flashlab.iocount import KernelError, OutOfBounds, RaceError, count_io
from flashlab.iocount.gluon.order import Access, Clock, Slot
from tests.iocount import gluon_roles as roles

RIGHT = ("", "expected afterwards")
TWICE = "an arrival of 1 at a barrier whose phase awaits 0 more of 1"
FAULTS = {
    "empty not awaited": (RaceError, TWICE),
    "full not awaited": (KernelError, r"boxes\[0\] is read, which nothing has filled"),
    "next slot awaited": (RaceError, r"boxes\[0\] is read while TMA may still be filling it"),
    "given back before it is read": (RaceError, "boxes"),
    "given back twice": (RaceError, f"{TWICE}|boxes"),
    "slot not wrapped": (OutOfBounds, "slot 2 of 2 slots"),
    "no fence": (RaceError, "TMA stores out, which registers wrote, without a fence"),
    "stored over what leaves": (RaceError, "out is overwritten while TMA may still be storing"),
    "bytes of one row": (KernelError, "1920 bytes copied that nobody expects"),
    "an arrival too many awaited": (KernelError, "a barrier with 1 of 2 arrivals on line"),
}


@pytest.mark.core
@pytest.mark.parametrize("fault", RIGHT)
def test_boxes_are_added_up(fault):
    x = torch.randn(7 * 16, 64).half()
    with count_io():
        y = roles.sum_of_boxes(x, fault)
    assert torch.equal(y, x.view(7, 16, 64).float().sum(0).half())


@pytest.mark.core
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_between_roles_is_named(fault):
    error, said = FAULTS[fault]
    with count_io(), pytest.raises(error, match=said):
        roles.sum_of_boxes(torch.randn(7 * 16, 64).half(), fault)


@pytest.mark.parametrize("awaited", ["once", "once more"])
def test_what_registers_store_is_there_after_a_barrier(awaited):
    y = torch.zeros(1, dtype=torch.int32)
    with count_io():
        roles.told_kernel[(1,)](y, awaited)
    assert y.item() == 7 // 2 + 1


def test_what_registers_store_may_not_be_there_without_one():
    said = "number is read, which nothing|number is read while tell 1 may still be storing to it"
    with count_io(), pytest.raises(KernelError, match=said):
        roles.told_kernel[(1,)](torch.zeros(1, dtype=torch.int32), "never")


@pytest.mark.parametrize("what", ["a tile's", "a buffer's", "a module's"])
def test_a_name_of_gluon_that_the_model_lacks_is_not_called_a_fault(what):
    with count_io(), pytest.raises(KernelError, match="is not known here") as error:
        roles.strange_kernel[(1,)](torch.zeros(32, dtype=torch.int32), what)
    assert error.value.kind == "unknown"


def test_a_name_that_nobody_knows_is_a_fault():
    with count_io(), pytest.raises(KernelError, match="mistyped") as error:
        roles.strange_kernel[(1,)](torch.zeros(32, dtype=torch.int32), "nobody's")
    assert error.value.kind != "unknown"


def test_a_buffer_may_be_allocated_with_its_values():
    y = torch.zeros(32, dtype=torch.int32)
    with count_io():
        roles.strange_kernel[(1,)](y, "")
    assert torch.equal(y, torch.arange(32, dtype=torch.int32))


def test_a_part_that_is_written_leaves_the_rest_of_a_slot():
    slot, (a, b), data = Slot(), ("a", "b"), torch.zeros(8).numpy()
    slot.written(Access(a, 1, data, "copy", ("?", 1)))
    slot.written(Access(b, 1, data[:4], "store", ("?", 2)))
    clock = Clock()
    clock.times[b] = 1
    assert slot.unknown_write(data[:4], clock).actor == a  # it wrote the rest of these rows too
    clock.times[a] = 1
    assert slot.unknown_write(data, clock) is None and len(slot.writes) == 2
    slot.written(Access(b, 2, data, "store", ("?", 3)))
    assert [w.time for w in slot.writes] == [2]
