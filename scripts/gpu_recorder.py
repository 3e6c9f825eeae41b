"""On a GPU: recording beside a compiled kernel changes nothing, and its count fits the counters.

    PYTHONPATH=. python3 scripts/gpu_recorder.py

Launches flash forward compiled, recorded and compiled again on the same CUDA tensors, and compares
bit for bit; then prints the closed form of a larger launch beside the counters of the SMs, the L2
and DRAM, when Nsight Compute (``ncu``) is there and may read them. Exit status 1 if a check fails.

The counters are read at a size that fills the card many times. With one program per SM, all of one
head in step, the L2 merges their requests for the same line and serves half the bytes (H200).
"""

import csv
import io
import shutil
import subprocess
import sys
import time

import torch
import triton
import triton.language as tl

H, N, D, BLOCK_M, BLOCK_N = 16, 1024, 64, 128, 64
if "--launch" in sys.argv:
    H, N = 64, 4096
METRICS = (
    "l1tex__m_xbar2l1tex_read_bytes.sum",
    "lts__t_bytes.sum",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
)


@triton.jit
def flash_forward_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, N, sm_scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1).to(tl.int64)
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, D)
    mask_m = offs_m < N
    rows = (head * N + offs_m[:, None]) * D + offs_d[None, :]
    q = tl.load(q_ptr + rows, mask=mask_m[:, None], other=0.0)
    m_i = tl.full([BLOCK_M], float("-inf"), tl.float32)
    l_i = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    for start_n in range(0, N, BLOCK_N):
        offs_n = start_n + tl.arange(0, BLOCK_N)
        mask_n = offs_n < N
        kv = (head * N + offs_n[:, None]) * D + offs_d[None, :]
        k = tl.load(k_ptr + kv, mask=mask_n[:, None], other=0.0)
        s = tl.dot(q, tl.trans(k)) * sm_scale
        s = tl.where(mask_n[None, :], s, float("-inf"))
        m_new = tl.maximum(m_i, tl.max(s, 1))
        alpha = tl.exp(m_i - m_new)
        p = tl.exp(s - m_new[:, None])
        l_i = l_i * alpha + tl.sum(p, 1)
        v = tl.load(v_ptr + kv, mask=mask_n[:, None], other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        m_i = m_new
    o = (acc / l_i[:, None]).to(o_ptr.dtype.element_ty)
    tl.store(o_ptr + rows, o, mask=mask_m[:, None])
    tl.store(lse_ptr + head * N + offs_m, m_i + tl.log(l_i), mask=mask_m)


def inputs() -> list[torch.Tensor]:
    """q, k, v of [H, N, D] on the GPU, the same at every call."""
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(H, N, D, generator=generator).half().cuda() for _ in range(3)]


def forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """o and lse, compiled or recorded, as the surroundings have it."""
    o = torch.full_like(q, float("nan"))
    lse = torch.full((H, N), float("nan"), device=q.device)
    grid = (triton.cdiv(N, BLOCK_M), H)
    flash_forward_kernel[grid](q, k, v, o, lse, N, D**-0.5, D, BLOCK_M, BLOCK_N)
    return o, lse


def expected(H: int = H, N: int = N) -> dict[str, tuple[int, int]]:
    """Argument -> (loaded, stored) bytes: K and V once for each of the N / BLOCK_M query tiles."""
    matrix, tiles = 2 * H * N * D, triton.cdiv(N, BLOCK_M)
    return {
        "q_ptr": (matrix, 0),
        "k_ptr": (tiles * matrix, 0),
        "v_ptr": (tiles * matrix, 0),
        "o_ptr": (0, matrix),
        "lse_ptr": (0, 4 * H * N),
    }


def counters() -> dict[str, float] | None:
    """Metric -> bytes of one launch, read by ncu in a process of its own; None when it cannot."""
    if shutil.which("ncu") is None:
        print("ncu is not installed: no counters")
        return None
    command = ["ncu", "--clock-control", "none", "--csv", "--print-units", "base"]
    command += ["--metrics", ",".join(METRICS), "--kernel-name", "regex:flash_forward"]
    command += [sys.executable, __file__, "--launch"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith('"')]
    rows = list(csv.DictReader(io.StringIO("\n".join(lines))))
    found = {row["Metric Name"]: float(row["Metric Value"].replace(",", "")) for row in rows}
    if set(METRICS) - set(found):
        print(f"ncu read no counters: {(done.stdout + done.stderr).strip()[-300:]}")
        return None
    return found


def check(name: str, fine: bool) -> bool:
    """Print one line, pass ``fine`` on."""
    print(f"{'ok  ' if fine else 'FAIL'} {name}")
    return fine


def compare(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> list[bool]:
    """Compiled, recorded, compiled: whether each check holds."""
    from flashlab.iocount import count_io

    before = forward(q, k, v)
    torch.cuda.synchronize()
    start = time.perf_counter()
    with count_io(outputs=["o_ptr", "lse_ptr"], sram_bytes=227 * 1024) as tally:
        recorded = forward(q, k, v)
    print(f"recorded in {time.perf_counter() - start:.1f} s\n{tally.report(expected())}")
    after = forward(q, k, v)
    reference = (q.double() @ k.double().mT * D**-0.5).softmax(-1) @ v.double()
    same = all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    errors = [float((o.double() - reference).abs().max()) for o in (before[0], recorded[0])]
    got = {n: (row["load"], row["store"]) for n, row in tally.traffic.items()}
    fine = [
        check("compiled, recorded, compiled: bitwise equal", same),
        check("the inputs are unchanged", all(map(torch.equal, (q, k, v), inputs()))),
        check("the counted bytes equal the closed form", got == expected()),
        check(
            f"errors against fp64: compiled {errors[0]:.1e}, recorded {errors[1]:.1e}",
            max(errors) <= 2 * min(errors),
        ),
        check("nothing is unwritten", tally.unwritten == {}),
    ]
    return fine


def main() -> int:
    """Run the checks; 0 when all hold."""
    if not torch.cuda.is_available():
        print("no CUDA GPU: nothing was checked")
        return 1
    q, k, v = inputs()
    if "--launch" in sys.argv:
        forward(q, k, v)
        torch.cuda.synchronize()
        return 0
    print(
        f"{torch.cuda.get_device_name()}, torch {torch.__version__}, Triton {triton.__version__}"
    )
    fine = compare(q, k, v)
    measured = counters()
    if measured is not None:
        form = expected(H=64, N=4096)
        loaded, stored = (sum(row[i] for row in form.values()) for i in (0, 1))
        print(f"B * H 64, N 4096: the count is {loaded:,d} loaded, {stored:,d} stored")
        for metric in METRICS:
            print(f"{metric:36s} {measured[metric]:14,.0f} bytes")
        for metric, count, limit in (
            (METRICS[0], loaded, 0.02),
            (METRICS[1], loaded + stored, 0.15),
        ):
            off = measured[metric] / count - 1
            fine.append(check(f"{metric} is {off:+.1%} of the count", abs(off) <= limit))
    return 0 if all(fine) else 1


if __name__ == "__main__":
    sys.exit(main())
