"""Runs the programs of a producer and some consumers against each other."""

from collections.abc import Callable, Generator
from typing import Any

from flashlab.pipeline import consumer as consumers
from flashlab.pipeline.errors import PipelineError
from flashlab.pipeline.machine import Machine
from flashlab.pipeline.memory import Memory
from flashlab.pipeline.phases import Known, Phases, merge
from flashlab.pipeline.running import Running
from flashlab.pipeline.sm import SM, Barrier, Op
from flashlab.pipeline.timeline import Span, Timeline
from flashlab.pipeline.units import Clock, InTurn, Job, Shared

MOST_OPERATIONS = 100  # a program, tile and slot; the longest schedule of the course has 14
Program = Generator[Op, None, None]


def simulate(
    producer: Callable[[SM, int, int], Program] | None,
    consumer: Callable[[SM, int, int, int], Program],
    machine: Machine,
    *,
    n_tiles: int,
    stages: int,
) -> Timeline:
    """Run one producer and ``machine.consumers`` consumers to their ends.

    Args:
        producer: ``(sm, n_tiles, stages) -> generator``; None where consumers load themselves.
        consumer: ``(sm, w, n_tiles, stages) -> generator`` of warpgroup ``w``.
        machine: How long everything takes.
        n_tiles: Tiles of keys, 0 or more.
        stages: Slots for tiles of K, and for tiles of V.

    Raises:
        PipelineError: the schedule is not safe, does not end or is not made of operations.
    """
    run = Run(machine, n_tiles, stages)
    if producer is not None:
        run.start("producer", -1, producer, (run.sm, n_tiles, stages), 0.0)
    late = machine.late or (0.0,) * machine.consumers
    for w in range(machine.consumers):
        run.start(f"warpgroup {w}", w, consumer, (run.sm, w, n_tiles, stages), late[w])
    while run.clock.step():
        pass
    run.finish()
    ends = [span.end for span in run.spans]
    tiles = tuple(tuple(p.state.added) for p in run.programs if p.w >= 0)
    return Timeline(tuple(run.spans), max(ends, default=0.0), tiles)


