"""What a check costs is counted wherever it is used."""

import os
import subprocess
import sys
import time

from flashlab import exercises, sources
from flashlab.bench import grading

BUSY = "import time\nwhile time.process_time() < 0.4: pass\nprint(flush=True)\ninput()"


def test_core_seconds_count_processes_below():
    before = grading.core_seconds()
    script = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {BUSY!r}])"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        process.stdout.readline()  # the grandchild has used its time and waits
        assert 0.3 < grading.core_seconds() - before
        process.communicate(b"\n")


def test_waiting_costs_nothing():
    before = grading.core_seconds()
    time.sleep(0.3)
    assert grading.core_seconds() - before < 0.2


def test_every_exercise_has_a_wrong_kernel_to_measure():
    for slug in exercises.SYLLABUS:
        text = grading.wrong(exercises.get(slug))
        assert sources.text_hash(text) != sources.text_hash(
            sources.without_markers(sources.solution_text(slug))
        )
    assert os.getpid() not in grading._below(os.getpid())
