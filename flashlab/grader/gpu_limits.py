"""Ends the process of a GPU stage that takes too much of the host. Trusted side. Floor: course.

On a CPU the server that forked a run watches it; here nothing forks, and a limit on a process's
data would refuse CUDA's own reservations.
"""

import contextlib
import os
import signal
import threading

from flashlab import system

MEMORY_BYTES = 24 << 30  # resident, of the host; CUDA and Triton take 2 to 4 GB of it
PROCESSES = 128  # Triton starts compilers
POLL_SECONDS = 0.1


class Watch(threading.Thread):
    """Looks at a process and what is below it until told to stop; kills its group over a limit."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid, self.over = pid, ""  # over: what there was too much of
        self._stopped = threading.Event()
        self.start()

    def run(self) -> None:
        while not self._stopped.wait(POLL_SECONDS):
            count, held = system.look(self.pid, 0)
            if held > MEMORY_BYTES or count > PROCESSES:
                self.over = "memory" if held > MEMORY_BYTES else "processes"
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.pid, signal.SIGKILL)
                return

    def stop(self) -> None:
        """Look no more; the process is about to be reaped."""
        self._stopped.set()
        self.join()
