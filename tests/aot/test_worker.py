"""The worker: Gluon, crashes, hangs, lost processes, a killed parent."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from flashlab import aot

KERNELS = Path(__file__).parent / "kernels"


def test_gluon_compiles_for_hopper_and_its_crash_elsewhere_is_a_sentence():
    x = torch.empty(64, 64, dtype=torch.float16)
    text = (KERNELS / "gemm.py").read_text()
    rows = aot.inspect(text, "gemm.py", lambda m: m.matmul(x), (90, 80))
    hopper, ampere = rows
    assert hopper.ok and hopper.counts["wgmma"] == 4 and hopper.counts["tma"] == 3
    assert ampere.error == "refused"
    assert ampere.sentence.startswith("sm_80 has no wgmma instruction")


def test_a_hang_and_a_crash_end_their_own_rows_alone(flash_text, launches):
    hangs = flash_text + "\nimport time\ntime.sleep(60)\n"
    (row,) = aot.compile_launches(hangs, "f.py", launches, (80,), timeout=0.5)
    assert row.error == "timeout" and "did not finish in time for sm_80" in row.sentence
    text = flash_text + "\nimport os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n"
    (row,) = aot.compile_launches(text, "f.py", launches, (80,))
    assert row.error == "crash" and "SIGSEGV" in row.sentence
    (row,) = aot.compile_launches(flash_text, "f.py", launches, (80,))
    assert row.ok


def test_what_a_job_says_is_checked(flash_text, launches):
    for found in ('{"registers": "many"}', '{"ok": true, "counts": []}', "[1]", "{" * 10):
        forge = f"open(tempfile.tempdir + '/result.json', 'w').write({found!r})"
        text = flash_text + f"\nimport os, tempfile\n{forge}\nos._exit(0)\n"
        (row,) = aot.compile_launches(text, "f.py", launches, (80,))
        assert row.error == "crash" and not row.ok


def test_one_target_may_crash_while_others_compile(flash_text, launches):
    text = flash_text + (
        "\nimport triton.backends.compiler as c, os\n"
        "made = c.GPUTarget.__init__\n"
        "def init(self, backend, arch, warp):\n"
        "    if arch == 90: os.abort()\n"
        "    made(self, backend, arch, warp)\n"
        "c.GPUTarget.__init__ = init\n"
    )
    rows = aot.compile_launches(text, "f.py", launches, (80, 90, 100))
    assert [r.error for r in rows] == ["", "crash", ""]


def test_the_worker_is_replaced_when_lost_and_forks_with_one_thread(
    monkeypatch, flash_text, launches
):
    with contextlib.closing(aot.Compiler()) as compiler:
        assert compiler.compile(flash_text, "f.py", launches, (80,))[0].ok
        with open(f"/proc/{compiler._process.pid}/status") as status:
            threads = next(line for line in status if line.startswith("Threads"))
        assert threads.split()[1] == "1"
        os.kill(compiler._process.pid, signal.SIGKILL)
        compiler._process.wait()

        def interrupted(process, deadline):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:  # Jupyter's Stop, half way through an answer
            patch.setattr(compiler, "_line", interrupted)
            with pytest.raises(KeyboardInterrupt):
                compiler.compile(flash_text, "f.py", launches, (80,))
        assert compiler.compile(flash_text, "f.py", launches, (80,))[0].ok
    assert compiler._process is None


def _alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_the_worker_dies_with_a_killed_parent():
    code = (
        "import time\nfrom flashlab.aot import Compiler\nc = Compiler()\nc.warm()\n"
        "print('up', c._process.pid, flush=True)\ntime.sleep(60)\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=env) as parent:
        worker = int(parent.stdout.readline().split()[1])
        parent.kill()
    deadline = time.monotonic() + 60
    while _alive(worker) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not _alive(worker)
