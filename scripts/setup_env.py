"""Make the course's environment in .venv, once: ``make setup`` and all other targets run it.

Needs a bare Python 3 alone, and runs on ones too old for the course so that it can say so. What is
done is stamped in .venv: a second run checks hashes and neither installs nor asks the network.
"""

import argparse
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.path.join(ROOT, ".venv")
PYTHONS = ("3.11", "3.12", "3.13")
MACHINES = ("x86_64", "aarch64")
MACOS = 14  # the oldest that torch is built for
LINUX_BUILDS = ("manylinux_2_27_x86_64", "manylinux_2_28_x86_64")  # of Triton
DISK_GB = {"": 8, "cpu": 3}  # free space wanted, by the value of TORCH


class Refused(Exception):
    """Set-up cannot go on; the message is one sentence with the way out."""


def check_machine(system, machine, macos=""):
    """Refuse where torch or Triton has no build. ``macos`` is the version of that system."""
    if system == "Darwin":
        return check_mac(machine, macos)
    if system != "Linux":
        way = "WSL (Windows Subsystem for Linux)" if system == "Windows" else "a Linux machine"
        raise Refused(
            "Triton, which the kernels are written in, has no build for %s: use %s, or open the "
            "labs on Google Colab." % (system, way)
        )
    if machine not in MACHINES:
        raise Refused(
            "Triton has no build for %s processors: use an %s machine, or open the labs on "
            "Google Colab." % (machine, " or ".join(MACHINES))
        )


def check_mac(machine, macos):
    """Refuse a Mac that torch has no build for."""
    if machine != "arm64":
        raise Refused(
            "torch has no build for Intel Macs, nor for an Intel Python on Apple silicon: use a "
            "Python for arm64, or open the labs on Google Colab."
        )
    # Some Pythons call every later version 10.16; no arm64 Mac has a 10
    if 10 < int(macos.split(".")[0] or 0) < MACOS:
        raise Refused(
            "torch needs macOS %d and this is macOS %s: update it, or open the labs on Google "
            "Colab." % (MACOS, macos)
        )


def check_disk(free_bytes, torch):
    """Refuse when the download would fill the disk."""
    need = DISK_GB[torch]
    if free_bytes < need * 10**9:
        smaller = "" if torch == "cpu" else ", or run TORCH=cpu make lab (%d GB)" % DISK_GB["cpu"]
        raise Refused(
            "The environment needs %d GB of free disk and %.1f GB are free: make room%s."
            % (need, free_bytes / 1e9, smaller)
        )


