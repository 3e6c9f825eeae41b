"""``flashlab doctor``: what this machine can run, and what to do where it cannot. Floor: front."""

import importlib.metadata
import platform
import shutil
import sys
from dataclasses import dataclass

from flashlab import compiler, device

SMOKE_LIMIT = 1e-4  # fp16 inputs, fp32 accumulation, values near 1: a sound run stays under 1e-5


@dataclass(frozen=True)
class Finding:
    """One line of the doctor: ``state`` is ok, note or bad; ``remedy`` is empty when ok."""

    name: str
    value: str
    state: str = "ok"
    remedy: str = ""


def examine() -> list[Finding]:
    """All findings on this machine, the smoke kernel last."""
    found = device.detect() if _version("torch") else device.classify("", 0)
    rows = [_python(), _system(), _torch(), _triton(), _numpy()]
    rows += [_package("jupyterlab"), _package("ipywidgets"), _disk()]
    rows.append(
        Finding("tier", f"{found.tier} ({found.name})", "note" if found.note else "ok", found.note)
    )
    rows.append(_sandbox())
    rows.append(_smoke("cpu"))
    if found.capability >= 75:
        rows.append(_smoke("cuda"))
    return rows


def main() -> int:
    """Print the findings; exit code 0 if nothing is bad."""
    rows = examine()
    marks = {"ok": "ok  ", "note": "note", "bad": "BAD "}
    for row in rows:
        print(f"{marks[row.state]}  {row.name:12s} {row.value}")
        if row.remedy:
            print(f"{'':20s}{row.remedy}")
    bad = sum(row.state == "bad" for row in rows)
    print("Everything the course needs is here." if not bad else f"{bad} to mend, see above.")
    return 1 if bad else 0


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _release(version: str) -> tuple[int, ...]:
    numbers = version.split("+")[0].split(".")
    return tuple(int(n) for n in numbers[:2] if n.isdigit())


def _python() -> Finding:
    version = platform.python_version()
    if (3, 11) <= sys.version_info[:2] <= (3, 13):
        return Finding("python", version)
    return Finding(
        "python", version, "bad", "use Python 3.11, 3.12 or 3.13: make lab PYTHON=python3.12"
    )


def _system() -> Finding:
    system = f"{platform.system()} {platform.machine()}"
    if platform.system() == "Linux":
        return Finding("system", system)
    if system == "Darwin arm64":
        remedy = "the course is untested on real Macs: please report what you meet"
        return Finding("system", system, "note", remedy)
    remedy = "Triton has no build for it: use Colab, or on Windows the Linux subsystem (WSL)"
    return Finding("system", system, "bad", remedy)


def _torch() -> Finding:
    version = _version("torch")
    if not version:
        return Finding("torch", "missing", "bad", "run `make setup`")
    if _release(version) < (2, 11):
        return Finding(
            "torch", version, "bad", "the course needs torch 2.11 or newer: `make setup`"
        )
    return Finding("torch", version)


def _triton() -> Finding:
    version = _version("triton")
    if not version:
        return Finding(
            "triton", "missing", "bad", "run `make setup`; on Colab run the set-up cell"
        )
    if not (3, 6) <= _release(version) < (3, 10):
        return Finding(
            "triton", version, "bad", "the course supports Triton 3.6 to 3.9: `make setup`"
        )
    try:
        if compiler.here():
            return Finding("triton", version)
    except ImportError as error:
        return Finding("triton", version, "bad", f"it cannot be imported: {error}")
    return Finding("triton", version, "note", compiler.NONE_HERE)


def _numpy() -> Finding:
    version = _version("numpy")
    return (
        Finding("numpy", version)
        if version
        else Finding("numpy", "missing", "bad", "`make setup`")
    )


def _package(name: str) -> Finding:
    version = _version(name)
    if version:
        return Finding(name, version)
    return Finding(name, "missing", "note", "needed for notebooks only: `make setup` installs it")


def _disk() -> Finding:
    free_gb = shutil.disk_usage(".").free / 1e9
    if free_gb < 1:
        return Finding("disk", f"{free_gb:.1f} GB free", "bad", "free at least 1 GB for your work")
    return Finding("disk", f"{free_gb:.0f} GB free")


def _sandbox() -> Finding:
    """Only `flashlab class grade` needs one, so its lack is a note."""
    if not _version("torch") or not _version("triton"):
        return Finding("sandbox", "not tried: torch and triton are needed first", "note")
    from flashlab.classroom import sandbox

    made = sandbox.Sandbox()
    fault = sandbox.missing(made.kind) or made.fault()
    if not fault:
        return Finding("sandbox", made.title)
    remedy = f"bubblewrap is {fault}" if "installed" in fault else f"bubblewrap: {fault}"
    remedy += sandbox.remedy(made.kind, fault)
    return Finding("sandbox", "none; only `class grade` needs one", "note", remedy)


def _smoke(where: str) -> Finding:
    name = "smoke " + where
    try:
        from flashlab.iocount import count_io
        from flashlab.worked.smoke import smoke

        if where == "cpu":
            with count_io():
                error = smoke()
        else:
            error = smoke("cuda")
    except Exception as problem:
        text = " ".join(str(problem).split())[:200]
        return Finding(
            name, f"failed: {type(problem).__name__}: {text}", "bad", "run `make setup` anew"
        )
    if not error <= SMOKE_LIMIT:
        return Finding(
            name, f"error {error:.1e}", "bad", "wrong numbers: please report your versions"
        )
    return Finding(name, f"a kernel ran, error {error:.1e}")
