"""The ``flashlab`` command: one function a subcommand. Floor: front."""

import argparse
import sys
from collections.abc import Sequence

from flashlab.classroom import cli as classroom

EXAMPLES = """examples:
  flashlab lab                           open the course in JupyterLab
  flashlab doctor                        what this machine can run, and what to mend
  flashlab start flash_forward           put the stub into your workspace
  flashlab check flash_forward           grade your file
  flashlab watch                         the same at every save, and on to the next
  flashlab check flash_forward --json    the same report as data
  flashlab hint flash_forward            open the next hint
"""

BENCHES = {
    "recorder": "recorder",
    "grading": "grading",
    "triad": "elementary",
    "row_softmax": "elementary",
    "tiled_matmul": "elementary",
    "roofline": "roofline",
    "standard": "standard",
    "flash_forward": "attention",
    "block_sparse_forward": "sparse",
    "flash2_forward": "forward",
    "tma_forward": "forward",
    "flash2_backward": "backward",
    "flash3_backward": "backward",
    "flash3_backward_steps": "backward_steps",
    "flash3_forward": "flash3",
    "flash3_steps": "flash3_steps",
    "split_kv_decode": "decode",
    "varlen_forward": "varlen",
    "decode_splits": "decode_splits",
    "dispatch": "dispatch",
    "ring_attention": "ring",
    "gpt": "gpt",
    "fp8_hopper": "fp8",
}
PRINTED = ("recorder", "grading", "triad", "row_softmax", "tiled_matmul")  # no --out


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code (0 only if all that was asked for passed)."""
    parser, words = _parser(), sys.argv[1:] if argv is None else list(argv)
    if not words:
        parser.print_help(sys.stderr)
        return 2
    args = parser.parse_args(words)
    try:
        return args.run(args)
    except (KeyError, ValueError, OSError) as error:
        print(f"flashlab: {_said(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nflashlab: stopped", file=sys.stderr)
        return 130


def _said(error: Exception) -> str:
    """An error in one sentence; the system's own with the file that it is about."""
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)


