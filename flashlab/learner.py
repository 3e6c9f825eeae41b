"""What a learner asks for, in a notebook and in a terminal: check, hint, debug. Floor: front."""

import contextlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from flashlab import device, exercises, grader, sources
from flashlab.exercise import Exercise
from flashlab.grader import wording
from flashlab.grader.report import Report
from flashlab.notebook import in_notebook
from flashlab.render import html, terminal
from flashlab.workspace import Answer, Workspace, WorkspaceError


def check(
    slug: str,
    *,
    solution: bool = False,
    file: str | Path | None = None,
    tier: str | None = None,
    show: bool = True,
    all_cases: bool = False,
) -> Report:
    """Grade one exercise in an isolated process, show the report and return it.

    Args:
        slug: Exercise, such as ``"flash_forward"``.
        solution: Grade the course's solution instead of your file.
        file: Grade this file instead of the one in your workspace.
        tier: ``"cpu"``, ``"gpu"`` or ``"hopper"``; None is the best tier of this machine.
        show: Display the report (HTML in a notebook, text elsewhere).
        all_cases: Go on after the first group of cases that fails.

    Returns:
        The report as data; ``.points`` is 0 to 100, ``.passed`` a bool.

    Raises:
        KeyError: Unknown slug; the message suggests the nearest.
        ValueError: A tier that this machine does not have.
    """
    exercise = exercises.get(slug)
    tier = _tier(tier)
    answer = _answer(slug, solution, file)
    if answer.origin == "file" and file is None:
        with contextlib.suppress(WorkspaceError):  # a full disk must not stop a check
            Workspace.current().keep(slug, answer.text)  # every text that was checked stays
    with _Progress(slug, enabled=show) as progress:
        report = grader.check(
            slug,
            answer.text,
            tier=tier,
            path=str(answer.path or ""),
            saved_at=answer.saved_at,
            progress=progress,
            all_cases=all_cases,
        )
    _say_whose(report, answer, solution, file)
    if not solution and file is None:
        _record(exercise, report)
    if show:
        show_report(report)
    return report


def _tier(tier: str | None) -> str:
    found = device.detect()
    if tier is None:
        return found.tier
    if tier not in device.TIERS:
        raise ValueError(f"tier must be one of {', '.join(device.TIERS)}, not {tier!r}")
    if tier not in found.tiers:
        raise ValueError(
            f"tier {tier!r} needs another machine: this one has {found.name} and offers "
            f"{', '.join(found.tiers)}"
        )
    return tier


def _answer(slug: str, solution: bool, file: str | Path | None) -> Answer:
    if solution:
        path = sources.course_dir() / "solutions" / f"{slug}.py"
        return Answer(text=sources.solution_text(slug), path=path, saved_at="", origin="solution")
    if file is not None:
        path = Path(file).expanduser()
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"{path} cannot be read as a Python file: {error}") from None
        saved = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(path.stat().st_mtime))
        return Answer(text=text, path=path.resolve(), saved_at=saved, origin="file")
    return Workspace.current().answer(slug)


def _say_whose(report: Report, answer: Answer, solution: bool, file: str | Path | None) -> None:
    """Say that there is no answer yet; let the call to copy repeat the text that was graded."""
    if answer.origin == "stub":
        report.headline = (
            f"You have not started {report.slug}: this checks the stub. Run "
            f"`flashlab start {report.slug}` or the stub cell of the lab, then write step 1."
        )
    smallest = wording.smallest_failure(report) if report.failing_call else None
    if smallest is not None and (solution or file is not None):
        source = "solution=True" if solution else f'file="{answer.path}"'
        report.failing_call = wording.failing_call(report.slug, smallest, source)


def _record(exercise: Exercise, report: Report) -> None:
    try:
        Workspace.current().record_check(
            exercise.slug, report.text_hash, report.status, report.points, report.tier
        )
    except WorkspaceError as error:  # a full disk must not cost the report
        report.notes.append(f"Your progress was not saved: {error}")


def show_report(report: Report) -> None:
    """Display a report: HTML in a notebook, text elsewhere."""
    if in_notebook():
        from IPython.display import HTML, display

        display(HTML(html.report_html(report)))
    else:
        terminal.print_report(report)