class Run:
    """The SM, its units, and the programs on it."""

    def __init__(self, machine: Machine, n_tiles: int, stages: int) -> None:
        self.machine, self.n_tiles, self.stages = machine, n_tiles, stages
        self.clock = Clock()
        self.made: list[Op] = []  # operations that nobody has yielded yet
        self.sm = SM(stages, machine.consumers, lambda op: self.made.append(op))
        self.phases: dict[Barrier, Phases] = {}
        self.memory = Memory(self.sm, n_tiles, stages)
        self.tma = InTurn(self.clock)
        one = machine.arbitration == "one at a time"
        self.tensor = InTurn(self.clock) if one else Shared(self.clock)
        self.exp = Shared(self.clock, machine.alone)
        self.alu = Shared(self.clock, machine.alone)
        self.programs: list[Running] = []
        self.waiting: list[tuple[Running, Barrier, int]] = []
        self.spans: list[Span] = []

    def start(self, name: str, w: int, function: Callable, args: tuple, at: float) -> None:
        """Make a program of a function and let it begin at ``at``."""
        body = function(*args)
        if not isinstance(body, Generator):
            raise PipelineError(
                "contract",
                f"{function.__name__} returned {body!r}, expected a generator: yield operations",
            )
        program = Running(name, w, body)
        self.programs.append(program)
        self.clock.at(at, lambda: self.go(program))

    def go(self, program: Running) -> None:
        """Let a program run until an operation makes it wait."""
        program.op = None
        while True:
            try:
                value = next(program.body)
            except StopIteration:
                program.check_end(self._made())
                return
            program.steps += 1
            if program.steps > MOST_OPERATIONS * (self.n_tiles + self.stages + 1):
                raise PipelineError(
                    "timeout",
                    f"{program.name} still goes on after {program.steps - 1:,} operations for "
                    f"{self.n_tiles} tiles; does its loop end?",
                    program.line,
                )
            op = program.take(value, self._made())
            if not getattr(self, f"_{op.name}")(program, op, *op.args):
                program.op, program.since = op, self.clock.now
                return

    def finish(self) -> None:
        """Nothing happens any more: everybody must be at the end.

        Raises:
            PipelineError: a deadlock, or a product that nobody waited for.
        """
        stuck = [(p, barrier, phase) for p, barrier, phase in self.waiting]
        if stuck:
            said = "; ".join(
                f"{p.name} waits for phase {phase} of {barrier} ({self._of(barrier).arrived} of "
                f"{barrier.count} arrivals, line {p.op.where[1]})"
                for p, barrier, phase in stuck
            )
            raise PipelineError(
                "timeout", f"deadlock, nobody can go on: {said}", stuck[0][0].op.where
            )
        for program in self.programs:
            program.state.finish()

    def span(self, who: Running, unit: str, what: str, tile: int) -> Callable[..., None]:
        """What keeps a span when it ends."""
        return lambda start, end: self.spans.append(Span(who.who, unit, what, tile, start, end))

    def _made(self) -> list[Op]:
        """What was made since the last look."""
        made, self.made = self.made, []
        return made

    # Barriers

    def _of(self, barrier: Barrier) -> Phases:
        return self.phases.setdefault(barrier, Phases(barrier.count))

    def _wait(self, program: Running, op: Op, barrier: Any, phase: Any) -> bool:
        self._is_barrier(op, barrier)
        if phase not in (0, 1):
            raise PipelineError(
                "contract", f"a phase is 0 or 1, not {phase!r}: take its parity, & 1", op.where
            )
        phases = self._of(barrier)
        if not phases.passes(phase):
            self.waiting.append((program, barrier, phase))
            return False
        merge(program.known, phases.ready)
        return True

    def _arrive(self, program: Running, op: Op, barrier: Any) -> bool:
        self._is_barrier(op, barrier)
        if program.w >= 0:
            self.memory.give_back(program.w, program.state, barrier, op)
        self._arrived(barrier, program.known)
        return True

    def _arrived(self, barrier: Barrier, known: Known) -> None:
        phases = self._of(barrier)
        if not phases.arrive(known):
            return
        for entry in [e for e in self.waiting if e[1] is barrier and phases.passes(e[2])]:
            self.waiting.remove(entry)
            self.clock.at(self.clock.now, lambda entry=entry: self._woken(*entry))

    def _woken(self, program: Running, barrier: Barrier, phase: int) -> None:
        phases = self._of(barrier)
        if not phases.passes(phase):  # a whole phase has passed meanwhile
            self.waiting.append((program, barrier, phase))
            return
        self._waited(program, barrier.name)
        merge(program.known, phases.ready)
        self.go(program)

    def _waited(self, program: Running, what: str) -> None:
        if self.clock.now > program.since:
            self.span(program, "wait", what, -1)(program.since, self.clock.now)

    def _is_barrier(self, op: Op, barrier: Any) -> None:
        if not isinstance(barrier, Barrier):
            raise PipelineError(
                "contract",
                f"expected a barrier such as sm.k_full[slot], got {barrier!r}",
                op.where,
            )

    # Loads

    def _load_k(self, program: Running, op: Op, tile: Any, slot: Any) -> bool:
        return self._load(program, op, "K", tile, slot)

    def _load_v(self, program: Running, op: Op, tile: Any, slot: Any) -> bool:
        return self._load(program, op, "V", tile, slot)

    def _load(self, program: Running, op: Op, matrix: str, tile: Any, slot: Any) -> bool:
        place = self.memory.fill(matrix, tile, slot, program.known, op)
        keep = self.span(program, "tma", f"load {matrix}", tile)

        def done(start: float, end: float) -> None:
            keep(start, end)
            self._arrived(self.memory.full_barrier(matrix, slot), place.filled())

        self.tma.add(0, Job(self.machine.load, done))
        return True

    # A consumer's arithmetic

    def _qk(self, program: Running, op: Op, tile: Any, slot: Any) -> bool:
        place = self.memory.read("K", tile, slot, program, op)
        product = program.state.score(tile, place, op)
        return self._product(program, "Q K", tile, self.machine.qk, product)

    def _pv(self, program: Running, op: Op, tile: Any, slot: Any) -> bool:
        place = self.memory.read("V", tile, slot, program, op)
        product = program.state.accumulate(tile, place, op)
        return self._product(program, "P V", tile, self.machine.pv, product)

    def _product(
        self, program: Running, what: str, tile: int, work: float, product: consumers.Product
    ) -> bool:
        keep = self.span(program, "tensor", what, tile)

        def done(start: float, end: float) -> None:
            keep(start, end)
            product.done = True
            waits = program.op
            if waits and waits.name == "wait_products" and program.state.at_most(*waits.args):
                self._waited(program, "products")
                self._products_done(program, *waits.args)
                self.go(program)

        self.tensor.add(program.w, Job(work, done))
        return True

    def _wait_products(self, program: Running, op: Op, pending: Any) -> bool:
        if type(pending) is not int or pending < 0:
            raise PipelineError(
                "contract", f"pending is a number of products from 0, not {pending!r}", op.where
            )
        if not program.state.at_most(pending):
            return False
        self._products_done(program, pending)
        return True

    def _products_done(self, program: Running, pending: int) -> None:
        for product in program.state.waited(pending):
            merge(program.known, product.place.read_by(program.w, product.fill))

    def _softmax(self, program: Running, op: Op, tile: Any) -> bool:
        program.state.softmax(tile, op)
        m, keep = self.machine, lambda unit: self.span(program, unit, "softmax", tile)

        def before(start: float, end: float) -> None:
            keep("alu")(start, end)
            self.exp.add(program.w, Job(m.exp, exponentials))

        def exponentials(start: float, end: float) -> None:
            keep("exp")(start, end)
            self.alu.add(program.w, Job(m.after, after))

        def after(start: float, end: float) -> None:
            keep("alu")(start, end)
            self.go(program)

        self.alu.add(program.w, Job(m.before, before))
        return False

    def _rescale(self, program: Running, op: Op, tile: Any) -> bool:
        program.state.rescale(tile, op)
        keep = self.span(program, "alu", "rescale", tile)

        def done(start: float, end: float) -> None:
            keep(start, end)
            self.go(program)

        self.alu.add(program.w, Job(self.machine.rescale, done))
        return False
