"""What a GPU needs inside a sandbox: devices, the driver, and Triton's C compiler. Floor: front.

Triton compiles a small launcher with the system's C compiler, so that one and Python's header are
shown too. The rest of the closed place stays as it is.
"""

import ctypes
import functools
import os
import re
import sysconfig
from pathlib import Path

from flashlab.grader import gpu

DRIVER = "libcuda.so.1"
COMPILER = ("/usr/bin", "/usr/include", "/usr/libexec/gcc", "/etc/alternatives")
PROBE = f"""
import ctypes
def works():
    try:
        return ctypes.CDLL("{DRIVER}").cuInit(0) == 0
    except OSError:
        return False
"""


@functools.cache
def driver() -> str:
    """The folder of the driver's library as this process finds it; empty if there is none."""
    try:
        ctypes.CDLL(DRIVER)
    except OSError:
        return ""
    found = re.search(r"(/\S*)/libcuda\.so\S*", Path("/proc/self/maps").read_text())
    return found[1] if found else ""


def mounts() -> list[tuple[str, str]]:
    """Read-only, from here to the same place there; what is not on this machine is left out."""
    wanted = (*COMPILER, sysconfig.get_config_var("INCLUDEPY") or "", driver())
    return [(folder, folder) for folder in wanted if folder and os.path.isdir(folder)]


def devices() -> list[str]:
    """Paths of NVIDIA's devices."""
    return [f"/dev/{name}" for name in sorted(os.listdir("/dev")) if name.startswith("nvidia")]


def settings() -> dict[str, str]:
    """Environment: where the driver is, which GPUs count, how they may talk to each other."""
    found = {"TRITON_LIBCUDA_PATH": driver(), "LD_LIBRARY_PATH": driver()} if driver() else {}
    kept = {n: v for n, v in os.environ.items() if n.startswith(gpu.FABRIC)}
    shown = os.environ.get("CUDA_VISIBLE_DEVICES")
    return found | kept | ({} if shown is None else {"CUDA_VISIBLE_DEVICES": shown})
