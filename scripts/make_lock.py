"""Write requirements.lock (for a learner), and those of the tests and of a class.

``make lock`` runs it. Universal (one file for Python 3.11 to 3.13 on x86_64 and aarch64), without
hashes, addresses and CUDA libraries: torch's own metadata pulls those where they are wanted.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LEARNER, TEST = ROOT / "requirements.lock", ROOT / "requirements-test.lock"
SITE = ROOT / "requirements-site.lock"
CLASS = ROOT / "requirements-class.lock"
CUDA = re.compile(r"^((?:nvidia|cuda)-[a-z0-9-]+)==", re.MULTILINE)
HEADER = """\
# {what}
# Made by `make lock` from pyproject.toml; do not edit. Holds no hashes, no addresses and no CUDA
# libraries: torch asks for those by itself where they are wanted.
"""


def resolve(arguments: list[str], without: list[str]) -> str:
    """Pins for pyproject.toml, one a line, leaving out the packages named in ``without``."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "pyproject.toml", "--quiet"]
    command += ["--universal", "--python-version", "3.11", "--upgrade"]
    command += ["--no-header", "--no-annotate", *arguments]
    for name in without:
        command += ["--no-emit-package", name]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    pins = [line for line in done.stdout.splitlines() if not line.startswith("#")]
    return "\n".join(pins) + "\n"


def write(path: Path, what: str, arguments: list[str]) -> None:
    """Resolve twice: first to learn the names of the CUDA packages, then without them."""
    cuda = sorted(set(CUDA.findall(resolve(arguments, []))))
    pins = resolve(arguments, cuda)
    path.write_text(HEADER.format(what=what) + pins)
    print(f"{path.name}: {len(pins.splitlines())} packages, without {len(cuda)} of CUDA")


if __name__ == "__main__":
    write(LEARNER, "A learner's environment.", [])
    write(
        TEST,
        "A learner's environment (requirements.lock) and what the tests need.",
        ["--extra", "test", "--constraint", str(LEARNER)],
    )
    write(
        CLASS,
        "A learner's environment (requirements.lock) and what an instructor needs.",
        ["--extra", "classroom", "--constraint", str(LEARNER)],
    )
    write(
        SITE,
        "The tests' environment (requirements-test.lock) and what building the site needs.",
        ["--extra", "test", "--extra", "site", "--constraint", str(TEST)],
    )
