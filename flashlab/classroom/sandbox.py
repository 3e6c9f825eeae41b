"""The closed place in which a submission's code runs: which one there is, and proof that it holds.

Bubblewrap first, else a container; without either, class grading refuses unless told otherwise.
Floor: front.
"""

import contextlib
import functools
import itertools
import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from flashlab import sources
from flashlab.aot import pool as compilers
from flashlab.classroom import sandbox_bwrap, sandbox_container, sandbox_gpu, sandbox_view
from flashlab.grader import pool

BUBBLEWRAP, NONE = "bubblewrap", "unsandboxed"
KINDS = (BUBBLEWRAP, *sandbox_container.ENGINES, NONE)
PROBE_SECONDS = 60.0
NO_GPU = "the GPU stage runs in bubblewrap alone"
START = "import sys, runpy; sys.path[:] = {path}; sys.argv[:] = {words}; {run}"
PROBE = """
GPU_PROBE
import json, os, socket
def can(do, *args):
    try:
        do(*args)
    except OSError:
        return False
    return True
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status") if ":\\t" in line)
print(json.dumps({
    "another user": os.getuid() not in (0, HOST_USER) or HOST_USER == 65534,
    "no privileges": int(status["CapEff"], 16) == 0 and status["NoNewPrivs"].strip() == "1",
    "processes of its own": sum(p.isdigit() for p in os.listdir("/proc")) < 12,
    "no network": [name for _, name in socket.if_nameindex()] in (["lo"], []),
    "read-only root": not any(can(open, p + "/x", "w") for p in ("/", "/usr", "/flashlab")),
    "scratch space": can(open, "/tmp/x", "w"),
    "no solutions": not os.path.exists(COURSE_FOLDER + "/solutions"),
    "no closed forms": os.listdir("/flashlab/course/flashlab/iocount/bounds") == [],
    "a GPU": not WITH_GPU or works(),
}))
"""
APPARMOR = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
PROFILE = (
    "write /etc/apparmor.d/bwrap with the one line "
    "`profile bwrap /usr/bin/bwrap flags=(unconfined) { userns, }`, then "
    "`sudo apparmor_parser -r /etc/apparmor.d/bwrap`"
)
_numbers = itertools.count()


