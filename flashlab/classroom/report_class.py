"""The class on one page: marks, mistakes, unknown ones in groups, likeness, time. Floor: front."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from flashlab import sources
from flashlab.classroom import answers, report_similar
from flashlab.classroom.grade_marks import Graded, Mark
from flashlab.classroom.report_feedback import line, page, stamp
from flashlab.classroom.sandbox import NONE

BINS = 10
LIKE_EACH_OTHER, LIKE_THE_SOLUTION = 0.9, 0.9
MOST_PAIRS, MOST_CLUSTERS = 30, 20
MOST_OPEN = 20  # things to look at that stay unfolded


@dataclass(frozen=True)
class LabReport:
    """What a class did in one lab."""

    lab: str
    graded: Sequence[Graded]
    commitment: str

    def marks(self, slug: str) -> list[tuple[str, Mark]]:
        """(student, mark) of everybody who answered an exercise."""
        return [
            (answers.shown(one.submission.student), mark)
            for one in self.graded
            for mark in one.marks
            if mark.slug == slug and mark.entry
        ]

    @property
    def slugs(self) -> list[str]:
        return list(dict.fromkeys(mark.slug for one in self.graded for mark in one.marks))


def class_page(name: str, labs: Sequence[LabReport]) -> str:
    """The whole page, with a stamp if any code ran unsandboxed."""
    unsafe = any(one.sandbox == NONE for lab in labs for one in lab.graded)
    body = [f"<h1>{line(name)}: the class</h1>", stamp(NONE if unsafe else "")]
    for lab in labs:
        body.append(f"<h2>{line(lab.lab)}</h2>{_overview(lab)}{_distribution(lab)}{_said(lab)}")
        body += [_exercise(lab, slug) for slug in lab.slugs]
    return page(f"{name}: the class", "\n".join(body))


def _table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    if not rows:
        return ""
    head = "".join(f"<th>{line(h)}</th>" for h in headings)
    body = "".join(
        "<tr>" + "".join(f"<td>{line(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table>{f'<tr>{head}</tr>' if any(headings) else ''}{body}</table>"


def _overview(lab: LabReport) -> str:
    there = [one for one in lab.graded if one.submission.there]
    marked = [one.points for one in there if one.points is not None]
    seconds = sorted(one.seconds for one in there if one.seconds)
    middle = sorted(marked)[len(marked) // 2] if marked else 0
    rows = [
        ("students", len(lab.graded)),
        ("handed in", len(there)),
        ("marked", len(marked)),
        ("median points", f"{middle:g} of {there[0].of:g}" if marked else "-"),
        ("commitment of the hidden cases (SHA-256)", lab.commitment),
    ]
    if seconds:
        middle, most = seconds[len(seconds) // 2], seconds[-1]
        rows.append(
            ("grading took", f"{middle:.0f} s a submission (median), {most:.0f} s at most")
        )
    return _table(("", ""), rows)


def _distribution(lab: LabReport) -> str:
    """How many students lie in each tenth of the points, as bars with numbers."""
    marked = [(one.points, one.of) for one in lab.graded if one.submission.there]
    marked = [(points, of) for points, of in marked if points is not None and of]
    if not marked:
        return ""
    bins = Counter(min(int(BINS * points / of), BINS - 1) for points, of in marked)
    most = max(bins.values())
    rows = "".join(
        f'<text x="0" y="{18 * i + 13}" font-size="12" fill="currentColor">{10 * i} to '
        f'{10 * i + 10} %</text><rect x="90" y="{18 * i + 2}" height="13" fill="#3b7dd8" '
        f'width="{300 * bins[i] / most:.0f}"/><text x="{96 + 300 * bins[i] / most:.0f}" '
        f'y="{18 * i + 13}" font-size="12" fill="currentColor">{bins[i]}</text>'
        for i in range(BINS)
    )
    title = "Students by their share of the points"
    return (
        f'<p>{title}</p><svg role="img" aria-label="{title}" width="460" height="{18 * BINS}">'
        f"<title>{title}</title>{rows}</svg>"
    )


def _said(lab: LabReport) -> str:
    names = {id(one): answers.shown(one.submission.student) for one in lab.graded}
    rows = [(names[id(one)], said) for one in lab.graded for said in one.submission.said]
    rows += [
        (names[id(one)], f"{mark.slug}: {mark.status.replace('_', ' ')}")
        for one in lab.graded
        for mark in one.marks
        if mark.points is None
    ]
    if not rows:
        return ""
    whole = _table(("student", "what"), rows)
    if len(rows) > MOST_OPEN:
        whole = f"<details><summary>{len(rows)} things</summary>{whole}</details>"
    return f"<h3>To look at</h3>{whole}"


def _exercise(lab: LabReport, slug: str) -> str:
    marks = lab.marks(slug)
    statuses = Counter(mark.status for _, mark in marks)
    parts = [f"<h3>{line(slug)}</h3>"]
    parts.append(_table(("status", "students"), statuses.most_common()))
    parts.append(_mistakes(marks) + _clusters(marks) + _alike(slug, marks))
    return "".join(parts)


def _mistakes(marks: Sequence[tuple[str, Mark]]) -> str:
    """The commonest misconceptions that the grader knows by name."""
    found = [(m.entry.get("shown") or {}).get("mistake") for _, m in marks]
    said = Counter((m["slug"], m["says"]) for m in found if m)
    rows = [(count, says, name) for (name, says), count in said.most_common(MOST_CLUSTERS)]
    return (
        "<p>Commonest mistakes</p>" + _table(("students", "mistake", "id"), rows) if rows else ""
    )


def _clusters(marks: Sequence[tuple[str, Mark]]) -> str:
    """Wrong answers that no known mistake explains, those that go wrong alike together."""
    groups: dict[str, list[tuple[str, Mark]]] = {}
    for student, mark in marks:
        if mark.entry.get("signature"):
            groups.setdefault(mark.entry["signature"], []).append((student, mark))
    largest = sorted(groups.values(), key=len, reverse=True)[:MOST_CLUSTERS]
    rows = [
        (
            len(group),
            ", ".join(student for student, _ in group),
            group[0][1].entry["shown"]["headline"],
        )
        for group in largest
    ]
    if not rows:
        return ""
    said = (
        "<p>Wrong in a way that no known mistake explains; a group is the next mistake to add</p>"
    )
    return said + _table(("students", "who", "what the report says"), rows)


def _alike(slug: str, marks: Sequence[tuple[str, Mark]]) -> str:
    """Likeness to the course's solution and to each other, for a person to judge."""
    shapes = {s: report_similar.own(m.entry.get("shape", ()), slug) for s, m in marks}
    try:
        solution = report_similar.own(report_similar.shape(sources.solution_text(slug)), slug)
    except KeyError:
        solution = frozenset()
    near = sorted(
        ((report_similar.share(shape, solution), student) for student, shape in shapes.items()),
        reverse=True,
    )
    rows = [(f"{part:.0%}", s) for part, s in near if part >= LIKE_THE_SOLUTION][:MOST_PAIRS]
    parts = (
        ["<p>Like the course's solution</p>" + _table(("common", "student"), rows)] if rows else []
    )
    pairs = [
        (f"{part:.0%}", a, b) for part, a, b in report_similar.pairs(shapes, LIKE_EACH_OTHER)
    ][:MOST_PAIRS]
    if pairs:
        parts.append("<p>Like each other</p>" + _table(("common", "student", "student"), pairs))
    if parts:
        parts.append(
            '<p class="soft">Likeness is of syntax without names and numbers, the given code left '
            "out. Good answers to the same few steps are often alike: it proves nothing.</p>"
        )
    return "".join(parts)
