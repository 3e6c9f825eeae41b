"""Runs an answer on the ranks of a ring and puts their shards together. Beside learners' code.

The harness of ``ring_attention``: it forks the ranks, in which the answer runs watched as in any
worker; this process waits for them and runs none of it.
"""

import time
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from flashlab import ring
from flashlab.grader import guard
from flashlab.ring.requests import Requests

SECONDS = {"gloo": 9.0, "nccl": 28.0}  # so long may a rank be silent
LATE_SECONDS = 0.3


def run(
    module: ModuleType,
    *,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    do: Tensor,
    world: int,
    spare: int = 0,
    late: int = -1,
    backend: str = "gloo",
    **options: Any,
) -> tuple[Tensor, ...]:
    """``module.ring_attention`` on every rank, forward and backward.

    Args:
        module: The answer.
        q, k, v, do: The whole sequence, on the CPU.
        world: Ranks of the ring.
        spare: Processes beside the ring.
        late: The rank that begins after the others; -1: none.
        backend: ``"gloo"``, or ``"nccl"`` with a GPU a rank.
        options: causal, zigzag and sm_scale.

    Returns:
        o, lse, dq, dk and dv of the whole sequence.

    Raises:
        RankError: a rank failed, died or went silent.
    """
    zigzag = options.get("zigzag", False)
    shards = [[ring.shard(x, rank, world, zigzag) for x in (q, k, v, do)] for rank in range(world)]
    results = [_results(*shards[rank][:3]) for rank in range(world)]
    if backend == "nccl":
        from flashlab.ring.local import use_kernels

        use_kernels(module)

    def part(member: ring.Member) -> None:
        mine = [x.to(member.device) for x in shards[member.rank]]
        _answer(module, member, mine, options, results[member.rank])

    watched = _Watched(part, late)
    watched.run(
        world,
        backend=backend,
        seconds=SECONDS[backend],
        spare=spare,
        filename=str(module.__file__),
    )
    parts = zip(*results, strict=True)
    return tuple(ring.gather([part.clone() for part in one], zigzag) for one in parts)


class _Watched:
    """Ranks that call ``part`` under the worker's watch, and tell it what they noted."""

    def __init__(self, part: Callable[[ring.Member], None], late: int) -> None:
        self.part, self.late, self.watch = part, late, guard.active()

    def run(self, world: int, **options: Any) -> None:
        """Fork the ranks; the watch of this process rests meanwhile."""
        breaches: list[Any] = []
        with guard.armed(self.watch, False):
            try:
                breaches = ring.run(world, self._rank, **options)
            except ring.RankError as error:
                breaches = [error.extra or []]
                raise
            finally:
                if self.watch:
                    self.watch.breaches += [breach for many in breaches for breach in many]

    def _rank(self, member: ring.Member) -> list[Any]:
        if member.rank == self.late:
            time.sleep(LATE_SECONDS)
        with guard.armed(self.watch, True):
            try:
                self.part(member)
            except BaseException as error:
                error.extra = self._noted()
                raise
        return self._noted()

    def _noted(self) -> list[Any]:
        return self.watch.breaches if self.watch else []


def _results(q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
    """Where a rank's o, lse, dq, dk and dv go."""
    statistics = torch.promote_types(q.dtype, torch.float32)
    shapes = [(q.shape, q.dtype), (q.shape[:3], statistics)]
    shapes += [(x.shape, x.dtype) for x in (q, k, v)]
    return [ring.shared(shape, dtype) for shape, dtype in shapes]


class Unfit(Exception):
    """What a rank returned, or left of its inputs, is not what the contract says."""

    kind = "contract"


class Forgotten(Exception):
    """Messages that nobody waited for."""

    kind = "race"


class _Gradient(torch.autograd.Function):
    """A number whose gradient with respect to o is ``do``, strides and all."""

    @staticmethod
    def forward(ctx: Any, o: Tensor, do: Tensor) -> Tensor:
        ctx.do = do
        return o.new_zeros(())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, _: Tensor) -> tuple[Tensor, None]:
        """As autograd asks for it."""
        return ctx.do, None


def _answer(
    module: ModuleType,
    member: ring.Member,
    mine: Sequence[Tensor],
    options: dict[str, Any],
    results: Sequence[Tensor],
) -> None:
    """One rank's part, written into ``results``."""
    *qkv, do = mine
    before = [x.clone() for x in mine]
    requests = Requests(str(module.__file__)) if member.device.type == "cpu" else None
    leaves = [x.requires_grad_() for x in qkv]
    returned = module.ring_attention(*leaves, member.group, **options)
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise Unfit(f"expected (o, lse) to be returned, got {type(returned).__name__}")
    o, lse = returned
    _fits("o", o, results[0])
    _fits("lse", lse, results[1])
    if not o.requires_grad:
        raise Unfit("o has no gradient: make it in an autograd function that takes q, k and v")
    member.beat()
    _waited_for(requests, "forward")
    _Gradient.apply(o, do).backward()
    _waited_for(requests, "backward")
    for name, x, result in zip(("dq", "dk", "dv"), leaves, results[2:], strict=True):
        if x.grad is None:
            raise Unfit(f"{name} is missing: backward returned None for it")
        result.copy_(x.grad)
    results[0].copy_(o.detach())
    results[1].copy_(lse.detach())
    for name, x, old in zip(("q", "k", "v", "do"), mine, before, strict=True):
        if not torch.equal(x.detach(), old):
            raise Unfit(f"its input {name} was changed; write to tensors of your own")


def _waited_for(requests: Requests | None, direction: str) -> None:
    if requests is not None and (said := requests.forgotten()):
        raise Forgotten(f"in the {direction} pass {said}")


def _fits(name: str, x: Any, like: Tensor) -> None:
    if type(x) is not Tensor:
        raise Unfit(f"expected {name} to be a tensor, got {type(x).__name__}")
    if x.shape != like.shape or x.dtype != like.dtype:
        wanted, came = f"{like.dtype} {list(like.shape)}", f"{x.dtype} {list(x.shape)}"
        raise Unfit(f"expected {name} to be {wanted}, got {came}")
