"""Shared memory of one program: slots, barriers, copies and products that are under way."""

from typing import Any

import numpy as np

from flashlab.iocount.errors import KernelError, OutOfBounds, RaceError, UninitialisedRead
from flashlab.iocount.gluon.roles import Role, Roles, Steps
from flashlab.iocount.gluon.tile import NUMPY, Tile, rounded
from flashlab.iocount.recorder import Recorder

SHARED_BYTES = 232_448  # of a block on Hopper; here again since a sandbox has no hardware.py


class Slot:
    """Who uses a piece of shared memory right now."""

    def __init__(self) -> None:
        self.filled = False
        self.filling: Copy | None = None
        self.readers: list[Product] = []
        self.leaving: list[Store] = []
        self.unfenced = False


class Buffer:
    """A view of shared memory; views of one slot share its state."""

    def __init__(self, machine: "Machine", data: np.ndarray, dtype: Any, slots: Any = None):
        self.machine, self.data, self.dtype = machine, data, dtype
        self.slots = {} if slots is None else slots
        self.path: tuple[int, ...] = ()

    @property
    def shape(self) -> list[int]:
        return list(self.data.shape)

    @property
    def slot(self) -> Slot:
        return self.slots.setdefault(self.path, Slot())

    def _view(self, data: np.ndarray, path: tuple[int, ...]) -> "Buffer":
        view = Buffer(self.machine, data, self.dtype, self.slots)
        view.path = path
        return view

    def index(self, i: int) -> "Buffer":
        if not 0 <= i < len(self.data):
            what = f"slot {i} of a buffer with {len(self.data)} slots"
            raise self.machine.rec.error(RaceError, what, kind="oob")
        return self._view(self.data[i], (*self.path, int(i)))

    def slice(self, start: int, length: int, dim: int = 0) -> "Buffer":
        part = [slice(None)] * self.data.ndim
        part[dim] = slice(int(start), int(start) + int(length))
        return self._view(self.data[tuple(part)], self.path)

    def meets(self, other: "Buffer") -> bool:
        """Whether the two have an element in common: parts of one slot need not."""
        return np.shares_memory(self.data, other.data)

    def reshape(self, shape: Any) -> "Buffer":
        return self._view(self.data.reshape(shape), self.path)

    def permute(self, order: Any) -> "Buffer":
        return self._view(self.data.transpose(order), self.path)

    def load(self, layout: Any = None) -> Tile:
        self.machine.check_read(self)
        return Tile(self.data.copy(), self.dtype, layout)

    def store(self, value: Tile) -> None:
        self.machine.check_write(self)
        if list(value.shape) != self.shape:
            raise TypeError(f"a tile {value.shape} is stored to shared memory {self.shape}")
        self.data[...] = rounded(value.data, self.dtype)
        self.slot.filled = self.slot.unfenced = True
        self.machine.unfenced.append(self.slot)


class Barrier:
    """An mbarrier: a phase ends when all arrivals and all expected bytes are there."""

    def __init__(self, name: str = "") -> None:
        self.name, self.count, self.phase = name, 0, 0
        self.left, self.bytes = 0, 0

    def init(self, count: int) -> None:
        self.count = self.left = count

    def settle(self) -> None:
        if self.left <= 0 and self.bytes == 0:
            self.phase += 1
            self.left += self.count

    def passed(self, parity: int) -> bool:
        """Whether the phase of this parity is complete."""
        return self.count > 0 and self.phase & 1 != parity & 1


class Barriers:
    """An array of barriers [n, 1]."""

    def __init__(self, n: int) -> None:
        self.all = [Barrier(str(i)) for i in range(n)]

    def index(self, i: int) -> Barrier:
        return self.all[i]


class Copy:
    """A TMA load under way."""

    def __init__(self, values: np.ndarray, buffer: Buffer, barrier: Barrier, nbytes: int) -> None:
        self.values, self.buffer, self.barrier, self.nbytes = values, buffer, barrier, nbytes

    def land(self) -> None:
        self.buffer.data[...] = self.values.reshape(self.buffer.shape)
        self.buffer.slot.filling, self.buffer.slot.filled = None, True
        self.barrier.bytes -= self.nbytes
        self.barrier.settle()


class Store:
    """A TMA store under way: what it reads may not change."""

    def __init__(self, buffer: Buffer, where: tuple[str, int]) -> None:
        self.buffer, self.where = buffer, where


