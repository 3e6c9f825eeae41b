"""The GPU stage: the same cases compiled, called again and compared bitwise. Trusted side.

The answer runs in a spawned process of its own, which is replaced after any CUDA error, since such
an error spoils every later call. An illegal access is replayed on the recorder for its line.
"""

import contextlib
import dataclasses
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence

import torch

from flashlab import hardware
from flashlab.exercise import Case, Exercise
from flashlab.grader import (
    cpu,
    gpu_limits,
    pool,
    protocol,
    reply_shape,
    sentences,
    trials,
    verdict,
)
from flashlab.grader.cpu import Answer
from flashlab.grader.pool import Reply
from flashlab.grader.trials import Run, Trial

SECONDS = 120.0  # for one run, compilation included
REPEATS = 3  # calls after the first one, on the same inputs
ENDING = ("oob", "oom", "timeout")
CUDA_ERRORS = ("CUDA error", "CUDA out of memory", "an illegal memory access", "AcceleratorError")
RANKS = 2  # GPUs that cases with ranks need at least
FABRIC = ("NCCL_", "NVSHMEM_", "TORCH_NCCL_", "TORCH_SYMM_MEM_")  # how GPUs may talk: kept
ILLEGAL = ("illegal memory access", "misaligned address", "unspecified launch failure",
           "illegal instruction")  # fmt: skip


def available(ranks: bool = False, archs: Sequence[int] = ()) -> str:
    """Empty if kernels can be compiled and run here, else why not, in one sentence.

    Args:
        ranks: Several GPUs are needed, one for each rank.
        archs: The only compute capabilities that will do; empty: any.
    """
    if ranks and torch.cuda.device_count() < RANKS:
        return f"run over NCCL: it needs {RANKS} NVIDIA GPUs or more"
    if not torch.cuda.is_available():
        return "compiled run: no NVIDIA GPU on this machine"
    if torch.cuda.get_device_capability() < (7, 5):
        return "compiled run: the GPU is older than sm_75, which Triton does not compile for"
    major, minor = torch.cuda.get_device_capability()
    if archs and 10 * major + minor not in archs:
        needed = " or ".join(hardware.EXAMPLES.get(a, f"sm_{a}") for a in archs)
        return f"compiled run: the kernel is written for {needed}, this GPU is sm_{major}{minor}"
    return ""


@contextlib.contextmanager
def turns(alone: Callable[[], contextlib.AbstractContextManager]) -> Iterator[None]:
    """Within this, each GPU stage of this process waits for ``alone()``: others grade too."""
    global _turn
    before, _turn = _turn, alone
    try:
        yield
    finally:
        _turn = before


_turn: Callable[[], contextlib.AbstractContextManager] = contextlib.nullcontext


