"""Shared memory of one program: slots, and the copies and products that are under way."""

import re
from typing import Any

import numpy as np
import triton.experimental.gluon.language as gl

from flashlab.iocount.errors import KernelError, OutOfBounds, RaceError, UninitialisedRead
from flashlab.iocount.gluon.barrier import Barrier, Barriers
from flashlab.iocount.gluon.order import Access, Slot
from flashlab.iocount.gluon.roles import Role, Roles, Steps
from flashlab.iocount.gluon.tile import NUMPY, Tile, Unknown, rounded, strange
from flashlab.iocount.recorder import Recorder

NAMED = re.compile(r"\s*(\w+)\s*=[^=]")  # a line that gives what it makes a name
SHARED_BYTES = 232_448  # of a block on Hopper; here again since a sandbox has no hardware.py


class Buffer:
    """A view of shared memory, named as in the kernel: ``k_bufs[1]``; all views share a slot."""

    def __init__(
        self, machine: "Machine", data: np.ndarray, dtype: Any, title: str, slot: Slot
    ) -> None:
        self.machine, self.data, self.dtype, self.title = machine, data, dtype, title
        self.slot = slot

    def __str__(self) -> str:
        return self.title

    def __getattr__(self, name: str) -> Any:
        raise strange(gl.shared_memory_descriptor, name)

    @property
    def shape(self) -> list[int]:
        return list(self.data.shape)

    def _view(self, data: np.ndarray, title: str = "") -> "Buffer":
        return Buffer(self.machine, data, self.dtype, title or self.title, self.slot)

    def index(self, i: int) -> "Buffer":
        if not 0 <= i < len(self.data):
            raise self.machine.no_slot(i, len(self.data))
        return self._view(self.data[i], f"{self.title}[{i}]")

    def slice(self, start: int, length: int, dim: int = 0) -> "Buffer":
        part = [slice(None)] * self.data.ndim
        part[dim] = slice(int(start), int(start) + int(length))
        return self._view(self.data[tuple(part)])

    def reshape(self, shape: Any) -> "Buffer":
        data = self.data.view()
        try:
            data.shape = shape
        except AttributeError:  # numpy would copy
            raise Unknown("reshape of a permuted buffer is not known here") from None
        return self._view(data)

    def permute(self, order: Any) -> "Buffer":
        return self._view(self.data.transpose(order))

    def load(self, layout: Any = None) -> Tile:
        self.machine.read(self, self.machine.me, "load")
        return Tile(self.data.copy(), self.dtype, layout)

    def store(self, value: Tile) -> None:
        if list(value.shape) != self.shape:
            raise TypeError(f"a tile {value.shape} is stored to shared memory {self.shape}")
        self.machine.write(self, self.machine.me, "store")
        self.data[...] = rounded(value.data, self.dtype)


class Copy:
    """A TMA load under way."""

    def __init__(self, values: np.ndarray, buffer: Buffer, barrier: Barrier, nbytes: int) -> None:
        self.values, self.buffer, self.barrier, self.nbytes = values, buffer, barrier, nbytes

    def land(self) -> None:
        self.buffer.data[...] = self.values.reshape(self.buffer.shape)
        self.barrier.bytes -= self.nbytes
        self.barrier.coming.times[self] = 1
        self.barrier.settle()


class Store:
    """A TMA store under way: what it reads may not change."""


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
        what = f"the product with {self.b} of line {self.where[1]} is read before it is done"
        hint = "Use what warpgroup_mma_wait(0, deps=(...)) returns"
        raise self.machine.rec.error(RaceError, what, hint)

    def finish(self) -> None:
        with np.errstate(all="ignore"):
            self.values = self.a.data @ self.b.data
            if self.use_acc:
                acc = self.acc
                self.values += acc.values if isinstance(acc, Product) else acc.data

    def read(self) -> list[Buffer]:
        return [x for x in (self.a, self.b) if isinstance(x, Buffer)]


