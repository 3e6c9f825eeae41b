"""What recording costs: CPU time of a flash tile step, beside the plain interpreter."""

import json
import os
import subprocess
import sys
import time

import torch
import triton
import triton.language as tl

SIZES = ((32, 32, 32), (64, 64, 64), (128, 128, 64))  # BLOCK_M, BLOCK_N, D
MODES = ("plain", "recorded", "unchecked")
_N, _REPEATS = 256, 5


@triton.jit
def _forward(
    q_ptr, k_ptr, v_ptr, o_ptr, N: tl.constexpr, D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, D)
    mask_m = offs_m < N
    q = tl.load(q_ptr + offs_m[:, None] * D + offs_d[None, :], mask=mask_m[:, None], other=0.0)
    m_i = tl.full([BLOCK_M], float("-inf"), tl.float32)
    l_i = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    for start_n in range(0, N, BLOCK_N):
        offs_n = start_n + tl.arange(0, BLOCK_N)
        mask_n = offs_n < N
        kv = offs_n[:, None] * D + offs_d[None, :]
        k = tl.load(k_ptr + kv, mask=mask_n[:, None], other=0.0)
        s = tl.dot(q, tl.trans(k)) * 0.125
        s = tl.where(mask_n[None, :], s, float("-inf"))
        m_new = tl.maximum(m_i, tl.max(s, 1))
        alpha = tl.exp(m_i - m_new)
        p = tl.exp(s - m_new[:, None])
        l_i = l_i * alpha + tl.sum(p, 1)
        v = tl.load(v_ptr + kv, mask=mask_n[:, None], other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        m_i = m_new
    o = (acc / l_i[:, None]).to(o_ptr.dtype.element_ty)
    tl.store(o_ptr + offs_m[:, None] * D + offs_d[None, :], o, mask=mask_m[:, None])


def step_ms(block_m: int, block_n: int, head_dim: int) -> float:
    """CPU milliseconds of one tile step, best of five launches, as this process runs kernels."""
    torch.manual_seed(0)
    q, k, v, o = (torch.randn(_N, head_dim, dtype=torch.float16) for _ in range(4))
    grid = (triton.cdiv(_N, block_m),)
    best = float("inf")
    for _ in range(_REPEATS):
        start = time.process_time()
        _forward[grid](q, k, v, o, _N, head_dim, block_m, block_n)
        best = min(best, time.process_time() - start)
    return 1000 * best / (grid[0] * triton.cdiv(_N, block_n))


def measure() -> dict[tuple[int, int, int], dict[str, float]]:
    """Size -> {"plain", "recorded", "unchecked": ms a step}; unchecked: no races, no poison."""
    times = {mode: _in_a_process(mode) for mode in MODES}
    return {size: {mode: times[mode][i] for mode in MODES} for i, size in enumerate(SIZES)}


def _in_a_process(mode: str) -> list[float]:
    """Times per size on one thread; TRITON_INTERPRET must be set before Triton is imported."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    env["TRITON_INTERPRET"] = "1" if mode == "plain" else "0"
    command = [sys.executable, "-m", "flashlab.bench.recorder", mode]
    done = subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{mode} kernels failed: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout.splitlines()[-1])


def times_of(mode: str) -> list[float]:
    """Milliseconds a step of each size, run in this process as ``mode`` says."""
    from flashlab.iocount import count_io

    torch.set_num_threads(1)
    if mode == "plain":
        return [step_ms(*size) for size in SIZES]
    checks = mode == "recorded"
    with count_io(races=checks, poison=checks):
        return [step_ms(*size) for size in SIZES]


def main() -> None:
    """Print the table; with a mode as argument (used by itself) that mode's times as JSON."""
    if sys.argv[1:] and sys.argv[1] in MODES:
        print(json.dumps(times_of(sys.argv[1])))
        return
    print(
        f"CPU time of a flash forward tile step, Triton {triton.__version__} (best of {_REPEATS})"
    )
    print(f"{'tile':>12s} {'plain':>10s} {'recorded':>10s} {'unchecked':>10s} {'faster':>8s}")
    for (m, n, d), ms in measure().items():
        cells = " ".join(f"{ms[mode]:7.2f} ms" for mode in MODES)
        print(f"{f'{m}x{n}x{d}':>12s} {cells} {ms['plain'] / ms['recorded']:7.1f}x")


if __name__ == "__main__":
    main()