def python_version(command):
    """``"3.11"`` for a Python that runs and can make environments; else ``""``.

    A command may exist and not run (version managers put such stand-ins on PATH).
    """
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run(
            [command, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode().strip() if done.returncode == 0 else ""


def find_python(wanted):
    """The command of a Python that fits: ``wanted`` if given, else the first that is found."""
    if wanted:
        version = python_version(wanted)
        if version not in PYTHONS:
            raise Refused(
                "PYTHON=%s is %s, and the course needs Python %s."
                % (wanted, version and "Python " + version or "no Python that runs", in_words())
            )
        return wanted
    names = ["python3"] + ["python" + version for version in reversed(PYTHONS)]
    seen = [(name, python_version(name)) for name in names]
    for name, version in seen:
        if version in PYTHONS:
            return name
    raise Refused(
        "The course needs Python %s and found %s: install one (Debian, Ubuntu: apt install "
        "python3 python3-venv; macOS: brew install python@3.12) or name yours, as in "
        "PYTHON=/path/to/python3.12 make lab."
        % (in_words(), ", ".join(sorted({v for _, v in seen if v})) or "none")
    )


def in_words():
    return "%s to %s" % (PYTHONS[0], PYTHONS[-1])


def run(command, quiet=False):
    """True if the command succeeded; its output is shown unless ``quiet``."""
    sink = subprocess.DEVNULL if quiet else None
    return subprocess.call(command, stdout=sink, stderr=sink, cwd=ROOT) == 0


def pip(venv, *arguments, **options):
    """Run pip of the environment ``venv``; in CI without progress bars and index addresses."""
    command = [os.path.join(venv, "bin", "python"), "-m", "pip", "install"]
    command += ["--disable-pip-version-check"]
    if os.environ.get("CI") == "true":
        command.append("-qq")
    return run(command + list(arguments), **options)


def make_venv(venv, wanted):
    """Make ``venv`` unless it holds a Python that fits and runs."""
    version = python_version(os.path.join(venv, "bin", "python"))
    if version in PYTHONS and not wanted:
        return
    command = find_python(wanted)
    if version and version == python_version(command):
        return
    say("Making %s with Python %s" % (os.path.relpath(venv, ROOT), python_version(command)))
    if not run([command, "-m", "venv", "--clear", venv]):
        raise Refused(
            "Python could not make an environment: install its venv module (Debian, Ubuntu: "
            "apt install python3-venv) and run the same command again."
        )


def pinned(lock, name):
    """The version of ``name`` that the lock file ``lock`` pins."""
    with open(lock) as lines:
        return re.search(r"^%s==([^\s;]+)" % re.escape(name), lines.read(), re.MULTILINE).group(1)


def install_torch_cpu(venv, version):
    """torch without CUDA: from the indexes that pip knows, else where uv knows to find it."""
    say("Installing torch %s without CUDA" % version)
    if pip(venv, "torch==%s+cpu" % version, quiet=True):
        return True
    python = os.path.join(venv, "bin", "python")
    uv = [python, "-m", "uv", "pip", "install", "--python", python, "--torch-backend=cpu"]
    return pip(venv, "uv") and run(uv + ["torch==" + version])


def site_packages(venv):
    """The folder of an environment's packages."""
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    python = os.path.join(venv, "bin", "python")
    return subprocess.check_output([python, "-I", "-c", code]).decode().strip()


def triton_sources(venv, version):
    """Triton's Python files alone, for a system that it has no build for.

    They come from its build for Linux, whose hash pip compares with the index's. The compiled
    files are left out: the course stands in for what interpreting kernels needs of them.
    """
    say("Installing Triton's Python files, from its build for Linux (0.2 GB to fetch)")
    site = site_packages(venv)
    with tempfile.TemporaryDirectory(dir=venv) as folder:
        how = ["--no-deps", "--only-binary", ":all:", "--target", folder]
        for build in LINUX_BUILDS:
            how += ["--platform", build]
        if not pip(venv, *how, "triton==" + version):
            return False
        for parent, _, names in os.walk(os.path.join(folder, "triton")):
            for name in names:
                if not name.endswith((".py", ".pyi")):
                    os.remove(os.path.join(parent, name))
        for name in os.listdir(site):
            if re.match(r"triton(-[^-]*\.dist-info)?$", name):
                shutil.rmtree(os.path.join(site, name))
        for name in os.listdir(folder):
            if name.startswith("triton"):
                shutil.move(os.path.join(folder, name), site)
    return True


def stamp_of(path):
    """The hash of a file's contents."""
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def stamp_path(venv, step):
    return os.path.join(venv, ".done-" + step)


def once(venv, step, key, install):
    """Run ``install`` unless the stamp of ``step`` in ``venv`` says ``key``; True if it ran."""
    path = stamp_path(venv, step)
    if os.path.exists(path):
        with open(path) as file:
            if file.read() == key:
                return False
    if not install():
        raise Refused(
            "Installing stopped before its end (see above): run the same command again, "
            "what is downloaded is kept."
        )
    with open(path, "w") as file:
        file.write(key)
    return True


def say(text):
    print("flashlab: " + text, flush=True)


def set_up(wanted="", torch="", test=False):
    """Make or complete .venv. ``torch`` is the value of TORCH: empty or ``"cpu"``."""
    if torch not in DISK_GB:
        raise Refused("TORCH=%s is not known: leave it away, or say TORCH=cpu." % torch)
    started = time.time()
    check_machine(platform.system(), platform.machine(), platform.mac_ver()[0])
    mac = platform.system() == "Darwin"
    small = mac or torch == "cpu"  # no CUDA libraries
    step = "test-packages" if test else "packages"
    lock = os.path.join(ROOT, "requirements-test.lock" if test else "requirements.lock")
    if not os.path.exists(stamp_path(VENV, "project")):
        check_disk(shutil.disk_usage(ROOT).free, "cpu" if small else "")
    make_venv(VENV, wanted)

    def packages():
        version = pinned(lock, "torch")
        if torch == "cpu" and not mac and not install_torch_cpu(VENV, version):
            return False
        size = "0.5 GB" if small else "up to 3 GB with NVIDIA's libraries"
        say("Installing the packages of %s (%s)" % (os.path.basename(lock), size))
        return pip(VENV, "-r", lock)

    def project():
        say("Installing the course itself, from this folder")
        return pip(VENV, "--no-deps", "-e", ROOT)

    did = [once(VENV, step, stamp_of(lock), packages)]
    if mac:
        triton = pinned(lock, "triton")
        did.append(once(VENV, "triton", triton, lambda: triton_sources(VENV, triton)))
    did.append(once(VENV, "project", stamp_of(os.path.join(ROOT, "pyproject.toml")), project))
    if any(did):
        say("The environment is ready (%d s)." % (time.time() - started))


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--test", action="store_true", help="also what the tests need")
    options = parser.parse_args(arguments)
    environ = os.environ
    try:
        set_up(environ.get("PYTHON", ""), environ.get("TORCH", "").lower(), options.test)
    except Refused as refused:
        sys.exit("flashlab: %s" % refused)
    except KeyboardInterrupt:
        sys.exit("\nflashlab: stopped; run the same command again to go on.")


if __name__ == "__main__":
    main()
