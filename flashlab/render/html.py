"""A report as self-contained HTML: no script, no request, everything escaped. Floor: front."""

import html
from collections.abc import Iterable, Sequence

from flashlab.grader.report import CaseResult, Report
from flashlab.grader.wording import apart
from flashlab.render import style, summary, svg
from flashlab.render.safe import one_line, plain
from flashlab.viz import traffic

NUMERIC = ("Expected", "Got", "Bytes loaded", "Bytes stored", "Budget")


def report_html(report: Report) -> str:
    """The report as a ``<div>`` for a notebook's output, its details folded."""
    good = "fl-good" if report.passed else "fl-bad"
    rows = "".join(f"<dt>{label}</dt><dd>{content}</dd>" for label, content in _rows(report))
    folds = "".join(_fold(title, body) for title, body in _folds(report) if body)
    return (
        f'<div class="flashlab-report {good}" role="region" aria-label="Report of a check">'
        f"<style>{style.css()}</style>{_top(report)}"
        f'<div class="fl-head" role="heading" aria-level="3">{_line(report.headline, 600)}</div>'
        f"<dl>{rows}</dl>{folds}</div>"
    )


def progress_html(slug: str, done: int, total: int, text: str) -> str:
    """One line and a bar that say how far a check is."""
    return (
        f'<div role="status"><progress max="{max(1, total)}" value="{done}"></progress> '
        f"checking {_line(slug, 60)}: {done} of {total}, {_line(text, 120)}</div>"
    )


def _top(report: Report) -> str:
    mark = "✔ PASS" if report.passed else "✘ FAIL"
    if report.status == "grader_error":
        mark = "! ERROR"
    status = "" if report.passed else f"<span>{_line(report.status.replace('_', ' '))}</span>"
    return (
        f'<div class="fl-top"><span class="fl-mark">{mark}</span>'
        f'<span class="fl-name">{_line(report.slug, 60)}</span>{status}'
        f"<span>{report.points:g} of 100 points</span><span>tier {_line(report.tier)}</span></div>"
    )


Rows = list[tuple[str, str]]


def _rows(report: Report) -> Rows:
    """What stays open, in the order of a report."""
    means = summary.status(report)
    rows: Rows = [("Status", _line(means))] if means else []
    rows.append(("Tested", _line(summary.tested(report))))
    case = report.first_failure
    if case is not None:
        rows += _broken(case, one_line(report.headline, 600))
    else:
        rows += [
            (_line(s.name, 40).capitalize(), _line(s.detail))
            for s in summary.failed_stages(report)
        ]
    if report.failing_call:
        rows.append(("Repeat", f"<pre>{html.escape(plain(report.failing_call))}</pre>"))
    rows += _causes(report)
    moved = summary.io_case(report)
    if report.passed and moved is not None:
        rows.append(("Bytes", _bytes_drawn(moved)))
    rows.append(("File", f"<code>{_line(summary.file_graded(report))}</code>"))
    if report.not_run:
        rows.append(("Not run", _paragraphs(report.not_run)))
    if report.notes:
        rows.append(("Note", _paragraphs(report.notes)))
    rows.append(("Points", _line(summary.points(report))))
    return rows


def _broken(case: CaseResult, headline: str) -> Rows:
    said = one_line(case.detail)
    detail = f" ({case.status})" if said and said in headline else f": {summary.broke(case)}"
    first = f"<p>{_line(summary.run_name(case) + detail, 800)}</p>"
    sizes = f'<p class="fl-soft">{_line(summary.sizes(case))}</p>'
    why = f"<p><em>{_line(case.why)}</em></p>" if case.why else ""
    rows: Rows = [("Broke", first + sizes + why)]
    if case.where is not None:
        place = f"<p>{_line(summary.where(case.where))}</p>"
        picture = svg.tile_map(case.where)
        axes = '<p class="fl-soft">First wrong head: tiles of rows down, of columns across.</p>'
        rows.append(("Where", place + picture + (axes if picture else "")))
    return rows


def _causes(report: Report) -> Rows:
    rows: Rows = []
    if report.mistake:
        rows.append(("Cause", _line(summary.cause(report), 800)))
    if report.structure:
        rows.append(("Numbers", _paragraphs(report.structure)))
    if report.step is not None and report.status != "unfilled":
        rows.append(("Step", f"{report.step} is the first that is wrong"))
    if report.hint:
        hint = f"{report.hint.get('level')} of {report.hint.get('of')}: "
        rows.append(("Hint", _line(hint + str(report.hint.get("text", "")), 800)))
    return rows


