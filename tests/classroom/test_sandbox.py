"""The sandbox: what it shows, what it stops, which command makes it, and refusal without one."""

import json
import os
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from flashlab.classroom import (
    sandbox,
    sandbox_bwrap,
    sandbox_container,
    sandbox_gpu,
    sandbox_view,
)
from flashlab.classroom.sandbox import BUBBLEWRAP, NONE, Sandbox

COURSE_FILES = """
import json, os
found = [os.path.relpath(os.path.join(d, f), "/flashlab/course")
         for d, _, files in os.walk("/flashlab/course") for f in files]
print(json.dumps({"course": found, "top": os.listdir("/"), "site": os.listdir("/flashlab/site"),
                  "etc": os.listdir("/etc"), "environment": dict(os.environ)}))
"""
FORKS = """
import os, resource, time
print(resource.getrlimit(resource.RLIMIT_NPROC))
resource.setrlimit(resource.RLIMIT_NPROC, (20, 20))
count = 0
try:
    while count < 200:
        if os.fork() == 0:
            time.sleep(5)
            os._exit(0)
        count += 1
except BlockingIOError:
    pass
print(count)
"""
needs_bubblewrap = pytest.mark.skipif(
    not sandbox_bwrap.program(), reason="not run: `apt install bubblewrap` and `make test` run it"
)


def inside(code: str) -> list[str]:
    words = Sandbox().wrap(lambda python: [python, "-I", "-S", "-B", "-c", code])
    run = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


@needs_bubblewrap
def test_it_holds_here() -> None:
    assert Sandbox().fault() == ""
    assert sandbox.choose().kind == BUBBLEWRAP
    assert sandbox.choose().title.startswith("bubblewrap ")


@needs_bubblewrap
def test_it_shows_python_torch_triton_and_the_worker_alone() -> None:
    [line] = inside(COURSE_FILES)
    found = json.loads(line)

    parts = {name.split("/", 2)[1] for name in found["course"]}
    assert parts == {"__init__.py", "compiler.py", "loading.py", "hardware.py", "system.py", "aot",
                     "iocount", "pipeline", "grader"}  # fmt: skip
    grader = {n.split("/")[-1] for n in found["course"] if n.startswith("flashlab/grader/")}
    workers = {"__init__.py", "server.py", "worker.py", "protocol.py", "guard.py", "audit.py",
               "arguments.py"}  # fmt: skip
    assert grader == workers
    assert not any("bounds" in name for name in found["course"])
    assert {"torch", "triton", "numpy"} <= set(found["site"])
    assert not {"flashlab", "pytest", "jupyterlab", "IPython"} & set(found["site"])
    assert set(found["top"]) <= {"dev", "etc", "flashlab", "lib", "lib32", "lib64", "proc", "tmp",
                                 "usr", Path(os.__file__).parts[1]}  # fmt: skip
    assert set(found["etc"]) <= {"ld.so.cache"}
    assert set(found["environment"]) <= {
        *sandbox_bwrap.SETTINGS, *sandbox_bwrap.NO_GPU, "PWD", "LC_CTYPE"}  # fmt: skip


@needs_bubblewrap
def test_the_limit_on_processes_binds() -> None:
    limits, count = inside(FORKS)

    assert limits == str((sandbox_bwrap.TASKS, sandbox_bwrap.TASKS))
    assert 5 <= int(count) <= 20


@needs_bubblewrap
@pytest.mark.skipif(
    os.geteuid() != 0,
    reason="not run: only root can change to another user: `sudo make test` runs it",
)
def test_root_grades_as_another_user() -> None:
    code = "import os; print(os.getuid(), open('/proc/self/uid_map').read().split()[1])"

    inside_user, outside_user = map(int, inside(code)[0].split())

    assert inside_user > sandbox_bwrap.FIRST_USER
    assert outside_user == inside_user  # not a map of root


def test_an_ordinary_user_needs_one_user_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(sandbox_bwrap, "program", lambda: "/usr/bin/bwrap")
    monkeypatch.setattr(sandbox_bwrap, "_options", lambda: "--disable-userns --size")
    view = sandbox_view.View((("/usr/lib", "/usr/lib"),), (), ("/usr/lib/p",), "/py", ())

    words = sandbox_bwrap.words(view, ["/py", "-c", "pass"], 1)

    before = words[: words.index("/usr/lib/p")]
    for name in "unshare-user unshare-pid unshare-net unshare-ipc disable-userns clearenv".split():
        assert before.count(f"--{name}") == 1
    assert {"--die-with-parent", "--new-session"} <= set(before)
    assert words[words.index("--uid") + 1] == "65534"
    assert "setpriv" not in " ".join(words)
    at = words.index("--ro-bind")
    assert words[at : at + 3] == ["--ro-bind", "/usr/lib", "/usr/lib"]
    assert words[words.index("--size") :][2:6] == ["--perms", "1777", "--tmpfs", "/tmp"]
    assert words[-9:] == ["--", "/usr/bin/prlimit", "--nproc=256", "--nofile=1024", "--core=0",
                          "--", "/py", "-c", "pass"]  # fmt: skip


