"""Make .venv-site, what building the site needs beside the course's own environment.

``make site`` runs it. The packages of .venv are used, not installed again; stamped like .venv.
"""

import glob
import os
import sys

from setup_env import ROOT, VENV, Refused, make_venv, once, pip, say, stamp_of

SITE = os.path.join(ROOT, ".venv-site")
LOCK = os.path.join(ROOT, "requirements-site.lock")


def packages_of(venv):
    """The folder in which an environment keeps its packages."""
    return glob.glob(os.path.join(venv, "lib", "python3*", "site-packages"))[0]


def main():
    python = os.path.join(VENV, "bin", "python")
    make_venv(SITE, python)

    def install():
        say("Making .venv-site: Sphinx and its theme (half a minute)")
        with open(os.path.join(packages_of(SITE), "course.pth"), "w") as file:
            file.write(packages_of(VENV) + "\n" + ROOT + "\n")
        return pip(SITE, "-q", "-r", LOCK)

    once(SITE, "packages", stamp_of(LOCK), install)


if __name__ == "__main__":
    try:
        main()
    except Refused as refused:
        sys.exit(f"flashlab: {refused}")