@dataclass(frozen=True)
class Sandbox:
    """A kind of sandbox.

    Args:
        kind: One of ``KINDS``.
        image: Of a container.
        gpu: Show NVIDIA's devices in it.
        ranks: Show what exercises on several ranks need; they talk over the sandbox's own
            loopback, which leads nowhere else.
    """

    kind: str = BUBBLEWRAP
    image: str = ""
    gpu: bool = False
    ranks: bool = False

    @property
    def title(self) -> str:
        """What reports say, such as "bubblewrap 0.8.0"."""
        if self.kind == BUBBLEWRAP:
            return sandbox_bwrap.version()
        return self.kind if self.kind == NONE else f"{self.kind}, {self.image}"

    def wrap(
        self, start: Callable[[str], list[str]], meeting: Path | None = None, gpu: bool = False
    ) -> list[str]:
        """Words that run ``start(python)`` inside."""
        if self.kind == BUBBLEWRAP:
            view = _view(self.ranks)
            number = 64 * os.getpid() + next(_numbers) % 64
            return sandbox_bwrap.words(view, start(view.python), number, gpu)
        return sandbox_container.words(self.kind, self.image, start("python"), meeting, self.ranks)

    @contextlib.contextmanager
    def open(self) -> Iterator[None]:
        """A fresh sandbox: within this, all checks of this process run in it, and nowhere else."""
        if self.kind == NONE:
            with contextlib.closing(pool.Pool(lanes=1)) as runs, pool.through(runs):
                yield
            return
        with tempfile.TemporaryDirectory(prefix="flashlab-meeting-") as folder:
            meeting = Path(folder) if self.kind != BUBBLEWRAP else None
            Path(folder).chmod(0o711)
            made = pool.Pool(1, functools.partial(self._server, meeting), meeting)
            with (
                contextlib.closing(made) as runs,
                contextlib.closing(compilers.Compiler(self._compiler)) as compiler,
                pool.through(runs),
                compilers.through(compiler),
            ):
                yield

    def _server(self, meeting: Path | None, words: list[str]) -> list[str]:
        """The command of ``grader/server.py`` for this sandbox."""
        mode, control = words[4], words[5]
        if meeting is not None:
            control = f"{sandbox_container.MEETING}/{Path(control).name}"
        return self._python(
            [sandbox_view.SERVER, mode, control],
            f"runpy.run_path({sandbox_view.SERVER!r}, run_name='__main__')",
            meeting,
            self.gpu and mode == "direct",
        )

    def _compiler(self, words: list[str]) -> list[str]:
        """The command of ``aot.worker`` for this sandbox."""
        run = "runpy.run_module('flashlab.aot.worker', run_name='__main__')"
        return self._python(["worker"], run, None)

    def _python(
        self, words: list[str], run: str, meeting: Path | None, gpu: bool = False
    ) -> list[str]:
        if self.kind == BUBBLEWRAP:
            path = list(_view(self.ranks).path)
            code = START.format(path=path, words=[*words, *path], run=run)
            return self.wrap(lambda python: [python, "-I", "-S", "-B", "-c", code], gpu=gpu)
        path = f"[*sys.path, {sandbox_view.SITE!r}, {sandbox_view.COURSE!r}]"
        code = START.format(path=path, words=f"[*{words!r}, *sys.path]", run=run)
        return self.wrap(lambda python: [python, "-I", "-B", "-c", code], meeting)

    def fault(self) -> str:
        """Empty if a trial run shows that the sandbox holds, else what is wrong with it."""
        facts = PROBE.replace("HOST_USER", str(os.getuid()))
        facts = facts.replace("COURSE_FOLDER", repr(str(sources.course_dir())))
        facts = facts.replace("GPU_PROBE", sandbox_gpu.PROBE if self.gpu else "")
        facts = facts.replace("WITH_GPU", str(self.gpu))
        words = self.wrap(lambda python: [python, "-I", "-S", "-B", "-c", facts], gpu=self.gpu)
        try:
            run = subprocess.run(
                words, capture_output=True, text=True, timeout=PROBE_SECONDS, check=False
            )
            found = json.loads(run.stdout)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"it does not start: {error}"
        except ValueError:
            return f"it does not start: {' '.join(run.stderr.split())[-300:] or run.returncode}"
        lacks = [name for name, holds in found.items() if not holds]
        return f"this is not so inside: {', '.join(lacks)}" if lacks else ""


@functools.cache
def _view(ranks: bool) -> sandbox_view.View:
    return sandbox_view.local(ranks)


def choose(wanted: str = "", image: str = "", gpu: bool = False) -> Sandbox:
    """The sandbox to grade in.

    Args:
        wanted: One of ``KINDS``; empty takes the first that holds.
        image: Of a container; empty is the one that fits this Python.
        gpu: The GPU stage will run.

    Raises:
        ValueError: none holds, saying why and what to do.
    """
    if wanted == NONE:
        return Sandbox(NONE)
    said = []
    for kind in (wanted,) if wanted else (BUBBLEWRAP, *sandbox_container.ENGINES):
        made = Sandbox(kind, "" if kind == BUBBLEWRAP else image or sandbox_container.image(), gpu)
        fault = missing(kind) or (NO_GPU if gpu and kind != BUBBLEWRAP else made.fault())
        if not fault:
            return made
        said.append(f"{kind}: {fault}{remedy(kind, fault)}")
    raise ValueError(
        "no sandbox holds on this machine, and learners' code is not run without one. "
        + ". ".join(said)
        + ". `--unsandboxed` grades anyway and is stamped on every report."
    )


def missing(kind: str) -> str:
    """Why a kind cannot be tried at all; empty if it can."""
    found = sandbox_bwrap.program() if kind == BUBBLEWRAP else sandbox_container.program(kind)
    if not found:
        return "not installed" if kind != BUBBLEWRAP else "not installed (apt install bubblewrap)"
    return ""


def remedy(kind: str, fault: str) -> str:
    """What to do about a fault, after a colon; empty where nothing is known."""
    if kind == BUBBLEWRAP and "does not start" in fault and _apparmor_forbids():
        return f"; AppArmor forbids user namespaces here: {PROFILE}"
    return ""


def _apparmor_forbids() -> bool:
    try:
        return APPARMOR.read_text().strip() == "1"
    except OSError:
        return False
