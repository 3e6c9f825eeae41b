"""Train the small GPT and measure it: loss, tokens a second, peak memory, MFU."""

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from flashlab import memory
from flashlab.capstone import flops, text
from flashlab.capstone.gpt import GPT, Attend, Size
from flashlab.grader.trials import one_thread
from flashlab.reproduce import fa2

Progress = Callable[[int, int, float], None]  # (steps done, steps in all, loss)


@dataclass(frozen=True)
class Plan:
    """What is trained, on how much, where.

    Args:
        size: The model's.
        B, N: Sequences of a batch, tokens of each.
        steps: Batches.
        device: ``"cpu"`` or ``"cuda"``.
        rate: Learning rate of AdamW at its highest: it rises for a tenth of the steps, then falls.
        characters: How much text there is.
        seed: Of weights and batches: two runs of one plan see the same.
    """

    size: Size
    B: int
    N: int
    steps: int
    device: str = "cpu"
    rate: float = 5e-3
    characters: int = 200_000
    seed: int = 0

    @property
    def dtype(self) -> torch.dtype:
        """What matmuls and attention compute in: bf16 on a GPU that has it, else fp32."""
        half = self.device == "cuda" and torch.cuda.get_device_capability()[0] >= 8
        return torch.bfloat16 if half else torch.float32

    def rate_at(self, n: int) -> float:
        """The learning rate of step ``n``, from 0."""
        return self.rate * min(1.0, 10 * (n + 1) / self.steps) * (1 - 0.9 * n / self.steps)


LETTERS = len(text.ALPHABET)
ON_CPU = Plan(Size(LETTERS, 128, layers=2, heads=2, width=128), B=4, N=64, steps=160)
ON_GPU = Plan(  # large enough for a GPU to be what takes the time, not the launches
    Size(LETTERS, 2048, layers=6, heads=12, width=768), B=16, N=2048, steps=300, device="cuda",
    rate=1.5e-4,
)  # fmt: skip


def here() -> Plan:
    """The plan for this machine; FLASHLAB_CAPSTONE_STEPS makes it shorter, for a quick look."""
    plan = ON_GPU if torch.cuda.is_available() else ON_CPU
    asked = os.environ.get("FLASHLAB_CAPSTONE_STEPS", "").strip()
    if asked and not (asked.isdecimal() and int(asked)):
        raise ValueError(f"FLASHLAB_CAPSTONE_STEPS is a number of steps from 1, not {asked!r}")
    return replace(plan, steps=min(plan.steps, int(asked))) if asked else plan


@dataclass
class Run:
    """What one training run measured.

    Args:
        name: Whose attention.
        plan: What was trained.
        losses: One a step, in nats a character.
        step_seconds: One a step; the first ones compile.
        kept_bytes: What a forward pass keeps for its backward pass.
        peak_bytes: Most memory of a GPU at one time; None on a CPU.
        model: What came out.
    """

    name: str
    plan: Plan
    losses: list[float] = field(default_factory=list)
    step_seconds: list[float] = field(default_factory=list)
    kept_bytes: int = 0
    peak_bytes: int | None = None
    model: GPT | None = None

    @property
    def seconds(self) -> float:
        """Median time of a step, without the first fifth of them."""
        return statistics.median(self.step_seconds[len(self.step_seconds) // 5 :])

    @property
    def tokens_per_second(self) -> float:
        """Tokens of a batch over the median time of a step."""
        return self.plan.B * self.plan.N / self.seconds

    def mfu(self, peak: float) -> float:
        """Share of ``peak`` FLOP/s that the model's own FLOPs take."""
        work = flops.step_flops(self.plan.size, self.plan.B, self.plan.N)
        return fa2.mfu(work / self.seconds, peak)


def train(plan: Plan, attend: Attend, name: str, progress: Progress | None = None) -> Run:
    """Train a fresh model with ``attend`` as its attention."""
    with one_thread():  # what the CPU has to do is small
        return _train(plan, attend, name, progress)


def _train(plan: Plan, attend: Attend, name: str, progress: Progress | None) -> Run:
    run, model = Run(name, plan), GPT(plan.size, plan.seed).to(plan.device)
    optimizer = optimizer_of(model, plan.rate)
    tokens = text.encode(text.story(plan.characters))
    draw = torch.Generator().manual_seed(plan.seed)
    measure_memory(run, model, text.batch(tokens, plan.B, plan.N, draw), attend)
    for n in range(plan.steps):
        pair = [x.to(plan.device) for x in text.batch(tokens, plan.B, plan.N, draw)]
        optimizer.param_groups[0]["lr"] = plan.rate_at(n)
        start = time.perf_counter()
        loss = step(model, optimizer, *pair, attend, plan.dtype)
        run.losses.append(loss.item())  # waits for the GPU
        run.step_seconds.append(time.perf_counter() - start)
        if progress:
            progress(n + 1, plan.steps, run.losses[-1])
    if plan.device == "cuda":
        run.peak_bytes = torch.cuda.max_memory_allocated()
    run.model = model
    return run


def optimizer_of(model: GPT, rate: float) -> torch.optim.Optimizer:
    """AdamW as GPTs are trained with; on a GPU in one kernel, which a CUDA graph may hold."""
    gpu = next(model.parameters()).is_cuda
    options = {"fused": True, "capturable": True} if gpu else {}
    return torch.optim.AdamW(
        model.parameters(), lr=rate, betas=(0.9, 0.95), weight_decay=0.1, **options
    )


def loss_of(
    model: GPT, tokens: Tensor, targets: Tensor, attend: Attend, dtype: torch.dtype
) -> Tensor:
    """The model's loss, computed in ``dtype`` where autocast allows it."""
    with torch.autocast(tokens.device.type, dtype, enabled=dtype != torch.float32):
        return model.loss(tokens, targets, attend)


def step(
    model: GPT,
    optimizer: torch.optim.Optimizer,
    tokens: Tensor,
    targets: Tensor,
    attend: Attend,
    dtype: torch.dtype,
) -> Tensor:
    """One training step; returns its loss."""
    optimizer.zero_grad(set_to_none=True)
    loss = loss_of(model, tokens, targets, attend, dtype)
    loss.backward()
    optimizer.step()
    return loss.detach()


def measure_memory(run: Run, model: GPT, pair: tuple[Tensor, Tensor], attend: Attend) -> None:
    """Fill in ``kept_bytes``; the GPU's peak counts from here on."""
    inputs = [x.to(run.plan.device) for x in pair]
    besides = (*model.parameters(), *inputs)
    kept = memory.kept_by_autograd(
        lambda: loss_of(model, *inputs, attend, run.plan.dtype), besides
    )
    run.kept_bytes = sum(x.untyped_storage().nbytes() for x in kept)
    del kept
    if run.plan.device == "cuda":
        torch.cuda.reset_peak_memory_stats()


def apart(run: Run, other: Run) -> float:
    """The largest difference of two runs' losses at one step."""
    return max(abs(a - b) for a, b in zip(run.losses, other.losses, strict=True))
