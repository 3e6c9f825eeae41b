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
    _grade_arguments(command("grade", _grade, "mark what was handed in, in a sandbox"))
    merge = command("merge", _merge, "put together what `grade --shard` did apart, then report")
    merge.add_argument("stores", nargs="*", help="their folders (default: all in the course)")
    again = command("report", _report, "write the reports anew; nothing is run")
    for sub in (merge, again):
        _which(sub)
    reveal = command("reveal", _reveal, "print a lab's key of hidden cases, after the deadline")
    reveal.add_argument("--lab", metavar="NN", required=True)
    reveal.add_argument("--attempt", type=_count, default=1)


def _build_arguments(build: argparse.ArgumentParser) -> None:
    build.add_argument(
        "--lab",
        action="append",
        metavar="NN",
        help="a lab, such as 04 or 04_flash_forward; again for more (default: all)",
    )
    build.add_argument("--name", help="name of the course (default: the folder's)")


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"a number from 1 on is wanted, not {text!r}")
    return int(text)


def _which(sub: argparse.ArgumentParser) -> None:
    """Which marks are meant."""
    sub.add_argument("--lab", action="append", metavar="NN", help="a lab; again for more")
    sub.add_argument(
        "--attempt", type=_count, default=1, help="draws other hidden cases (default 1)"
    )
    sub.add_argument("--tier", choices=("cpu", "gpu", "hopper"), default="cpu")
    sub.add_argument(
        "--unsandboxed",
        action="store_true",
        help="run code with your own rights; every report says so",
    )


def _grade_arguments(grade: argparse.ArgumentParser) -> None:
    _which(grade)
    grade.add_argument("--workers", type=_count, default=0, help="side by side (default: cores)")
    grade.add_argument("--sandbox", choices=("bubblewrap", "docker", "podman"))
    grade.add_argument("--image", default="", help="of a container (default: python:X.Y-slim)")
    grade.add_argument("--shard", default="", metavar="I/N", help="only this part, for array jobs")
    grade.add_argument("--scheduler", default="", metavar="ADDRESS", help="of a Dask cluster")


def _options(args: argparse.Namespace):
    from flashlab.classroom.grade import Options

    given = {n: getattr(args, n) for n in ("attempt", "workers", "image", "tier", "shard",
                                           "scheduler") if hasattr(args, n)}  # fmt: skip
    kind = "unsandboxed" if args.unsandboxed else getattr(args, "sandbox", None) or ""
    return Options(labs=args.lab or (), sandbox=kind, **given)


def _grade(args: argparse.Namespace) -> int:
    from flashlab.classroom import grade

    if args.unsandboxed and args.sandbox:
        raise ValueError("--sandbox and --unsandboxed exclude each other")
    if args.shard and args.scheduler:
        raise ValueError("--shard and --scheduler exclude each other: both share out the work")
    return grade.main(args.dir, _options(args))


def _merge(args: argparse.Namespace) -> int:
    from flashlab.classroom import grade

    return grade.merge(args.dir, args.stores, _options(args))


def _report(args: argparse.Namespace) -> int:
    from flashlab.classroom import grade

    return grade.report(args.dir, _options(args))


def _reveal(args: argparse.Namespace) -> int:
    from flashlab.classroom import grade

    return grade.reveal(args.dir, args.lab, args.attempt)


def _build(args: argparse.Namespace) -> int:
    from flashlab.classroom import build

    return build.main(args.dir, labs=args.lab, name=args.name)