def _parser() -> argparse.ArgumentParser:
    from flashlab import __version__

    parser = argparse.ArgumentParser(
        prog="flashlab",
        description="Understand FlashAttention by writing it.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"flashlab {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def command(name, run, text, example=""):
        sub = commands.add_parser(
            name,
            help=text,
            description=text[0].upper() + text[1:] + ".",
            epilog=f"example:\n  {example}" if example else None,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        sub.set_defaults(run=run)
        return sub

    lab = command("lab", _lab, "open the course in JupyterLab", "flashlab lab --port 8900")
    lab.add_argument("--port", type=int, help="first port to try (default 8888)")
    lab.add_argument("--no-browser", action="store_true", help="print the address only")
    command("doctor", _doctor, "say what this machine can run, and what to mend")
    command("list", _list, "list the exercises")
    command("progress", _list, "show what you have passed")
    start = command("start", _start, "put a stub into your workspace", "flashlab start triad")
    start.add_argument("slug")
    debug = command(
        "debug", _debug, "run one case here, unprotected", "flashlab debug flash_forward one-tile"
    )
    debug.add_argument("slug")
    debug.add_argument("case", nargs="?", help="case (default: the first)")
    debug.add_argument("--solution", action="store_true", help="the course's solution")
    debug.add_argument("--file", help="run this file instead of the workspace's")
    _check_arguments(
        command("check", _check, "grade your file", "flashlab check flash_forward --tier cpu")
    )
    watch = command(
        "watch", _watch, "check at every save, go on by itself", "flashlab watch flash_forward"
    )
    watch.add_argument("slug", nargs="?", help="exercise (default: the first not passed)")
    hint = command("hint", _hint, "open the next hint", "flashlab hint flash_forward --level 2")
    hint.add_argument("slug")
    hint.add_argument("--level", type=int, help="a hint by its number")
    solution = command("solution", _solution, "print the solution of an exercise you passed")
    solution.add_argument("slug")
    solution.add_argument("--anyway", action="store_true", help="before you passed; recorded")
    reset = command("reset", _reset, "put your file back to the stub; the old text is kept")
    reset.add_argument("slug")
    inspect = command(
        "inspect", _inspect, "compile your kernels offline", "flashlab inspect triad --arch sm_90"
    )
    inspect.add_argument("slug")
    inspect.add_argument("--arch", default="sm_80", help="sm_75 to sm_120 (default sm_80)")
    inspect.add_argument("--solution", action="store_true", help="the course's solution")
    verify = command("verify", _verify, "author's check: stub, solution, mistakes, hints")
    verify.add_argument("slug", nargs="*", help="exercises (default: all)")
    verify.add_argument("--tier", help="cpu, gpu or hopper (default: best here)")
    broken = command(
        "broken", _broken, "debug this kernel: eight to name and mend", "flashlab broken name 3 c"
    )
    broken.add_argument(
        "do",
        nargs="?",
        default="list",
        choices="list show symptoms choices name check report".split(),
    )
    broken.add_argument("number", nargs="?", type=int, help="kernel, 1 to 8")
    broken.add_argument("letter", nargs="?", help="for name: the sentence you choose")
    broken.add_argument("--seed", type=int, help="which eight (default: those dealt last)")
    broken.add_argument("--every", action="store_true", help="deal of all kernels, passed or not")
    bench = command("bench", _bench, "measure", "flashlab bench recorder")
    bench.add_argument("what", choices=BENCHES)
    bench.add_argument("--quick", action="store_true", help="small sizes, for a T4 or L4")
    bench.add_argument("--mine", action="store_true", help="time your file, not the solution")
    bench.add_argument("--out", help="save the figures as JSON here")
    bench.add_argument("--draw", help="draw the saved figures of flash_forward; needs no GPU")
    reproduce = command(
        "reproduce", _reproduce, "recompute a paper's table", "flashlab reproduce fa3-ablation"
    )
    reproduce.add_argument("table")
    classroom.add(commands)
    return parser


def _check_arguments(check: argparse.ArgumentParser) -> None:
    check.add_argument("slug", nargs="+", help="one or more exercises")
    check.add_argument("--solution", action="store_true", help="grade the course's solution")
    check.add_argument("--file", help="grade this file instead of the workspace's")
    check.add_argument("--tier", help="cpu, gpu or hopper (default: best here)")
    check.add_argument(
        "--json", action="store_true", help="print the report as JSON, nothing else"
    )
    check.add_argument("--all", action="store_true", help="go on after a group that fails")


def _check(args: argparse.Namespace) -> int:
    from flashlab import exercises, learner

    if args.file and len(args.slug) > 1:
        raise ValueError("--file goes with one exercise: name that one")
    for slug in args.slug:
        exercises.get(slug)
    reports = []
    for slug in args.slug:
        report = learner.check(
            slug,
            solution=args.solution,
            file=args.file,
            tier=args.tier,
            show=not args.json,
            all_cases=args.all,
        )
        reports.append(report)
    if args.json:
        texts = [report.to_json() for report in reports]
        print(texts[0] if len(texts) == 1 else "[" + ",\n".join(texts) + "]")
    return 0 if all(report.passed for report in reports) else 1


def _debug(args: argparse.Namespace) -> int:
    from flashlab import learner

    found = learner.debug(args.slug, args.case, solution=args.solution, file=args.file)
    for finding in found["findings"]:
        print(finding)
    print(found["tally"] if found["tally"] is None else found["tally"].report())
    return 0


def _lab(args: argparse.Namespace) -> int:
    from flashlab import lab

    return lab.serve(port=args.port, open_browser=not args.no_browser)


def _doctor(args: argparse.Namespace) -> int:
    from flashlab import doctor

    return doctor.main()


def _list(args: argparse.Namespace) -> int:
    from flashlab import learner
    from flashlab.render import progress

    progress.print_progress(learner.progress())
    return 0


def _start(args: argparse.Namespace) -> int:
    from flashlab import exercises, learner
    from flashlab.workspace import Workspace

    exercises.get(args.slug)
    workspace = Workspace.current()
    path = workspace.kernel_path(args.slug)
    if path.exists():
        print(
            f"{path} exists already and is left as it is; `flashlab check {args.slug}` grades it, "
            f"`flashlab reset {args.slug}` puts the stub there and keeps your text."
        )
    else:
        print(workspace.fill(args.slug, learner.stub(args.slug)).message)
        print(f"Edit {path}, then `flashlab check {args.slug}`.")
    return 0


def _watch(args: argparse.Namespace) -> int:
    from flashlab import watch

    return watch.main(args.slug)


def _hint(args: argparse.Namespace) -> int:
    from flashlab import learner

    learner.hint(args.slug, args.level)
    return 0


def _solution(args: argparse.Namespace) -> int:
    from flashlab import learner

    print(learner.solution(args.slug, open_anyway=args.anyway))
    return 0


def _reset(args: argparse.Namespace) -> int:
    from flashlab import learner

    learner.reset(args.slug)
    return 0


def _inspect(args: argparse.Namespace) -> int:
    from flashlab import learner

    rows = learner.inspect(args.slug, args.arch, solution=args.solution)
    return 0 if all(row.ok for row in rows) else 1


def _verify(args: argparse.Namespace) -> int:
    from flashlab.authoring import verify

    return verify.main(args.slug, args.tier)


def _broken(args: argparse.Namespace) -> int:
    from flashlab import broken

    if args.every and args.seed is None:
        raise ValueError("--every deals a new set: name its --seed too")
    found = broken.newest() if args.seed is None else broken.deal(args.seed, every=args.every)
    if args.do == "list":
        print(found)
        return 0
    if args.number is None or (args.do == "name") != (args.letter is not None):
        wanted = "N LETTER" if args.do == "name" else "N"
        raise ValueError(f"write `flashlab broken {args.do} {wanted}`, with N from 1 to 8")
    if args.do == "report":
        from flashlab import learner

        learner.show_report(found.report(args.number))
        return 0
    more = [args.letter] if args.do == "name" else []
    print(getattr(found, args.do)(args.number, *more))
    return 0


def _bench(args: argparse.Namespace) -> int:
    import importlib

    if args.draw:
        if args.what != "flash_forward":
            raise ValueError("--draw draws what `flashlab bench flash_forward --out FILE` saved")
        from flashlab.viz import bench_roofline

        return bench_roofline.main(args.draw)
    if args.quick and args.what != "flash_forward":
        raise ValueError("--quick is for flash_forward alone: leave it out here")
    module = importlib.import_module(f"flashlab.bench.{BENCHES[args.what]}")
    if args.what == "flash_forward":
        return module.main(quick=args.quick, solution=not args.mine, out=args.out)
    if args.out and args.what in PRINTED:
        raise ValueError(f"{args.what} prints its figures and saves none: leave --out away")
    if BENCHES[args.what] == "elementary":
        return module.main(args.what, mine=args.mine)
    if args.what in ("recorder", "grading"):
        return module.main() or 0
    return module.main(args.what, mine=args.mine, out=args.out)


def _reproduce(args: argparse.Namespace) -> int:
    from flashlab import reproduce

    print(reproduce.make(args.table))
    return 0


if __name__ == "__main__":
    sys.exit(main())
