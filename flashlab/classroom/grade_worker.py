"""A process that marks submissions: a line of JSON in, a line of JSON out. Floor: front.

It ends when its input does, also in the middle of a submission, so that nothing outlives the
command that started it.
"""

import json
import os
import queue
import sys
import threading
from typing import Any


def main() -> None:
    """Serve until stdin closes."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what is printed by accident is no result
    jobs: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(jobs,), daemon=True).start()
    from flashlab.classroom import grade_job

    while True:
        result = grade_job.run(jobs.get())
        out.write(json.dumps(result) + "\n")
        out.flush()


def _read(jobs: "queue.SimpleQueue[dict[str, Any]]") -> None:
    for line in sys.stdin:
        jobs.put(json.loads(line))
    os._exit(0)


if __name__ == "__main__":
    main()