class Product(Tile):
    """What ``warpgroup_mma`` returns: a tile only after ``warpgroup_mma_wait``."""

    def __init__(self, machine: "Machine", a: Any, b: Buffer, acc: Tile, use_acc: bool) -> None:
        self.machine, self.a, self.b, self.acc, self.use_acc = machine, a, b, acc, use_acc
        self.values: np.ndarray | None = None
        self.dtype, self.layout, self.where = acc.dtype, acc.layout, machine.rec.where()
        self.dims = [a.shape[0], b.shape[1]]

    @property
    def shape(self) -> list[int]:
        return self.dims

    @property
    def data(self) -> np.ndarray:
        what = f"the product started on line {self.where[1]} is read before it is done"
        hint = "Use what warpgroup_mma_wait(0, deps=(...)) returns"
        raise self.machine.rec.error(RaceError, what, hint)

    def finish(self) -> None:
        with np.errstate(all="ignore"):
            self.values = self.a.data @ self.b.data
            if self.use_acc:
                acc = self.acc
                self.values += acc.values if isinstance(acc, Product) else acc.data
        for buffer in self.read():
            slot = buffer.slot
            slot.readers = [r for r in slot.readers if r is not self]

    def read(self) -> list[Buffer]:
        return [x for x in (self.a, self.b) if isinstance(x, Buffer)]


