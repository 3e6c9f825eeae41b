"""Time GPU functions beside each other: graphs, pauses, interleaved rounds, medians.

One launch is captured in a CUDA graph, so host time is left out; a pause before each replay lets
the card cool and its clock recover; versions take turns, so a drift of the clock hits all alike.
"""

import statistics
import subprocess
import time
from collections.abc import Callable, Mapping

import torch

PAUSE_S = 0.03
L2_FLUSH_BYTES = 256 << 20  # more than any L2 here


def graph_of(fn: Callable[[], object]) -> Callable[[], None]:
    """``fn``'s GPU work as one replayable graph; ``fn`` itself where it cannot be captured."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):  # compile, fill caches
            fn()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            fn()
    except RuntimeError:
        torch.cuda.synchronize()
        return fn
    return graph.replay


def once_ms(replay: Callable[[], object], flush: torch.Tensor) -> float:
    """Milliseconds of one replay after a pause and a cold L2."""
    time.sleep(PAUSE_S)
    flush.zero_()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    replay()
    end.record()
    end.synchronize()
    return start.elapsed_time(end)


def interleaved_ms(fns: Mapping[str, Callable[[], object]], rounds: int = 5) -> dict[str, float]:
    """Median milliseconds of each function over ``rounds`` rounds in which all take turns.

    A function that fails is reported as NaN: one missing peer does not end the table.
    """
    flush = torch.empty(L2_FLUSH_BYTES, dtype=torch.int8, device="cuda")
    replays = {}
    for name, fn in fns.items():
        try:
            replays[name] = graph_of(fn)
        except (RuntimeError, ImportError) as error:
            print(f"  {name}: not available here ({str(error).splitlines()[0][:90]})")
    times: dict[str, list[float]] = {name: [] for name in replays}
    for _ in range(rounds):
        for name, replay in replays.items():
            times[name].append(once_ms(replay, flush))
    nan = float("nan")
    return {name: statistics.median(times[name]) if name in times else nan for name in fns}


def steady_ms(fns: Mapping[str, Callable[[], object]], rep_ms: int = 30) -> dict[str, float]:
    """Median milliseconds over ``rep_ms`` of replays of each function after a longer pause.

    For short kernels: after 30 ms of rest the first launch alone finds the clock still low. L2 is
    cold here too.
    """
    from triton.testing import do_bench

    found = {}
    for name, fn in fns.items():
        replay = graph_of(fn)
        time.sleep(7 * PAUSE_S)
        found[name] = do_bench(replay, warmup=10, rep=rep_ms, return_mode="median")
    return found


def ceilings() -> dict[str, float]:
    """What this card reaches now: fp16 matmul in TFLOP/s (8192^3), copy in TB/s (read + write)."""
    n = 8192
    a, b = (torch.randn(n, n, device="cuda", dtype=torch.float16) for _ in range(2))
    c = torch.empty_like(a)
    source = torch.randn(1 << 29, device="cuda")  # 2 GiB: far beyond L2
    target = torch.empty_like(source)
    times = interleaved_ms(  # a kernel that copies; a memcpy node may use the slower copy engine
        {"matmul": lambda: torch.mm(a, b, out=c), "copy": lambda: torch.neg(source, out=target)}
    )
    return {
        "matmul_tflops": 2 * n**3 / times["matmul"] / 1e9,
        "copy_tbs": 2 * source.nbytes / times["copy"] / 1e9,
    }


def card() -> dict[str, str]:
    """Name, driver, clocks and versions, as strings; what cannot be read says so."""
    import triton

    facts = {
        "card": torch.cuda.get_device_name(0),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "cudnn": str(torch.backends.cudnn.version()),
        "date": time.strftime("%Y-%m-%d"),
        "how": "median of interleaved rounds, CUDA graphs, cold L2",
    }
    query = "clocks.sm,clocks.mem,power.draw,driver_version"
    try:
        line = subprocess.run(
            ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"],
            capture_output=True, text=True, timeout=20, check=True,
        ).stdout.splitlines()[0]  # fmt: skip
        facts |= dict(zip(query.split(","), (x.strip() for x in line.split(",")), strict=True))
    except (OSError, subprocess.SubprocessError, IndexError):
        facts["clocks"] = "not readable"
    return facts
