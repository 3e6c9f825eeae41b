"""``flashlab class``: one function a subcommand."""

import argparse
from collections.abc import Callable

EXAMPLES = """examples:
  flashlab class build course --lab 04       make a course of one lab
  flashlab class grade course                marks for everything handed in
  flashlab class report course               the class in one page
"""


def add(commands: argparse._SubParsersAction) -> None:
    """Hang ``class`` and its subcommands into the ``flashlab`` command."""
    text = "for instructors: make a course, mark what is handed in"
    parser = commands.add_parser(
        "class",
        help=text,
        description=text[0].upper() + text[1:] + ".",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    subs = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def command(name: str, run: Callable, text: str) -> argparse.ArgumentParser:
        sub = subs.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        sub.set_defaults(run=run)
        sub.add_argument("dir", metavar="DIR", help="folder of the course")
        return sub

    _build_arguments(command("build", _build, "make an nbgrader course, or renew one"))


def _build_arguments(build: argparse.ArgumentParser) -> None:
    build.add_argument(
        "--lab",
        action="append",
        metavar="NN",
        help="a lab, such as 04 or 04_flash_forward; again for more (default: all)",
    )
    build.add_argument("--name", help="name of the course (default: the folder's)")


def _build(args: argparse.Namespace) -> int:
    from flashlab.classroom import build

    return build.main(args.dir, labs=args.lab, name=args.name)
