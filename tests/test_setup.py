"""The environment's script: every refusal is one sentence, and what is done is not done twice."""

import ast
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts" / "setup_env.py"


@pytest.fixture
def setup_env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module, with ``.venv`` in a temporary folder."""
    spec = importlib.util.spec_from_file_location("setup_env", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "VENV", str(tmp_path / "venv"))
    for name in ("PYTHON", "TORCH", "CI"):
        monkeypatch.delenv(name, raising=False)
    return module


@pytest.fixture
def commands(setup_env: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that the script would run; making an environment makes a Python."""
    ran = []

    def run(command: list[str], quiet: bool = False) -> bool:
        ran.append(command)
        if command[1:3] == ["-m", "venv"]:
            _fake_python(Path(setup_env.VENV) / "bin" / "python", "3.12")
        return True

    monkeypatch.setattr(setup_env, "run", run)
    monkeypatch.setattr(setup_env, "find_python", lambda wanted: sys.executable)
    return ran


def _fake_python(path: Path, version: str) -> None:
    """A command that says it is Python ``version``; empty: one that exists and does not run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {version}\n" if version else "#!/bin/sh\nexit 127\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("system", "machine", "way_out"),
    [
        ("Darwin", "x86_64", "Python for arm64"),
        ("FreeBSD", "amd64", "Google Colab"),
        ("Windows", "AMD64", "WSL"),
        ("Linux", "riscv64", "x86_64"),
    ],
)
def test_refuses_machines_without_triton(setup_env, system, machine, way_out):
    with pytest.raises(setup_env.Refused, match=way_out):
        setup_env.check_machine(system, machine)


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_takes_machines_with_triton(setup_env, machine):
    setup_env.check_machine("Linux", machine)


def test_takes_macs_that_torch_is_built_for(setup_env):
    for version in ("14.0", "15", "26.1", "10.16", ""):
        setup_env.check_machine("Darwin", "arm64", version)
    with pytest.raises(setup_env.Refused, match="macOS 14 and this is macOS 13.6.1"):
        setup_env.check_machine("Darwin", "arm64", "13.6.1")


def test_a_mac_gets_tritons_python_files_and_torch_as_it_is(setup_env, commands, monkeypatch):
    """Also with TORCH=cpu, which means another torch on Linux alone."""
    monkeypatch.setattr(setup_env.platform, "system", lambda: "Darwin")
    monkeypatch.setattr(setup_env.platform, "machine", lambda: "arm64")
    monkeypatch.setattr(setup_env.platform, "mac_ver", lambda: ("15.1", (), "arm64"))
    asked = []
    monkeypatch.setattr(setup_env, "triton_sources", lambda *what: asked.append(what) or True)
    setup_env.set_up(torch="cpu")
    setup_env.set_up(torch="cpu")

    lock = ROOT / "requirements.lock"
    assert asked == [(setup_env.VENV, setup_env.pinned(str(lock), "triton"))]
    assert not any("+cpu" in word for command in commands for word in command)
    assert any(str(lock) in command for command in commands)


def test_of_a_build_for_linux_the_python_files_are_kept(setup_env, tmp_path, monkeypatch):
    site = tmp_path / "site"
    for old in ("triton", "triton-3.6.0.dist-info", "tritonclient"):
        (site / old).mkdir(parents=True)
    monkeypatch.setattr(setup_env, "site_packages", lambda venv: str(site))

    def pip(venv, *words, **_):
        folder = Path(words[words.index("--target") + 1])
        assert words[-1] == "triton==3.7.1" and "--no-deps" in words
        names = ("triton/knobs.py", "triton/_C/libtriton.so", "triton/_C/libtriton/ir.pyi",
                 "triton/backends/nvidia/bin/ptxas", "triton-3.7.1.dist-info/METADATA",
                 "bin/proton")  # fmt: skip
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text("")
        return True

    monkeypatch.setattr(setup_env, "pip", pip)
    assert setup_env.triton_sources(str(tmp_path), "3.7.1")
    found = {p.relative_to(site).as_posix() for p in site.rglob("*") if p.is_file()}
    assert found == {"triton/knobs.py", "triton/_C/libtriton/ir.pyi",
                     "triton-3.7.1.dist-info/METADATA"}  # fmt: skip
    assert (site / "tritonclient").is_dir() and not (site / "triton-3.6.0.dist-info").exists()


@pytest.mark.parametrize(("torch", "free_gb"), [("", 7.9), ("cpu", 2.9)])
def test_refuses_a_full_disk(setup_env, torch, free_gb):
    with pytest.raises(setup_env.Refused, match=f"{free_gb} GB are free"):
        setup_env.check_disk(free_gb * 1e9, torch)
    setup_env.check_disk((free_gb + 0.2) * 1e9, torch)


def test_a_full_disk_is_told_the_smaller_install(setup_env):
    with pytest.raises(setup_env.Refused, match="TORCH=cpu make lab"):
        setup_env.check_disk(4e9, "")


@pytest.mark.parametrize(
    ("on_path", "chosen"),
    [
        ({"python3": "3.11"}, "python3"),
        ({"python3": "3.8", "python3.12": "3.12"}, "python3.12"),
        ({"python3": "3.14", "python3.13": "", "python3.11": "3.11"}, "python3.11"),
    ],
    ids=["first", "newer-beside-old", "stand-in-that-does-not-run"],
)
def test_finds_a_python_that_runs(setup_env, tmp_path, monkeypatch, on_path, chosen):
    for name, version in on_path.items():
        _fake_python(tmp_path / "bin" / name, version)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert setup_env.find_python("") == chosen


def test_too_old_a_python_is_one_sentence(setup_env, tmp_path, monkeypatch):
    _fake_python(tmp_path / "bin" / "python3", "3.8")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(setup_env.Refused, match=r"3\.11 to 3\.13 and found 3\.8: install one"):
        setup_env.find_python("")


def test_a_named_python_that_does_not_fit_is_refused(setup_env, tmp_path):
    old = tmp_path / "old-python"
    _fake_python(old, "3.9")
    with pytest.raises(setup_env.Refused, match=r"is Python 3\.9, and the course needs"):
        setup_env.find_python(str(old))
    with pytest.raises(setup_env.Refused, match="is no Python that runs"):
        setup_env.find_python(str(tmp_path / "missing"))


def test_the_second_time_nothing_runs(setup_env, commands):
    setup_env.set_up()
    assert [command[2] for command in commands] == ["venv", "pip", "pip"]
    commands.clear()
    setup_env.set_up()
    assert commands == []


def test_tests_need_their_own_packages_once(setup_env, commands):
    setup_env.set_up()
    commands.clear()
    setup_env.set_up(test=True)
    assert [command[-1] for command in commands] == [str(ROOT / "requirements-test.lock")]
    commands.clear()
    setup_env.set_up(test=True)
    setup_env.set_up()
    assert commands == []


def test_a_failed_install_is_tried_again(setup_env, commands, monkeypatch):
    with monkeypatch.context() as offline:
        offline.setattr(setup_env, "pip", lambda *arguments, **options: False)
        with pytest.raises(setup_env.Refused, match="run the same command again"):
            setup_env.set_up()
    commands.clear()
    setup_env.set_up()
    assert [command[2] for command in commands] == ["pip", "pip"]


def test_an_environment_whose_python_is_gone_is_made_anew(setup_env, commands):
    setup_env.set_up()
    _fake_python(Path(setup_env.VENV) / "bin" / "python", "")
    commands.clear()
    setup_env.make_venv(setup_env.VENV, "")
    assert [command[2] for command in commands] == ["venv"]


def test_torch_cpu_asks_pip_first_and_uv_only_then(setup_env, commands, monkeypatch):
    assert setup_env.install_torch_cpu(setup_env.VENV, "2.13.0")
    assert [command[-1] for command in commands] == ["torch==2.13.0+cpu"]
    commands.clear()
    record = setup_env.run
    monkeypatch.setattr(
        setup_env, "run", lambda c, quiet=False: record(c) and not c[-1].endswith("+cpu")
    )
    assert setup_env.install_torch_cpu(setup_env.VENV, "2.13.0")
    assert [command[-1] for command in commands] == ["torch==2.13.0+cpu", "uv", "torch==2.13.0"]
    assert "--torch-backend=cpu" in commands[-1]


def test_an_unknown_torch_is_refused(setup_env):
    with pytest.raises(setup_env.Refused, match="TORCH=gpu is not known"):
        setup_env.set_up(torch="gpu")


def test_ci_shows_no_index_addresses(setup_env, commands, monkeypatch):
    monkeypatch.setenv("CI", "true")
    setup_env.pip(setup_env.VENV, "rich")
    assert "-qq" in commands[-1]


def test_the_script_is_read_by_old_pythons():
    ast.parse(SCRIPT.read_text(), feature_version=(3, 6))


def test_a_refusal_is_one_line_and_an_exit_code(tmp_path):
    done = subprocess.run(
        [sys.executable, str(SCRIPT)],
        env={**os.environ, "TORCH": "gpu"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("flashlab: TORCH=gpu is not known")
