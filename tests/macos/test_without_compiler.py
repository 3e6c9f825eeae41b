"""The CPU tier without Triton's compiled part, and without what Linux alone has.

Run by ``scripts/version_sets.py`` in an environment that has Triton's Python files only, as a Mac
has them, and whose ``sitecustomize`` hides /proc and the calls that macOS lacks. What answers get
there is compared with what they get in the environment of the other tests.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from flashlab import compiler, doctor, exercises, learner, sources, system
from flashlab.grader import pool
from flashlab.grader.run import check

ROOT = Path(__file__).parents[2]
FULL = os.environ.get("FLASHLAB_COMPILED_PYTHON", "")  # the Python of the other tests
SOME = ["flash_forward", "flash2_backward", "flash3_forward"]
DARWIN = """
import os, platform, sys, sysconfig
import torch
sysconfig.get_config_vars()  # of this Python, which macOS would not find
sys.platform, platform._uname_cache = "darwin", None
os.uname = lambda: os.uname_result(("Darwin", "mac", "24.0", "", "arm64"))
from flashlab import doctor, sources, system
from flashlab.grader.run import check
assert system.LOOPBACK == "lo0"
assert check("vector_scale", sources.solution_text("vector_scale")).points == 100
sys.exit(doctor.main())
"""
pytestmark = pytest.mark.nocompiler
both = pytest.mark.skipif(
    not FULL,
    reason="not run: `make test` runs it, with the environment that has the compiled part",
)


def compared(where: str, mistakes: int, slugs: list[str], seconds: float) -> None:
    """Equal statuses, bytes, errors and mistakes on both sides; prints the time of each."""
    words = [str(Path(__file__).parent / "runs.py"), where, str(mistakes), *slugs]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    sides = []
    for python in (FULL, sys.executable):
        done = subprocess.run(
            [python, *words], env=env, capture_output=True, text=True, timeout=seconds
        )
        assert done.returncode == 0, done.stderr[-4000:]
        sides.append(json.loads(done.stdout))
    full, ours = sides
    assert (full["compiler"], ours["compiler"]) == (True, False)
    for slug in slugs:
        one, other = full["slugs"][slug], ours["slugs"][slug]
        print(f"{slug:24s} {one.pop('seconds'):6.1f} s {other.pop('seconds'):6.1f} s without")
        assert one["status"] == "pass" and one["runs"]
        assert other == one


@both
def test_every_eighth_case_of_some_exercises_comes_out_the_same() -> None:
    compared("::8", 1, SOME, 300)


@both
@pytest.mark.slow
@pytest.mark.parametrize("slug", exercises.SYLLABUS)
def test_every_case_comes_out_the_same(slug: str) -> None:
    compared(":", 3, [slug], 1200)


def test_the_compiled_part_is_missing() -> None:
    bare = subprocess.run(
        [sys.executable, "-c", "import triton"], capture_output=True, text=True, timeout=60
    )
    assert bare.returncode == 1 and "libtriton" in bare.stderr
    assert not compiler.here() and not system.LINUX


def test_a_check_says_what_was_not_run_and_asks_no_points_for_it() -> None:
    report = check("vector_scale", sources.solution_text("vector_scale"))

    assert report.status == "pass" and report.points == 100
    assert "resources" not in report.points_by_part
    [stage] = [s for s in report.stages if s.name == "compile"]
    assert (stage.status, stage.detail) == ("not run", compiler.NONE_HERE)
    assert f"compile checks: {compiler.NONE_HERE}" in report.not_run


def test_inspect_says_that_there_is_no_compiler(capsys: pytest.CaptureFixture[str]) -> None:
    rows = learner.inspect("vector_scale", "sm_90", solution=True)

    assert [(row.ok, row.error, row.sentence) for row in rows] == [
        (False, "not run", compiler.NONE_HERE)
    ]
    assert compiler.NONE_HERE in capsys.readouterr().out


def test_a_worked_hopper_kernel_is_not_run_either() -> None:
    rows = learner.inspect("flash3_backward", "sm_90")

    assert rows and {row.error for row in rows} == {"not run"}


def test_the_compiler_itself_says_so_when_it_is_called() -> None:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import ASTSource

    from flashlab.worked import vector_add

    kernel = vector_add.vector_add_kernel
    source = ASTSource(kernel, dict.fromkeys(kernel.arg_names, "i32"))
    with pytest.raises(RuntimeError, match="no compiler here"):
        source.make_ir(GPUTarget("cuda", 80, 32), None, {}, {}, triton._C.libtriton.ir.context())


def test_the_doctor_says_so_and_finds_nothing_bad() -> None:
    rows = {row.name: row for row in doctor.examine()}

    assert rows["triton"].state == "note" and compiler.NONE_HERE in rows["triton"].remedy
    assert [row.name for row in rows.values() if row.state == "bad"] == []


def test_a_process_that_takes_itself_for_a_mac_grades_too() -> None:
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", DARWIN], env=env, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "Darwin arm64" in done.stdout and "untested on real Macs" in done.stdout


@pytest.mark.parametrize(
    ("work", "status"),
    [
        ("", "pass"),
        ("while True:\n    pass\n", "timeout"),
        ("heap = []\nwhile True:\n    heap.append(b'x' * (4 << 20))\n", "oom"),
    ],
)
def test_time_and_memory_are_limited(work: str, status: str) -> None:
    text = sources.solution_text("attention_cost") + "\n" + work
    case = exercises.get("attention_cost").cases[0].name
    limits = pool.Limits(cpu_seconds=3, wall_seconds=6.0, memory_bytes=256 << 20)

    assert check("attention_cost", text, cases=[case], limits=limits).status == status