class Machine:
    """One program's shared memory and what is under way in it."""

    def __init__(self, rec: Recorder, grid: tuple[int, int, int], habit: int = 0) -> None:
        self.rec, self.grid, self.habit = rec, grid, habit
        self.start((0, 0, 0))

    def start(self, pid: tuple[int, int, int]) -> None:
        """The next program: empty shared memory, nothing under way."""
        self.pid = pid
        self.taken = 0  # bytes
        self.copies: list[Copy] = []
        self.unfenced: list[Access] = []
        self.stores: list[Store] = []  # under way, of all roles
        self.roles = Roles(self.rec, self._late, sum(pid) + self.habit)

    @property
    def me(self) -> Role:
        return self.roles.now

    def specialize(self, parts: Any) -> Any:
        """Run the partitions of a program side by side; what the first one returns."""
        outer = self.me
        roles = [Role(f"{f.__name__} {n}", f, tuple(a), {}) for n, (f, a) in enumerate(parts)]
        for role in roles:
            role.clock.join(outer.clock)
        outer.clock.tick(outer)
        self.roles.run(roles)
        for role in roles:
            outer.clock.join(role.clock)
        return roles[0].result

    def allocate(self, dtype: Any, shape: Any) -> Buffer:
        kind = NUMPY[dtype.name]
        self.taken += int(np.prod(shape)) * dtype.primitive_bitwidth // 8
        if self.taken > SHARED_BYTES:
            what = f"the kernel takes {self.taken >> 10} KB of shared memory or more"
            hint = f"A block on Hopper has {SHARED_BYTES >> 10} KB: use fewer slots"
            raise self.rec.error(KernelError, what, hint, kind="compile")
        empty = np.full(shape, np.nan if kind is np.float32 else 0x7F, kind)
        line = self.rec.tally.sources.get(self.rec.where(), "")
        named = NAMED.match(line)
        return Buffer(self, empty, dtype, named[1] if named else "shared memory", Slot())

    def barriers(self, shape: Any) -> Any:
        """Barriers [n, 1], or the one of [1]."""
        many = Barriers(self, int(shape[0]))
        return many if len(shape) > 1 else many.index(0)

    def _late(self) -> bool:
        if self.copies:
            self.copies.pop(0).land()
            return True
        return False

    def race(self, what: str, hint: str) -> RaceError:
        return self.rec.error(RaceError, what, hint)

    def no_slot(self, i: int, n: int) -> OutOfBounds:
        hint = "A ring's slots are counted from 0: take the remainder"
        return self.rec.error(OutOfBounds, f"slot {i} of {n} slots", hint)

    def _access(self, actor: Any, buffer: Buffer, how: str) -> Access:
        time = self.me.clock.times[actor] if actor is self.me else 1
        return Access(actor, time, buffer.data, how, self.rec.where())

    def read(self, buffer: Buffer, actor: Any, how: str) -> None:
        """Note that an actor reads shared memory from now on; what it reads has to be there."""
        slot, clock = buffer.slot, self.me.clock
        if not any(w.meets(buffer.data) for w in slot.writes):
            what, hint = f"{buffer} is read, which nothing has filled", "Wait until it is filled"
            raise self.rec.error(UninitialisedRead, what, hint)
        write = slot.unknown_write(buffer.data, clock)
        if write and write.how == "copy":
            hint = "Wait on its barrier for the phase that this copy completes"
            raise self.race(f"{buffer} is read while TMA may still be filling it", hint)
        if write:
            what = f"{buffer} is read while {write.actor.name} may still be storing to it"
            raise self.race(what, "Wait on a barrier at which it arrives when it is done")
        unfenced = any(w.meets(buffer.data) for w in slot.writes if w in self.unfenced)
        if how != "load" and unfenced:
            who = "TMA stores" if how == "TMA store" else "a product reads"
            what = f"{who} {buffer}, which registers wrote, without a fence between"
            raise self.race(what, "fence_async_shared() belongs between the two")
        slot.reads.append(self._access(actor, buffer, how))

    def write(self, buffer: Buffer, actor: Any, how: str) -> None:
        """Note that an actor writes shared memory from now on; nobody else may use it."""
        slot, clock = buffer.slot, self.me.clock
        read = slot.unknown_read(buffer.data, clock)
        if read and read.how == "TMA store":
            what = f"{buffer} is overwritten while TMA may still be storing it"
            raise self.race(what, "tma.store_wait(0) waits for that")
        if read:
            who = read.actor.name if read.how == "load" else "the product"
            what = f"{buffer} is overwritten while {who} of line {read.where[1]} may still read it"
            hint = "Its slot was given back too early, or nobody waited until it was empty"
            raise self.race(what, hint)
        write = slot.unknown_write(buffer.data, clock)
        if write:
            who = "TMA" if write.how == "copy" else write.actor.name
            what = f"{buffer} is written while {who} may still be filling it"
            raise self.race(what, "Wait until the slot is empty")
        access = self._access(actor, buffer, how)
        slot.written(access)
        if how == "store":
            self.unfenced.append(access)

    def load(self, desc: Any, coord: Any, barrier: Barrier, buffer: Buffer, pred: Any) -> None:
        """Start a TMA load."""
        if not pred:
            return
        if buffer.data.size != desc.size:
            raise TypeError(f"TMA brings a block {desc.block_shape} to a buffer {buffer.shape}")
        copy = Copy(desc.read(coord), buffer, barrier, desc.block_type.nbytes)
        self.write(buffer, copy, "copy")
        self.copies.append(copy)

    def store(self, desc: Any, coord: Any, buffer: Buffer, add: bool = False) -> None:
        """Start a TMA store; its bytes leave at once, its buffer stays in use until waited for.

        ``add``: what is there is added to.
        """
        store = Store()
        self.read(buffer, store, "TMA store")
        if any(at < 0 for at in coord):  # seen on an H200; a load may start there
            what = f"TMA stores a block that starts at {[int(at) for at in coord]}"
            raise self.rec.error(OutOfBounds, what, "On a GPU that is an illegal instruction")
        desc.write(coord, buffer.data, add)
        self.me.stores.append(store)
        self.stores.append(store)

    def store_wait(self, pendings: int) -> None:
        """Wait until at most ``pendings`` stores of this role are under way."""
        while len(self.me.stores) > pendings:
            store = self.me.stores.pop(0)
            self.me.clock.times[store] = 1
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
            self.read(buffer, one, "product")
        self.me.products.append(one)
        return one if is_async else self.product_wait(0, (one,))

    def product_wait(self, left: int, deps: Any) -> Any:
        """Finish all products of this role but the ``left`` newest; the finished deps as tiles."""
        mine = self.me.products
        while len(mine) > left:
            done = mine.pop(0)
            done.finish()
            self.me.clock.times[done] = 1
        out = [
            Tile(d.values, d.dtype, d.layout)
            if isinstance(d, Product) and d.values is not None
            else d
            for d in deps
        ]
        return out[0] if len(out) == 1 else tuple(out)

    def fence(self) -> None:
        """What registers are known to have stored becomes visible to TMA and products."""
        self.unfenced = [w for w in self.unfenced if not w.known(self.me.clock)]

    def wait(self, barrier: Barrier, parity: int) -> Steps:
        """Let others run until the phase of this parity is complete."""
        if not barrier.passed(parity):
            said = f"waits for parity {int(parity) & 1} of "
            yield lambda: barrier.passed(parity), lambda: said + barrier.lacks()
        self.me.clock.join(barrier.done)

    def arrive(self, barrier: Barrier, count: int, nbytes: int = 0) -> Steps:
        """Arrive; then whoever waited for it goes first."""
        if barrier.left < count:
            awaited = f"{barrier.left} more of {barrier.count}"
            what = f"an arrival of {count} at a barrier whose phase awaits {awaited}"
            hint = "Somebody arrives twice or counts too much, or init got too small a count"
            raise self.race(what, hint)
        barrier.left -= count
        barrier.bytes += nbytes
        barrier.coming.join(self.me.clock)
        self.me.clock.tick(self.me)
        barrier.settle()
        if not nbytes:
            yield None, str

    def end(self) -> None:
        """The program ends: nothing may be under way that still needs its shared memory."""
        if self.stores:
            hint = "End with tma.store_wait(0)"
            raise self.race("the program ends while TMA still stores its shared memory", hint)
