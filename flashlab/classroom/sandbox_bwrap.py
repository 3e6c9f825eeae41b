"""Bubblewrap's command line: namespaces, a read-only root, limits, another user. Floor: front.

As root the process changes to a user number of its own before learner code starts, since limits on
processes do not bind root; the user namespace is then made by that user.
"""

import functools
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import PurePosixPath

from flashlab.classroom import sandbox_gpu
from flashlab.classroom.sandbox_view import View

TASKS = 256  # processes and threads
SCRATCH_BYTES = 256 << 20  # of /tmp, its only writable place
OPEN_FILES = 1024
FIRST_USER = 1_000_000_000  # far above every account
NOBODY = 65534
SEPARATE = ("--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts")
SETTINGS = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/tmp",
    "TMPDIR": "/tmp",
    "LANG": "C.UTF-8",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "TRITON_DEFAULT_FP_FUSION": "1",
    "TRITON_CACHE_DIR": "/tmp/triton",
}
NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}


@functools.cache
def program() -> str:
    """Where bubblewrap is; empty if it is not."""
    return shutil.which("bwrap") or ""


@functools.cache
def _options() -> str:
    run = subprocess.run([program(), "--help"], capture_output=True, text=True, check=False)
    return run.stdout + run.stderr


def version() -> str:
    """Such as "bubblewrap 0.8.0"."""
    run = subprocess.run([program(), "--version"], capture_output=True, text=True, check=False)
    return run.stdout.strip()


def words(view: View, command: Sequence[str], number: int, gpu: bool = False) -> list[str]:
    """``command`` in a sandbox.

    Args:
        view: What is visible.
        command: Words to run inside.
        number: Tells sandboxes that run side by side apart.
        gpu: Show NVIDIA's devices, and the compiler that Triton's launcher needs.
    """
    root = os.geteuid() == 0
    inside = list(_limits())
    if root:
        user = str(FIRST_USER + number)
        inside += ["/usr/bin/setpriv", "--reuid", user, "--regid", user, "--clear-groups"]
        inside += ["--no-new-privs", "--inh-caps=-all", "--bounding-set=-all"]
        inside += ["--", program(), *_user_namespace(), "--dev-bind", "/", "/", "--cap-drop"]
        inside += ["ALL", "--die-with-parent", "--"]
    outer = [program(), *SEPARATE, "--unshare-cgroup-try", "--die-with-parent", "--new-session"]
    if not root:
        outer += [*_user_namespace(), "--uid", str(NOBODY), "--gid", str(NOBODY)]
        outer += ["--cap-drop", "ALL"]
    outer += ["--clearenv"]
    for name, value in (SETTINGS | (sandbox_gpu.settings() if gpu else NO_GPU)).items():
        outer += ["--setenv", name, value]
    tools = [inside[0], *(["/usr/bin/setpriv", program()] if root else [])]
    return [*outer, *_files(view, tools, gpu), "--", *inside, *command]


def _limits() -> tuple[str, ...]:
    tasks, files = f"--nproc={TASKS}", f"--nofile={OPEN_FILES}"
    return ("/usr/bin/prlimit", tasks, files, "--core=0", "--")


def _user_namespace() -> list[str]:
    """A user namespace in which no further one can be made, where bubblewrap knows how."""
    known = "--disable-userns" in _options()
    return ["--unshare-user", *(["--disable-userns"] if known else [])]


def _files(view: View, tools: Sequence[str], gpu: bool) -> list[str]:
    """Folders, mounts, links, /proc, /dev, scratch space; then the root becomes read-only."""
    mounts = [*view.mounts, *((tool, tool) for tool in tools)]
    if gpu:
        mounts += sandbox_gpu.mounts()
    made: dict[str, None] = {}
    for _, there in mounts:
        made |= {str(p): None for p in reversed(PurePosixPath(there).parents) if str(p) != "/"}
    made = {p: None for p in made if not any(_below(p, there) for _, there in mounts)}
    found = [word for p in made for word in ("--perms", "0755", "--dir", p)]
    for source, there in mounts:
        found += ["--ro-bind", source, there]
    for name, target in view.links:
        found += ["--symlink", target, name]
    for folder in view.empty:
        found += ["--perms", "0755", "--tmpfs", folder, "--remount-ro", folder]
    found += ["--proc", "/proc", "--dev", "/dev"]
    if gpu:
        found += [word for d in sandbox_gpu.devices() for word in ("--dev-bind", d, d)]
    if "--size" in _options():
        found += ["--size", str(SCRATCH_BYTES)]
    return [*found, "--perms", "1777", "--tmpfs", "/tmp", "--remount-ro", "/"]


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + "/")
