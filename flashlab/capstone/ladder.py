"""One training step at growing sequence lengths: time and memory, until memory runs out."""

import dataclasses
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from flashlab import memory
from flashlab.bench import timing
from flashlab.capstone import flops, train
from flashlab.capstone.gpt import GPT, Attend, Size
from flashlab.grader.trials import one_thread
from flashlab.reproduce import fa2

LONG_MS = 300.0  # of a step; its launches take about a third of that


@dataclass(frozen=True)
class Row:
    """One length: B sequences of N tokens.

    Args:
        ms: Median milliseconds of a step by attention; None where memory ran out.
        peak_bytes: Most memory of a GPU during a step; on a CPU what a forward pass keeps.
        launched: Whose steps were launched one by one, since no graph of them fits.
    """

    B: int
    N: int
    ms: Mapping[str, float | None]
    peak_bytes: Mapping[str, int | None]
    launched: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The row as a record keeps it."""
        return dataclasses.asdict(self)


class Ladder:
    """A model of one size with its optimizer, which all lengths share."""

    def __init__(self, size: Size, device: str, attentions: Mapping[str, Attend]) -> None:
        self.size, self.device, self.attentions = size, device, dict(attentions)
        self.dtype = torch.bfloat16 if device == "cuda" else torch.float32
        self.model = GPT(size).to(device)
        self.optimizer = train.optimizer_of(self.model, 1e-4)

    def climb(self, rungs: Sequence[tuple[int, int]], rounds: int = 5) -> Iterator[Row]:
        """One row for each (B, N)."""
        for B, N in rungs:
            with one_thread():
                row = self.row(B, N, rounds)
            yield row
            if self.device == "cuda":
                torch.cuda.empty_cache()

    def row(self, B: int, N: int, rounds: int = 5) -> Row:
        """Every attention at one length; the first takes turns with each of the others."""
        steps = {name: self._step(B, N, attend) for name, attend in self.attentions.items()}
        peaks = {name: self._peak(fn, B, N, self.attentions[name]) for name, fn in steps.items()}
        names = [name for name, peak in peaks.items() if peak is not None]
        times: dict[str, list[float]] = {name: [] for name in names}
        launched: list[str] = []
        for other in names[1:] or names:
            pair = {name: steps[name] for name in dict.fromkeys((names[0], other))}
            if self._is_long(steps[other]) or not self._take_turns(pair, times, rounds):
                launched += self._alone(other, steps[other], times, rounds)
        for name in names:
            if not times[name]:  # no graph of it fits beside another's
                launched += self._alone(name, steps[name], times, rounds)
        ms = {name: statistics.median(times[name]) if name in times else None for name in peaks}
        return Row(B, N, ms, peaks, tuple(launched))

    def _take_turns(self, steps: Mapping[str, Callable], times: dict, rounds: int) -> bool:
        """Add ``rounds`` times of each step; False if there is no room for all their graphs."""
        replays = {name: self._replay(fn) for name, fn in steps.items()}
        if None in replays.values():
            return False
        for _ in range(rounds):
            for name, replay in replays.items():
                times[name].append(self._once_ms(replay))
        return True

    def _alone(self, name: str, fn: Callable, times: dict, rounds: int) -> list[str]:
        """Add ``rounds`` times of one step; its name if it was launched."""
        if not self._is_long(fn) and self._take_turns({name: fn}, times, rounds):
            return []
        times[name] += [self._once_ms(fn) for _ in range(rounds)]
        return [name]

    def _is_long(self, fn: Callable[[], object]) -> bool:
        """Whether a step takes so long that its launches are hidden behind its work."""
        return self.device == "cuda" and self._once_ms(fn) > LONG_MS

    def _replay(self, fn: Callable[[], object]) -> Callable[[], object] | None:
        """``fn``'s work without its launches: one CUDA graph; None if there is no room for it."""
        if self.device != "cuda":
            return fn
        try:
            replay = timing.graph_of(fn)
        except torch.cuda.OutOfMemoryError:
            replay = fn
        torch.cuda.empty_cache()
        return None if replay is fn else replay

    def work(self, row: Row) -> float:
        """FLOPs of a step of that row."""
        return flops.step_flops(self.size, row.B, row.N)

    def told(self, row: Row, peak: float | None = None) -> list[str]:
        """One line an attention: memory, tokens a second and, with a card's ``peak``, MFU."""
        lines = []
        for name, ms in row.ms.items():
            line = f"N {row.N:6,} {name:9s}"
            if ms is None:
                lines.append(f"{line} out of memory")
                continue
            rate = 1e3 * row.B * row.N / ms
            line += f" {row.peak_bytes[name] / 1e6:10,.2f} MB {rate:11,.0f} tokens/s"
            if peak:
                line += f" {100 * fa2.mfu(1e3 * self.work(row) / ms, peak):5.1f} % MFU"
            lines.append(line)
        return lines

    def _tokens(self, B: int, N: int) -> tuple[torch.Tensor, torch.Tensor]:
        tokens = torch.randint(self.size.vocabulary, (B, N + 1), device=self.device)
        return tokens[:, :-1], tokens[:, 1:]

    def _step(self, B: int, N: int, attend: Attend) -> Callable[[], object]:
        pair = self._tokens(B, N)
        return lambda: train.step(self.model, self.optimizer, *pair, attend, self.dtype)

    def _peak(self, fn: Callable[[], object], B: int, N: int, attend: Attend) -> int | None:
        if self.device == "cuda":
            return peak_bytes(fn)
        pair = self._tokens(B, N)
        kept = memory.kept_by_autograd(
            lambda: self.model.loss(*pair, attend), (*self.model.parameters(), *pair)
        )
        return sum(x.untyped_storage().nbytes() for x in kept)

    def _once_ms(self, fn: Callable[[], object]) -> float:
        """Milliseconds of one step."""
        time.sleep(timing.PAUSE_S)
        start = time.perf_counter()
        fn()
        if self.device == "cuda":
            torch.cuda.synchronize()
        return 1e3 * (time.perf_counter() - start)


def peak_bytes(fn: Callable[[], object]) -> int | None:
    """Most memory that PyTorch holds during a second ``fn()``; None: there is not enough."""
    try:
        fn()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        fn()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated()
    except torch.cuda.OutOfMemoryError:
        pass  # what the failed call holds is freed with its frames
    torch.cuda.empty_cache()
    return None
