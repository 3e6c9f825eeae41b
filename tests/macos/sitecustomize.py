"""Takes from this Python what macOS does not have; its environment runs the course without it.

Python imports it when it starts, in servers and workers too. The course may not read /proc here,
nor call what Linux alone has.
"""

import ctypes
import os
import sys


def _hidden(self: ctypes.CDLL, name: str) -> object:
    if name == "prctl":
        raise AttributeError(name)
    return _found(self, name)


def _no_proc(event: str, args: tuple) -> None:
    if event in ("open", "os.listdir", "os.scandir") and str(args[0]).startswith("/proc"):
        frame = sys._getframe(1)
        for _ in range(6):
            if frame is None:
                return
            if f"{os.sep}flashlab{os.sep}" in frame.f_code.co_filename:
                raise FileNotFoundError(args[0])
            frame = frame.f_back


for _name in ("pidfd_open", "memfd_create", "sched_getaffinity", "waitid", "eventfd"):
    if hasattr(os, _name):
        delattr(os, _name)
_found = ctypes.CDLL.__getattr__
ctypes.CDLL.__getattr__ = _hidden
sys.addaudithook(_no_proc)