def test_an_older_bubblewrap_gets_no_option_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_bwrap, "_options", lambda: "--perms OCTAL")
    monkeypatch.setattr(sandbox_bwrap, "program", lambda: "/usr/bin/bwrap")

    words = sandbox_bwrap.words(sandbox_view.View((), (), (), "/py", ()), ["/py"], 1)

    assert "--size" not in words and "--disable-userns" not in words


STAND_IN = """#!{python}
import json, os, sys
with open({record!r}, "a") as record:
    record.write(json.dumps(sys.argv[1:]) + "\\n")
words = sys.argv[1:]
at = words.index({image!r})
mounts = [w.rsplit(":", 2) if w.endswith(":ro") else [*w.rsplit(":", 1), "rw"]
          for o, w in zip(words, words[1:]) if o == "--volume"]
code = words[-1]
for here, there, _ in sorted(mounts, key=lambda m: -len(m[1])):
    if there == "/flashlab/meeting":
        code = code.replace(there, here)
code = code.replace("/flashlab/course", {course!r}).replace("/flashlab/site", {site!r})
os.execv({python!r}, [{python!r}, *words[at + 2 : -1], code])
"""


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program called docker that writes down its words and runs the rest here."""
    import sys

    import torch

    record, program = tmp_path / "words", tmp_path / "docker"
    text = STAND_IN.format(
        python=sys.executable,
        record=str(record),
        image="an-image",
        course=str(sandbox_view.PACKAGE.parent),
        site=str(Path(torch.__file__).parents[1]),
    )
    program.write_text(text)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return record


def test_dockers_command_line(docker: Path) -> None:
    words = sandbox_container.words("docker", "an-image", ["python", "-c", "pass"], Path("/m"))

    mounts = [f"{a}:{b}:ro" for a, b in (*sandbox_view.packages(), *sandbox_view.course())]
    every = sandbox_bwrap.SETTINGS | sandbox_bwrap.NO_GPU
    settings = [f"{n}={v}" for n, v in every.items()]
    assert words == [
        str(docker.parent / "docker"), "run", "--rm", "--interactive", "--pull", "missing",
        "--network", "none", "--ipc", "private", "--read-only",
        "--tmpfs", "/tmp:rw,nosuid,nodev,mode=1777,size=268435456",
        "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--user", "65534:65534",
        "--pids-limit", "256", "--memory", "6g", "--memory-swap", "6g",
        "--ulimit", "nofile=1024", "--ulimit", "core=0",
        *[w for s in settings for w in ("--env", s)],
        *[w for m in mounts for w in ("--volume", m)],
        "--tmpfs", "/flashlab/course/flashlab/iocount/bounds:ro,size=4k",
        "--volume", "/m:/flashlab/meeting",
        "an-image", "python", "-c", "pass",
    ]  # fmt: skip
    assert any(m.endswith(":/flashlab/site/torch:ro") for m in mounts)
    assert not any(str(sandbox_view.PACKAGE.parent / "solutions") in m for m in mounts)


def test_a_check_through_a_container_that_calls_back(docker: Path) -> None:
    from flashlab import grader, sources

    with Sandbox("docker", "an-image").open():
        report = grader.check("vector_scale", sources.solution_text("vector_scale"))

    assert report.passed and report.points == 100
    runs = [json.loads(line) for line in docker.read_text().splitlines()]
    assert [run[0] for run in runs] == ["run", "run"]  # the runs' server, the compiler
    assert sum("/flashlab/meeting" in word for run in runs for word in run if ":" in word) >= 1


def test_no_sandbox_is_a_refusal_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_bwrap, "program", lambda: "")
    monkeypatch.setattr(sandbox_container, "program", lambda engine: "")

    with pytest.raises(ValueError) as refused:
        sandbox.choose()

    said = str(refused.value)
    assert "apt install bubblewrap" in said and "docker: not installed" in said
    assert "--unsandboxed" in said
    assert sandbox.choose(NONE) == Sandbox(NONE)


def test_a_sandbox_that_leaks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sandbox, "wrap", lambda self, start, **more: start("python3"))

    fault = Sandbox().fault()

    assert "not so inside" in fault or "does not start" in fault


def test_apparmor_gets_its_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    switch = tmp_path / "switch"
    monkeypatch.setattr(sandbox, "APPARMOR", switch)
    fault = "it does not start: setting up uid map: Permission denied"

    assert sandbox.remedy(BUBBLEWRAP, fault) == ""
    switch.write_text("1\n")
    assert "apparmor_parser" in sandbox.remedy(BUBBLEWRAP, fault)
    assert sandbox.remedy("docker", fault) == ""


COMPILES = """
import pathlib, subprocess, sysconfig
code = "#include <Python.h>\\nint a(void) { return PY_MAJOR_VERSION; }"
pathlib.Path("/tmp/a.c").write_text(code)
command = ["gcc", "-shared", "-fPIC", f"-I{sysconfig.get_config_var('INCLUDEPY')}", "-o",
           "/tmp/a.so", "/tmp/a.c"]