class Gpu:
    """Runs an answer's trials on the GPU.

    Args:
        exercise, answer: What is graded, and the text.
        tier: "gpu" or "hopper", for the results.
        own_tiles: Tile sizes that the text declares.
        names: Cases to run; None is all.
        tell: Called with every run as it ends.
    """

    def __init__(
        self,
        exercise: Exercise,
        answer: Answer,
        tier: str,
        own_tiles: dict[str, int],
        names: Sequence[str] | None,
        tell: Callable[[Run], None],
    ) -> None:
        self.exercise, self.answer, self.tier = exercise, answer, tier
        self.own_tiles, self.names, self.tell = own_tiles, names, tell
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._watch: gpu_limits.Watch | None = None

    def run(self) -> list[Run]:
        """Every case at its first tile sizes, three at the answer's own, core in bfloat16 too.

        The first illegal access ends it, and so does a case that takes all the memory or time
        there is: each further one would start CUDA anew, or wait as long, to say the same.
        """
        with _turn(), tempfile.TemporaryDirectory(prefix="flashlab-gpu-") as folder:
            try:
                runs = []
                for trial in self.plan():
                    runs.append(self._one(trial, folder))
                    self.tell(runs[-1])
                    if runs[-1].result.status in ENDING:
                        break
                return runs
            finally:
                self._end()

    def plan(self) -> list[Trial]:
        """The trials, in the order of the cases."""
        made = []
        for case in self.exercise.cases:
            if self.names is not None and case.name not in self.names:
                continue
            if self.exercise.ranks and not self._room(case):
                continue
            tiles = [(self.exercise.tiles(case.pairs[0]), False)]
            if case.own and self.own_tiles:
                tiles.append((self.own_tiles, True))
            variants = [case]
            if case.group == "core" and case.dtype == "float16":
                variants.append(in_bfloat16(case))
            made += [
                trials.trial(self.exercise, one, sizes, own, self.tier)
                for one in variants
                for sizes, own in tiles
            ]
        return made

    def _room(self, case: Case) -> bool:
        """Whether there is a GPU for every process of the case."""
        sizes = case.sizes(self.exercise.tiles(case.pairs[0]))
        return sizes["world"] + sizes.get("spare", 0) <= torch.cuda.device_count()

    def _one(self, trial: Trial, folder: str) -> Run:
        reply = self._exchange(trial, folder)
        run = verdict.judge(self.exercise, trial, reply)
        error = (reply.header or {}).get("error") or {}
        message = str(error.get("message", ""))
        if reply.header is None or any(word in message for word in CUDA_ERRORS):
            self._end()
        if any(word in message for word in ILLEGAL):
            replay(self.exercise, self.answer, run)
        return run

    def _exchange(self, trial: Trial, folder: str) -> Reply:
        """One request and its reply; the process is killed when it takes too long."""
        start, reply = time.monotonic(), Reply(None, how="exit")
        job = cpu.job(self.exercise, self.answer, trial)
        specs = [protocol.spec(name, t) for name, t in job.tensors.items()]
        request = job.request | {"tensors": specs, "device": "cuda", "again": ["again"] * REPEATS}
        if self.exercise.ranks:
            backend = {"backend": {"value": "nccl"}}
            request |= {"again": [], "arguments": request["arguments"] | backend}
        payload = [protocol.storage_bytes(t) for t in job.tensors.values()]
        connection = self._start(folder)
        try:
            connection.settimeout(SECONDS)
            for chunk in protocol.frame(request, payload):
                connection.sendall(chunk)
            connection.settimeout(None)
            header, data = protocol.read(
                connection.fileno(), request["reply_limit"], time.monotonic() + SECONDS
            )
            reply.problem = reply_shape.fault(header)
            if not reply.problem:
                reply.arrays = protocol.views(header["arrays"], data)
                reply.header = header
        except TimeoutError:
            reply.how = "wall"
        except (EOFError, OSError):
            code = self._process.wait() if self._process else 0
            reply.code, reply.how = code, "signal" if code < 0 else "exit"
            if self._watch is not None and self._watch.over:
                reply.how = self._watch.over
        except (protocol.ProtocolError, KeyError, TypeError) as error:
            reply.problem = str(error)
        reply.seconds = time.monotonic() - start
        return reply

    def _start(self, folder: str) -> socket.socket:
        """The connection to a process that runs."""
        if self._process is not None and self._process.poll() is None and self._socket:
            return self._socket
        self._end()
        ours, theirs = socket.socketpair()
        fabric = {name: value for name, value in os.environ.items() if name.startswith(FABRIC)}
        caches = fabric | {"TRITON_CACHE_DIR": os.path.join(folder, "triton"), "HOME": folder}
        shown = os.environ.get("CUDA_VISIBLE_DEVICES")
        if shown is not None:
            caches["CUDA_VISIBLE_DEVICES"] = shown
        with theirs:
            self._process = subprocess.Popen(
                pool.default().command(pool.server_command("direct", theirs.fileno())),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                env=pool.environment() | caches,
            )
        self._watch = gpu_limits.Watch(self._process.pid)
        self._socket = ours
        return ours

    def _end(self) -> None:
        process, self._process = self._process, None
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.stop()
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            process.wait()


def in_bfloat16(case: Case) -> Case:
    """The same case with bfloat16 inputs; its name says so after a space."""
    return dataclasses.replace(case, name=f"{case.name} bf16", dtype="bfloat16")


def replay(exercise: Exercise, answer: Answer, run: Run) -> None:
    """Ask the recorder which line made the GPU stop, and put that into the result."""
    trial = run.trial
    twin = trials.trial(exercise, trial.case, trial.tiles, trial.own)
    [(_, seen)] = cpu.run_trials(exercise, answer, [twin])
    result = run.result
    result.status = "oob"
    if seen.result.status == "pass":
        result.detail = sentences.ILLEGAL_UNSEEN
    else:
        result.detail = sentences.ILLEGAL.format(detail=seen.result.detail)
        result.line, result.argument = seen.result.line, seen.result.argument
