"""Sentences of a report that are chosen, not computed: headline, failing call. Floor: course."""

from collections.abc import Sequence

from flashlab.grader.report import CaseResult, Report

SCREEN = 78  # a longer call is broken in two lines
HEDGES = {"certain": "", "likely": "Very likely: ", "possible": "Possibly: "}
FACTS = {
    "unfilled": "is not filled in yet",
    "contract": "does not keep to its contract",
    "forbidden": "uses something that this exercise forbids",
    "compile": "does not compile",
    "oob": "reaches outside a tensor",
    "race": "has a race",
    "uninitialised": "uses or leaves memory that nothing has written",
    "nan": "gives NaN",
    "wrong": "gives wrong numbers",
    "precision": "loses precision",
    "timeout": "does not end in time",
    "oom": "needs too much memory",
    "crash": "crashes",
    "grader_error": "could not be graded: the grader itself failed, which costs no marks",
}

MEANINGS = {
    "unfilled": "a step still holds its alarm, or nothing at all; nothing was marked",
    "contract": "name, arguments or results are not what the exercise agreed on",
    "forbidden": "it calls what is ready-made, or reaches for what no kernel needs",
    "compile": "the kernel is refused before any number is computed",
    "oob": "out of bounds: a lane reads or writes beyond its tensor",
    "race": "the result depends on the order in which programs, or the roles of one, run",
    "uninitialised": "something is read, or returned, that nothing wrote",
    "nan": "NaN came back where a number belongs",
    "wrong": "the numbers are off by far more than rounding can explain",
    "precision": "nearly right, but less exact than careful arithmetic in this dtype",
    "timeout": "a call never ended, or took longer than its case allows",
    "oom": "a call used more memory than a case may",
    "crash": "a call ended with an exception, or ended its process",
    "grader_error": "the grader failed, not your text; check again",
}
EVIDENCE = {
    "certain": "the solution with mistake {slug} in it returns what yours returns",
    "likely": "the solution with mistake {slug} in it fails as yours does",
    "possible": "several mistakes fail as yours does; {slug} is the first of them",
}


def headline(report: Report, formula: str = "") -> str:
    """The first sentence a person reads: the mistake when one is known, else the status's fact.

    Args:
        report: A report, but for its headline.
        formula: The wrong formula that gives the numbers, if one was found.
    """
    if report.mistake:
        return HEDGES.get(report.mistake.get("confidence", ""), "") + report.mistake["says"]
    if report.status == "pass":
        return f"All {len(report.cases)} runs of {report.slug} pass{_tier(report)}."
    if formula:
        join = "" if formula.startswith("as if") else ":"
        return f"{report.slug} gives wrong numbers{join} {formula}."
    case = report.first_failure
    fact = FACTS.get(report.status, report.status)
    if case is None:
        detail = next((s.detail for s in report.stages if s.status == "fail" and s.detail), "")
        return _join(f"{report.slug} {fact}", detail)
    about = f" of {case.argument}" if case.argument and case.argument not in case.detail else ""
    place = f" at {case.line}" if case.line and case.line not in case.detail else ""
    return _join(f"{report.slug} {fact} in case {case.name}", f"{case.detail}{about}{place}")


def smallest_failure(report: Report) -> CaseResult | None:
    """Of the case that the report speaks of, the failing run with the least work to look at."""
    first = report.first_failure
    failing = [c for c in report.cases if c.status not in ("pass", "grader_error")]
    return min((c for c in failing if c.name == first.name), key=work, default=None)


def failing_call(slug: str, case: CaseResult, source: str = "") -> str:
    """Python text that repeats one run in a notebook or in Python.

    ``source`` is one more argument: ``file="..."`` or ``solution=True``; empty for the learner's
    own file.
    """
    tiles = ", ".join(f'"{name}": {size}' for name, size in case.tiles.items())
    options = [f"tiles={{{tiles}}}"] if tiles else []
    options += [source] if source else []
    start, end = f'flashlab.debug("{slug}", "{case.name}"', ", ".join(options) + ")"
    if not options:
        return f"import flashlab\n{start})"
    gap = ", " if len(start) + len(end) < SCREEN else ",\n    "
    return f"import flashlab\n{start}{gap}{end}"


def apart(expected: float, got: float) -> tuple[str, str]:
    """Two numbers with as few digits, from 4 on, as tell them apart."""
    for digits in range(4, 18):
        kind = f".{digits}g" if digits == 4 else f"#.{digits}g"  # of 3.7630 the 0 tells
        pair = f"{expected:{kind}}", f"{got:{kind}}"
        if pair[0] != pair[1] or expected == got:
            break
    return pair


def listed(values: Sequence[object]) -> str:
    """``"1"``, ``"1 and 2"`` or ``"1, 2 and 3"``."""
    words = [str(v) for v in values]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def numbers(values: Sequence[int]) -> str:
    """Row numbers in words: ``"3"``, ``"0 to 15"`` or ``"0 to 3, 8 and 9"``."""
    spans: list[list[int]] = []
    for value in sorted(values):
        if spans and value == spans[-1][1] + 1:
            spans[-1][1] = value
        else:
            spans.append([value, value])
    words: list[str] = []
    for first, last in spans[:4]:
        if last - first > 1:
            words.append(f"{first} to {last}")
        else:
            words += [str(v) for v in range(first, last + 1)]
    if len(spans) > 4:
        return ", ".join(words) + " and more"
    return listed(words)


def work(case: CaseResult) -> int:
    """Product of the sizes of a run, a measure of how much there is to look at."""
    product = 1
    for size in case.sizes.values():
        if isinstance(size, int) and not isinstance(size, bool):
            product *= max(1, size)
    return product


def _tier(report: Report) -> str:
    return f" on tier {report.tier}" + ("; some parts were not run" if report.not_run else "")


def _join(fact: str, detail: str) -> str:
    text = f"{fact}: {detail}" if detail else fact
    return text if text.endswith((".", "!", "?")) else text + "."