def _folds(report: Report) -> Iterable[tuple[str, str]]:
    """What is folded away: title and body; empty bodies are left out."""
    case = report.first_failure
    yield "Every run", _runs(report.cases)
    if case is not None and case.where is not None and case.where.samples:
        yield "Expected and got", _samples(case)
    yield "Your attention matrix", svg.attention_matrix(report.attention_matrix)
    counted = summary.io_case(report)
    if counted is not None:
        rows = summary.io_rows(counted)
        over = sum(row.over for row in rows)
        fact = f"{over} over the budget" if over else "within the budget"
        yield f"Bytes moved: {fact}", _io(counted, rows)
    compiled = summary.resources(report)
    yield "Compiled for GPUs", _paragraphs(compiled) if compiled else ""
    if case is not None:
        yield "What your code printed", _block(case.printed)
        yield "Traceback", _block(case.traceback)


def _fold(title: str, body: str) -> str:
    return (
        f"<details><summary>{_line(title)}</summary><div class='fl-scroll'>{body}</div></details>"
    )


def _runs(cases: Sequence[CaseResult]) -> str:
    rows = []
    for case in cases:
        good = case.status == "pass"
        mark = f'<span class="fl-{"yes" if good else "no"}">{"✔" if good else "✘"}</span>'
        detail = "" if good else _line(case.detail or case.why, 240)
        cells = (_line(case.group), _line(summary.run_name(case)), f"{mark} {_line(case.status)}")
        kept = "".join(f"<td class='fl-keep'>{cell}</td>" for cell in cells)
        rows.append(f"{kept}<td>{detail}</td>")
    return _table(("Group", "Run", "Status", "What came"), rows) if rows else ""


def _samples(case: CaseResult) -> str:
    rows = [
        f"<td>{_line(index)}</td>"
        + "".join(f"<td class='fl-num'>{_line(v)}</td>" for v in _pair(*values))
        for index, *values in case.where.samples
    ]
    return _table((f"Element of {case.where.output}", "Expected", "Got"), rows)


def _bytes_drawn(case: CaseResult) -> str:
    """Bars of the bytes that a run moved, with its budget, and the run's name."""
    rows = [
        traffic.Row(
            row.tensor,
            row.loaded,
            row.stored,
            None if row.loads_allowed is None else (row.loads_allowed, row.stores_allowed),
        )
        for row in summary.io_rows(case)
    ]
    drawn = traffic.picture(rows, summary.run_name(case))
    told = f"{drawn.title}: {drawn.caption} {summary.IO_MEANS}"
    return f"<p>{_line(told, 600)}</p>{drawn.svg}"


def _io(case: CaseResult, rows: Sequence[summary.Moved]) -> str:
    body = []
    for row in rows:
        numbers = (row.loaded, row.loads_allowed, row.stored, row.stores_allowed)
        cells = "".join(
            f"<td class='fl-num'>{'-' if n is None else format(n, ',')}</td>" for n in numbers
        )
        verdict = (
            '<span class="fl-no">over</span>' if row.over else '<span class="fl-yes">ok</span>'
        )
        body.append(f"<td>{_line(row.tensor)}</td>{cells}<td>{verdict}</td>")
    headings = ("Tensor", "Bytes loaded", "Budget", "Bytes stored", "Budget", "")
    return _bytes_drawn(case) + _table(headings, body)


def _table(headings: Sequence[str], rows: Sequence[str]) -> str:
    head = "".join(
        f'<th scope="col"{" class=fl-num" if h in NUMERIC else ""}>{_line(h)}</th>'
        for h in headings
    )
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _paragraphs(texts: Iterable[str]) -> str:
    return "".join(f"<p>{_line(text)}</p>" for text in texts)


def _block(text: str) -> str:
    return f"<pre>{html.escape(plain(text))}</pre>" if text.strip() else ""


def _pair(*values: object) -> Sequence[object]:
    """Expected and got with the digits that tell them apart."""
    plain_numbers = len(values) == 2 and all(isinstance(v, float | int) for v in values)
    return apart(*values) if plain_numbers else values


def _line(text: object, limit: int = 400) -> str:
    return html.escape(one_line(text, limit))
