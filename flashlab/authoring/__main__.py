"""The author's commands: ``python -m flashlab.authoring weave | canonical | check``. Floor: front.

``flashlab verify`` runs the exercises themselves.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns 0, or 1 with what is wrong on standard output."""
    parser = argparse.ArgumentParser(prog="python -m flashlab.authoring", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    weaver = commands.add_parser("weave", help="write stubs, stub cells and contract cells")
    former = commands.add_parser("canonical", help="bring notebooks into canonical form")
    commands.add_parser("check", help="the quick gate: all of it, ruff and stray files")
    for command in (weaver, former):
        command.add_argument("--check", action="store_true", help="only name what differs")
    former.add_argument("files", nargs="*", type=Path, help="default: every chapter and lab")
    options = parser.parse_args(arguments)
    from flashlab.authoring import canonical, check, weave

    if options.command == "check":
        return check.main()
    if options.command == "weave":
        said = weave.main(options.check)
    else:
        said = canonical.main(options.files, options.check)
    print(*said, sep="\n", end="\n" if said else "")
    return int(bool(said))


if __name__ == "__main__":
    sys.exit(main())
