"""Run all tests: those of .venv, and beside them the core tests with other sets of versions.

``make test`` runs it; arguments go to pytest. The other sets run at low priority on whatever core
is idle, and what they said is shown at the end.
"""

import os
import subprocess
import sys
import tempfile

from setup_env import ROOT, say


def main(arguments):
    """The exit code: 0 only if everything passed."""
    beside = [sys.executable, os.path.join(ROOT, "scripts", "version_sets.py")]
    if not arguments:
        beside.append("--full")
    with tempfile.TemporaryFile() as said:
        sets = subprocess.Popen(
            beside, stdout=said, stderr=subprocess.STDOUT, preexec_fn=lambda: os.nice(5)
        )
        try:
            code = subprocess.call([sys.executable, "-m", "pytest", *arguments], cwd=ROOT)
            if sets.poll() is None:
                say("waiting for the core tests with the other sets of versions")
            sets.wait()
        finally:
            sets.terminate()
        said.seek(0)
        print(said.read().decode(errors="replace"), flush=True)
    return code or sets.returncode


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit("\nflashlab: stopped")