print(subprocess.run(command, capture_output=True, text=True).stderr or "compiled")
"""


@needs_bubblewrap
@pytest.mark.skipif(
    not shutil.which("gcc"), reason="not run: `apt install gcc` and `make test` do"
)
def test_for_a_gpu_tritons_c_compiler_is_inside() -> None:
    words = Sandbox(gpu=True).wrap(lambda python: [python, "-I", "-S", "-c", COMPILES], gpu=True)
    run = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)

    assert run.stdout == "compiled\n", run.stdout + run.stderr


def test_a_gpus_devices_and_driver_are_shown_to_the_gpu_stage_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sandbox_bwrap, "program", lambda: "/usr/bin/bwrap")
    monkeypatch.setattr(sandbox_bwrap, "_options", lambda: "")
    monkeypatch.setattr(sandbox_gpu, "driver", lambda: str(tmp_path))
    monkeypatch.setattr(sandbox_gpu, "devices", lambda: ["/dev/nvidia0"])
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    monkeypatch.setenv("NCCL_NVLS_ENABLE", "0")
    server, lanes = (
        Sandbox(gpu=True)._server(None, ["py", "-I", "-B", "server.py", mode, "5"])
        for mode in ("direct", "fork")
    )

    def setting(words: list[str], name: str) -> str:
        return words[words.index(name) + 1] if name in words else "unset"

    assert setting(server, "CUDA_VISIBLE_DEVICES") == "3"
    assert setting(server, "NCCL_NVLS_ENABLE") == "0"
    assert setting(server, "TRITON_LIBCUDA_PATH") == str(tmp_path)
    assert server[server.index("--dev-bind") + 1] == "/dev/nvidia0"
    assert str(tmp_path) in server
    assert setting(lanes, "CUDA_VISIBLE_DEVICES") == ""
    assert "/dev/nvidia0" not in lanes and str(tmp_path) not in lanes


def test_a_container_is_refused_for_the_gpu_stage(docker: Path) -> None:
    with pytest.raises(ValueError, match="the GPU stage runs in bubblewrap alone"):
        sandbox.choose("docker", gpu=True)


ABOVE = """
import ctypes, json, os
libc = ctypes.CDLL(None, use_errno=True)
PTRACE, READ, UNSHARE, BPF, PERF, ATTACH, NEW_USER = 101, 310, 272, 321, 298, 16, 0x10000000
def opens(path):
    try:
        with open(path, "rb") as file:
            return bool(file.read(1))
    except OSError:
        return False
def call(number, *arguments):
    return libc.syscall(number, *arguments) >= 0
found = {}
for pid in {1, os.getppid()}:
    found |= {f"{pid} {name}": opens(f"/proc/{pid}/{name}") for name in ("mem", "environ", "maps")}
    found[f"{pid} traced"] = call(PTRACE, ATTACH, pid, 0, 0)
    data, one = ctypes.create_string_buffer(8), ctypes.c_ulong * 2
    mine, theirs = one(ctypes.addressof(data), 8), one(0x10000, 8)
    found[f"{pid} read"] = call(READ, pid, mine, 1, theirs, 1, 0)
found["more namespaces"] = call(UNSHARE, NEW_USER)
found["mounts"] = libc.mount(b"x", b"/tmp", b"tmpfs", 0, None) == 0
found["kernel programs"] = call(BPF, 5, 0, 0)
found["core pattern"] = os.access("/proc/sys/kernel/core_pattern", os.W_OK)
found["inherited"] = any(os.path.exists(f"/proc/self/fd/{n}") for n in range(3, 64))
print(json.dumps(found))
"""


@needs_bubblewrap
@pytest.mark.skipif(
    platform.machine() != "x86_64",
    reason="not run: calls by x86-64's numbers; `make test` on such a machine runs it",
)
def test_nothing_above_can_be_read_traced_or_widened() -> None:
    [line] = inside(ABOVE)
    found = json.loads(line)

    assert [name for name, open_ in found.items() if open_] == []
    assert len(found) >= 10
