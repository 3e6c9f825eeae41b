"""Which kernels take which call of ``flashlab.attention``: the table, and whose they are.

The first row of ``ROUTES`` that fits a call is its route. Of a row's pieces that fit, the first
that is a learner's own runs, else the first that the course has.
"""

import functools
import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass

import torch

from flashlab import kernels, sources
from flashlab.autograd import Kernels, in_three
from flashlab.workspace import Workspace


@dataclass(frozen=True)
class Call:
    """What decides the route of a call."""

    N_q: int
    D: int
    dtype: torch.dtype
    grouped: bool  # fewer key heads than query heads
    gradient: bool
    dropout: bool
    jagged: bool
    hopper: bool  # on such a GPU, and laid out as its TMA copies want it


@dataclass(frozen=True)
class Piece:
    """One direction of attention and the exercises that it is made of.

    Args:
        parts: (exercise, function in its file), each.
        fits: Which calls it takes.
        join: Makes one function of those of ``parts``.
        worked: ``module:function`` of a kernel that the course alone has; then no parts.
    """

    parts: tuple[tuple[str, str], ...]
    fits: Callable[[Call], bool] = lambda call: True
    join: Callable[..., Callable] = lambda function: function
    worked: str = ""

    def functions(self, own: bool) -> Callable | None:
        """The learner's (all parts passed) or the course's; None where there is none."""
        if self.worked:
            module, _, name = self.worked.partition(":")
            there = not own and importlib.util.find_spec(module)
            return getattr(importlib.import_module(module), name) if there else None
        if own:
            found = [kernels.passed_function(*part) for part in self.parts]
            return self.join(*found) if None not in found else None
        there = all(sources.solution_path(slug).is_file() for slug, _ in self.parts)
        found = [kernels.course_function(*part) for part in self.parts] if there else ()
        return self.join(*found) if found else None

    @property
    def name(self) -> str:
        """Its exercises, for a sentence."""
        if self.worked:
            return self.worked.partition(":")[2]
        return ", ".join(dict.fromkeys(slug for slug, _ in self.parts))


@dataclass(frozen=True)
class Route:
    """One row of the table.

    Args:
        name: What a call of it is.
        when: Which calls, in words.
        fits: The same as a test.
        forward, backward: What can run it, the fastest first; no backward: no gradient.
    """

    name: str
    when: str
    fits: Callable[[Call], bool]
    forward: tuple[Piece, ...]
    backward: tuple[Piece, ...] = ()


def _one(slug: str, name: str = "", fits: Callable[[Call], bool] = lambda call: True) -> Piece:
    return Piece(((slug, name or slug),), fits)


def _hopper(call: Call) -> bool:
    return call.hopper and call.D in (64, 128) and call.dtype != torch.float32


def _ungrouped(call: Call) -> bool:
    return not call.grouped


_LAB06 = ("backward_delta", "flash_backward_dkdv", "flash_backward_dq")
ROUTES = (
    Route(
        "varlen",
        "q, k, v are jagged nested tensors: sequences of several lengths",
        lambda call: call.jagged,
        (_one("varlen_forward"),),
    ),
    Route(
        "dropout",
        "dropout_p is above 0",
        lambda call: call.dropout,
        (_one("flash_dropout"),),
        (_one("flash_dropout", "flash_dropout_backward"),),
    ),
    Route(
        "decode",
        "one query row a head, and nothing asks for a gradient",
        lambda call: call.N_q == 1 and not call.gradient,
        (_one("split_kv_decode"),),
    ),
    Route(
        "training",
        "all other calls: training, and the first tokens of a text",
        lambda call: True,
        (
            _one("flash3_forward", fits=_hopper),
            _one("flash2_forward"),
            _one("flash_forward", fits=_ungrouped),
        ),
        (
            Piece((), _hopper, worked="flashlab.worked.flash3_backward:flash3_backward"),
            _one("flash2_backward"),
            Piece(tuple((slug, slug) for slug in _LAB06), _ungrouped, in_three),
        ),
    ),
)


@dataclass(frozen=True)
class Plan:
    """The route of one call with the functions that run it.

    Args:
        route: Name of the row of ``ROUTES``.
        functions: Forward and backward; backward is None where the route has none.
        whose: One sentence a direction.
    """

    route: str
    functions: Kernels
    whose: tuple[str, ...]


def plan(call: Call, own: bool = True) -> Plan:
    """The first row that fits ``call``; ``own`` False leaves the learner's files aside."""
    route = next(route for route in ROUTES if route.fits(call))
    pieces = (*route.forward, *route.backward)
    workspace = Workspace.current() if own else None
    stamps = tuple(workspace.stamp(slug) for p in pieces for slug, _ in p.parts) if own else ()
    return _planned(call, route, own, stamps)


@functools.lru_cache(maxsize=64)
def _planned(call: Call, route: Route, own: bool, stamps: tuple) -> Plan:
    """Looked up anew only where a file of the workspace has changed, which ``stamps`` say."""
    forward, told = _pick(route.forward, call, own)
    backward, more = _pick(route.backward, call, own) if route.backward else (None, "")
    whose = (told,) if more in ("", told) else (told, more)
    return Plan(route.name, Kernels(forward, backward), whose)


def _pick(pieces: tuple[Piece, ...], call: Call, own: bool) -> tuple[Callable, str]:
    fitting = [piece for piece in pieces if piece.fits(call)]
    for mine in (True, False) if own else (False,):
        for piece in fitting:
            if function := piece.functions(mine):
                whose = "your own" if mine else "the course's solution"
                if piece.worked:
                    whose = "a kernel of the course that is no exercise"
                elif own and not mine:
                    whose += ", since no text of yours has passed yet"
                return function, f"{piece.name}: {whose}"
    raise KeyError(f"this copy of the course has no solution of {fitting[0].name}")
