"""Time a stranger's first minutes: install, start of the course, first report. Prints a table.

Works on a copy of the repository in a temporary folder; TORCH and PYTHON count as for `make lab`.
Downloads are part of the install's time, so say what network and how busy a machine it was.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SLUG = "flash_forward"


def timed(command, folder, **options):
    """Run a command in ``folder``; returns its seconds and all that it said."""
    start = time.monotonic()
    done = subprocess.run(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
    )
    return time.monotonic() - start, done.stdout


def size_gb(folder):
    """Space on the disk that a folder takes, in GB."""
    said = subprocess.run(["du", "-sk", folder], capture_output=True, text=True, check=True)
    return int(said.stdout.split()[0]) * 1024 / 1e9


def start_of_lab(folder):
    """Seconds from `make lab` until the address stands there and answers."""
    env = {**os.environ, "DISPLAY": "", "FLASHLAB_WORK": str(folder / "work")}
    start = time.monotonic()
    lab = subprocess.Popen(
        ["make", "lab"], cwd=folder, env=env, stdout=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        for line in lab.stdout:
            if re.search(r"The course is at http", line):
                return time.monotonic() - start
        sys.exit("make lab ended without an address")
    finally:
        os.killpg(lab.pid, signal.SIGTERM)
        lab.wait(60)


def first_reports(folder):
    """(what, seconds) of the report on the stub and on a first wrong try."""
    env = {**os.environ, "FLASHLAB_WORK": str(folder / "work")}
    flashlab = [str(folder / ".venv/bin/python"), "-m", "flashlab"]
    timed([*flashlab, "start", SLUG], folder, env=env)
    stub, said = timed([*flashlab, "check", SLUG, "--tier", "cpu"], folder, env=env)
    assert "not written yet" in said, said
    path = folder / "work" / "kernels" / f"{SLUG}.py"
    solution = (folder / "solutions" / f"{SLUG}.py").read_text()
    path.write_text(solution.replace("acc *= (alpha * l_i)[:, None]", "acc *= l_i[:, None]"))
    wrong, said = timed([*flashlab, "check", SLUG, "--tier", "cpu"], folder, env=env)
    assert "FAIL" in said and "Cause" in said, said
    return [(f"report on the stub of {SLUG}", stub), (f"report on a wrong {SLUG}", wrong)]


def main():
    with tempfile.TemporaryDirectory(prefix="flashlab-first-") as name:
        folder = Path(name) / "flashlab"
        subprocess.run(["git", "clone", "-q", str(ROOT), str(folder)], check=True)
        rows = [("install (make setup)", timed(["make", "setup"], folder)[0])]
        again = timed(["make", "setup"], folder)[0]
        print(f"size of .venv: {size_gb(folder / '.venv'):.2f} GB", flush=True)
        rows += [("make setup again", again), ("first make lab", start_of_lab(folder))]
        rows.append(("second make lab", start_of_lab(folder)))
        rows += first_reports(folder)
    for what, seconds in rows:
        print(f"{what:32s} {seconds:7.1f} s")


if __name__ == "__main__":
    main()