class Machine:
    """One program's shared memory and what is under way in it."""

    def __init__(self, rec: Recorder, grid: tuple[int, int, int]) -> None:
        self.rec, self.grid = rec, grid
        self.start((0, 0, 0))

    def start(self, pid: tuple[int, int, int]) -> None:
        """The next program: empty shared memory, nothing under way."""
        self.pid = pid
        self.taken = 0  # bytes
        self.copies: list[Copy] = []
        self.unfenced: list[Slot] = []
        self.stores: list[Store] = []  # under way, of all roles
        self.roles = Roles(self.rec, self._late, sum(pid))

    @property
    def me(self) -> Role:
        return self.roles.now

    def specialize(self, parts: Any) -> None:
        """Run the partitions of a program side by side."""
        numbered = enumerate(parts)
        self.roles.run(
            [Role(f"{f.__name__} {n}", f, tuple(args), {}) for n, (f, args) in numbered]
        )

    def allocate(self, dtype: Any, shape: Any) -> Buffer:
        kind = NUMPY[dtype.name]
        self.taken += int(np.prod(shape)) * dtype.primitive_bitwidth // 8
        if self.taken > SHARED_BYTES:
            what = f"the kernel takes {self.taken >> 10} KB of shared memory or more"
            hint = f"A block on Hopper has {SHARED_BYTES >> 10} KB: use fewer slots"
            raise self.rec.error(KernelError, what, hint, kind="compile")
        empty = np.full(shape, np.nan if kind is np.float32 else 0x7F, kind)
        return Buffer(self, empty, dtype)

    def _late(self) -> bool:
        if self.copies:
            self.copies.pop(0).land()
            return True
        return False

    def race(self, what: str, hint: str) -> RaceError:
        return self.rec.error(RaceError, what, hint)

    def check_read(self, buffer: Buffer) -> None:
        slot = buffer.slot
        if slot.filling is not None:
            hint = "Wait on its barrier for the phase that this copy completes"
            raise self.race("shared memory is read while TMA is still filling it", hint)
        if not slot.filled:
            what, hint = "shared memory is read that nothing has filled", "Wait until it is filled"
            raise self.rec.error(UninitialisedRead, what, hint)

    def check_write(self, buffer: Buffer) -> None:
        slot = buffer.slot
        readers = [r for r in slot.readers if any(map(buffer.meets, r.read()))]
        if readers:
            line = readers[0].where[1]
            hint = "Its slot was given back too early, or nobody waited until it was empty"
            what = f"shared memory is overwritten while the product of line {line} still reads it"
            raise self.race(what, hint)
        if slot.filling is not None:
            hint = "Wait until the slot is empty"
            raise self.race("a slot is written that TMA is still filling", hint)
        if any(buffer.meets(store.buffer) for store in slot.leaving):
            what = "shared memory is overwritten while TMA still stores it"
            raise self.race(what, "tma.store_wait(0) waits for that")

    def load(self, desc: Any, coord: Any, barrier: Barrier, buffer: Buffer, pred: Any) -> None:
        """Start a TMA load."""
        if not pred:
            return
        self.check_write(buffer)
        if buffer.data.size != desc.size:
            raise TypeError(f"TMA brings a block {desc.block_shape} to a buffer {buffer.shape}")
        copy = Copy(desc.read(coord), buffer, barrier, desc.block_type.nbytes)
        buffer.slot.filling = copy
        self.copies.append(copy)

    def store(self, desc: Any, coord: Any, buffer: Buffer, add: bool = False) -> None:
        """Start a TMA store; its bytes leave at once, its buffer stays in use until waited for.

        ``add``: what is there is added to.
        """
        self.check_read(buffer)
        if buffer.slot.unfenced:
            what = "TMA stores shared memory that registers wrote, without a fence between"
            raise self.race(what, "fence_async_shared() belongs between the two")
        if any(at < 0 for at in coord):  # seen on an H200; a load may start there
            what = f"TMA stores a block that starts at {[int(at) for at in coord]}"
            raise self.rec.error(OutOfBounds, what, "On a GPU that is an illegal instruction")
        desc.write(coord, buffer.data, add)
        store = Store(buffer, self.rec.where())
        buffer.slot.leaving.append(store)
        self.me.stores.append(store)
        self.stores.append(store)

    def store_wait(self, pendings: int) -> None:
        """Wait until at most ``pendings`` stores of this role are under way."""
        while len(self.me.stores) > pendings:
            store = self.me.stores.pop(0)
            store.buffer.slot.leaving.remove(store)
            self.stores.remove(store)

    def product(self, a: Any, b: Any, acc: Tile, use_acc: bool, is_async: bool) -> Tile:
        """Start a product; done at once only if it is not asynchronous."""
        if not isinstance(b, Buffer):
            raise TypeError("the second factor of warpgroup_mma must lie in shared memory")
        shapes = a.shape[-1] == b.shape[0] and list(acc.shape) == [a.shape[0], b.shape[1]]
        if not shapes:
            raise TypeError(f"warpgroup_mma of {a.shape} and {b.shape} into {acc.shape}")
        if a.dtype.name != b.dtype.name:
            raise TypeError(f"warpgroup_mma of {a.dtype.name} and {b.dtype.name}: cast one")
        one = Product(self, a, b, acc, use_acc)
        for buffer in one.read():
            self.check_read(buffer)
            if buffer.slot.unfenced:
                hint = "fence_async_shared() belongs between the two"
                raise self.race("a product reads what registers stored, without a fence", hint)
            buffer.slot.readers.append(one)
        self.me.products.append(one)
        return one if is_async else self.product_wait(0, (one,))

    def product_wait(self, left: int, deps: Any) -> Any:
        """Finish all products of this role but the ``left`` newest; the finished deps as tiles."""
        mine = self.me.products
        while len(mine) > left:
            mine.pop(0).finish()
        out = [
            Tile(d.values, d.dtype, d.layout)
            if isinstance(d, Product) and d.values is not None
            else d
            for d in deps
        ]
        return out[0] if len(out) == 1 else tuple(out)

    def fence(self) -> None:
        """What registers stored becomes visible to TMA and products."""
        while self.unfenced:
            self.unfenced.pop().unfenced = False

    def wait(self, barrier: Barrier, parity: int) -> Steps:
        """Let others run until the phase of this parity is complete."""
        if not barrier.passed(parity):
            yield lambda: barrier.passed(parity), f"waits for parity {int(parity) & 1}"

    def arrive(self, barrier: Barrier, count: int, nbytes: int = 0) -> Steps:
        """Arrive; then whoever waited for it goes first."""
        if barrier.left < count:
            what = f"a barrier of {barrier.count} arrivals a phase gets one more"
            raise self.race(what, "Somebody arrives twice, or the barrier's count is too small")
        barrier.left -= count
        barrier.bytes += nbytes
        barrier.settle()
        if not nbytes:
            yield None, ""

    def end(self) -> None:
        """The program ends: nothing may be under way that still needs its shared memory."""
        if self.stores:
            hint = "End with tma.store_wait(0)"
            raise self.race("the program ends while TMA still stores its shared memory", hint)
