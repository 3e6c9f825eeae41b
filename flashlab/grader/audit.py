"""Refuses what no answer needs while it runs in a worker: files, programs, hidden code, peeking.

A breach is noted even if the answer catches the exception. It explains; the separate process
protects. Runs beside learners' code: imports torch and the standard library alone.
"""

import os
import sys
import sysconfig
from typing import Any

import torch

from flashlab.grader.guard import Watch

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_EVENTS = {
    "files": "os.remove os.rename os.mkdir os.rmdir os.link os.symlink os.truncate os.chmod "
    "os.chown os.utime os.setxattr os.removexattr shutil.rmtree shutil.move shutil.copyfile",
    "programs": "subprocess.Popen os.exec os.system os.posix_spawn os.spawn pty.spawn os.killpg",
    "peek": "gc.get_objects gc.get_referrers gc.get_referents ctypes.dlopen ctypes.dlsym",
    "threads": "_thread.start_new_thread",
}
_RULES = {event: rule for rule, events in _EVENTS.items() for event in events.split()}
_READABLE = ("/dev/null", "/dev/urandom", "/proc/cpuinfo", "/proc/meminfo", "/sys/devices/")
# Of the course: no answers in them,
_OPEN_PARTS = ("iocount", "aot", "pipeline", "ring", "grader")
_CLOSED = ("iocount", "bounds")  # but for the closed forms, which io_cost asks for


class Breach(Exception):
    """The answer did what no answer needs; the text says what."""


class Audit:
    """From its making on, and while ``watch.armed``, refuse and note. It cannot be taken back."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        paths = sysconfig.get_paths()
        roots = {paths[k] for k in ("stdlib", "platstdlib", "purelib", "platlib")}
        roots |= {os.path.dirname(os.path.dirname(torch.__file__)), *_READABLE}
        self.course = os.path.realpath(os.path.dirname(os.path.dirname(__file__))) + os.sep
        self.here = tuple(self.course + part + os.sep for part in _OPEN_PARTS)
        self.closed = os.path.join(self.course, *_CLOSED) + os.sep
        self.outside = tuple(os.path.realpath(r) for r in roots)
        sys.addaudithook(self.hook)

    def hook(self, event: str, args: tuple[Any, ...]) -> None:
        """Called by Python for every event; raises for those that an answer may not cause."""
        if not self.watch.armed:
            return
        if event == "open":
            self._open(args[0], args[2] or 0)
        elif event == "import":
            parts = args[0].split(".")
            if parts[0] == "flashlab" and parts[1:]:
                if parts[1] not in _OPEN_PARTS or tuple(parts[1:3]) == _CLOSED:
                    self._refuse("course", f"import {args[0]}")
        elif event in ("exec", "compile"):
            if sys._getframe(1).f_code.co_filename == self.watch.filename:
                self._refuse("code", event)
        elif event == "os.kill":
            if args[0] != os.getpid():
                self._refuse("programs", event)
        elif event in _RULES:
            self._refuse(_RULES[event], event)
        elif event.startswith("socket."):
            self._refuse("programs", event)

    def _open(self, path: Any, flags: int) -> None:
        if isinstance(path, int):
            return
        name, writes = os.fsdecode(path), flags & _WRITES
        if name == self.watch.filename and not writes:
            return
        real = os.path.realpath(name)
        known = self.here if real.startswith(self.course) else self.outside
        allowed = real.startswith(known) and not real.startswith(self.closed)
        if real != os.devnull and (writes or not allowed):
            self._refuse("files", f"open {name!r}")

    def _refuse(self, rule: str, what: str) -> None:
        self.watch.breach(rule, what, self.watch.line(3))
        raise Breach(f"{what}: an answer may not do this during a check")