class _Progress:
    """A line that says how far a check is; cleared at its end."""

    def __init__(self, slug: str, enabled: bool) -> None:
        self.slug, self.enabled, self.handle = slug, enabled, None

    def __enter__(self) -> Self:
        if self.enabled and in_notebook():
            from IPython.display import HTML, display

            self.handle = display(HTML(""), display_id=True)
        elif self.enabled:
            self.status = terminal.status_line(f"checking {self.slug}")
            self.status.__enter__()
        return self

    def __call__(self, done: int, total: int, text: str) -> None:
        if not self.enabled:
            return
        if self.handle is not None:
            from IPython.display import HTML

            self.handle.update(HTML(html.progress_html(self.slug, done, total, text)))
        elif hasattr(self, "status"):
            self.status.update(f"checking {self.slug}: {done} of {total}, {text}")

    def __exit__(self, *exc: object) -> None:
        if self.handle is not None:
            from IPython.display import HTML

            self.handle.update(HTML(""))
        elif hasattr(self, "status"):
            self.status.__exit__(*exc)


def hint(slug: str, level: int | None = None, *, show: bool = True) -> str:
    """Open the next hint (or the one at ``level``, from 1); your progress records it.

    Raises:
        KeyError: Unknown slug.
        ValueError: No hint has that level.
    """
    hints = exercises.get(slug).hints
    workspace = Workspace.current()
    opened = workspace.hints_opened(slug)
    if level is None:
        level = min(opened + 1, len(hints))
    if not 1 <= level <= len(hints):
        raise ValueError(f"{slug} has hints 1 to {len(hints)}; you asked for {level}")
    workspace.record_hint(slug, level)
    text = f"Hint {level} of {len(hints)}: {hints[level - 1]}"
    if opened == level == len(hints):
        text += "\nThis is the last hint already. `flashlab solution` shows the course's answer."
    if show:
        _say(text)
    return text


def stub(slug: str) -> str:
    """The exercise's starting text."""
    exercises.get(slug)
    return sources.stub_text(slug)


def solution(slug: str, *, open_anyway: bool = False) -> str:
    """The course's solution: free once your text has passed, else on request, which is recorded.

    Raises:
        PermissionError: Not passed yet and ``open_anyway`` is False.
    """
    exercises.get(slug)
    workspace = Workspace.current()
    if workspace.last_pass(slug) is None:
        if not open_anyway:
            raise PermissionError(
                f"{slug} has not passed yet: ask for a hint first (flashlab.hint({slug!r})), or "
                "open it with open_anyway=True (in a terminal: --anyway), which is recorded."
            )
        workspace.record_solution(slug)
    return sources.solution_text(slug)


def reset(slug: str) -> str:
    """Put your file of an exercise back to the stub; your text stays in the history."""
    exercises.get(slug)
    message = Workspace.current().reset(slug)
    _say(message)
    return message


def progress() -> list[dict[str, Any]]:
    """What you have passed so far, one row an exercise, in the order of the syllabus."""
    state = Workspace.current().progress()
    rows = []
    for slug in exercises.SYLLABUS:
        exercise, row = exercises.get(slug), state.get(slug, {})
        rows.append(
            {
                "slug": slug,
                "chapter": exercise.chapter,
                "title": exercise.title,
                "minutes": exercise.minutes,
                "status": row.get("status", "not started"),
                "points": row.get("points"),
                "tier": row.get("tier", ""),
                "hints": row.get("hints", 0),
            }
        )
    return rows


def debug(
    slug: str,
    case: str | None = None,
    tiles: Mapping[str, int] | None = None,
    *,
    solution: bool = False,
    file: str | Path | None = None,
) -> dict[str, Any]:
    """Run one case in this process, so that ``breakpoint()`` and ``print`` work, and compare.

    Unlike ``check`` nothing protects this process: an endless loop has to be interrupted by you.

    Args:
        slug: Exercise.
        case: Case name; None is the first one.
        tiles: Tile sizes by name; None are those of the case.
        solution: Run the course's solution instead of your file.
        file: Run this file instead of the one in your workspace.

    Returns:
        ``{"inputs", "outputs", "reference", "findings", "tally"}``.
    """
    exercise = exercises.get(slug)
    answer = _answer(slug, solution, file)
    return grader.debug(exercise, answer.text, str(answer.path or f"<{slug}>"), case, tiles)


def inspect(slug: str, arch: str | int = "sm_80", *, solution: bool = False) -> list[Any]:
    """Compile your kernels for a GPU you need not have; returns one row a launch and target.

    Args:
        slug: Exercise, or a worked kernel for Hopper such as ``"flash3_backward"``.
        arch: Target, such as ``"sm_90"`` or ``90``.
        solution: Inspect the course's solution instead of your file.
    """
    from flashlab import aot
    from flashlab.worked import inspected

    number = int(str(arch).removeprefix("sm_"))
    if slug in inspected.CALLS:
        rows = inspected.inspect(slug, (number,))
    else:
        exercise = exercises.get(slug)
        rows = grader.compile_for(exercise, _answer(slug, solution, None).text, (number,))
    _say(aot.table(rows))
    return rows


def _say(text: str) -> None:
    print(text)
