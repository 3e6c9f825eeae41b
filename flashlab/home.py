"""The course home: where a learner stands, what comes next, links to it. Floor: front.

``flashlab lab`` writes it into the notebook ``home.ipynb``, whose one cell shows the page anew.
Colours are inherited, so that the page reads on light and on dark themes.
"""

import json
import re
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from flashlab import device
from flashlab.quizzes import Quiz, session
from flashlab.workspace import Workspace

NEWER = ".new"  # a stem's end, see ``lab.files``
ADVICE = {
    "cpu": "Every lab is graded on this machine by running its kernels on the CPU. "
    "Speed is measured only where there is an NVIDIA GPU of sm_80 or newer.",
    "gpu": "Kernels run on the CPU for counting and on the GPU for speed.",
    "hopper": "Kernels run on the CPU for counting and on the GPU for speed; "
    "the Hopper-only parts run too.",
}
STYLE = """<style>
.fl-home { max-width: 60em; line-height: 1.5; }
.fl-home .fl-next { border: 1px solid rgba(128,128,128,.5); border-left: .4em solid #2a9d8f;
  border-radius: .3em; padding: .6em 1em; margin: 1em 0; }
.fl-home table { border-collapse: collapse; width: 100%; table-layout: auto !important; }
.fl-home table td, .fl-home table th { text-align: left !important; vertical-align: top;
  padding: .35em .8em .35em 0; border-bottom: 1px solid rgba(128,128,128,.35);
  white-space: normal; line-height: 1.7; background: none !important; }
.fl-home table td.fl-whole { white-space: nowrap; }
.fl-home progress { width: 14em; height: 1em; vertical-align: middle; accent-color: #2a9d8f; }
.fl-home .fl-quiet { opacity: .75; }
.fl-home code { background: rgba(128,128,128,.18); padding: 0 .25em; border-radius: .2em; }
</style>"""


@dataclass
class Chapter:
    """What the course has of one chapter; paths are relative to the workspace."""

    number: str
    title: str = ""
    chapter: str = ""
    lab: str = ""
    exercises: list[dict[str, Any]] = field(default_factory=list)
    quizzes: list[Quiz] = field(default_factory=list)


def show() -> None:
    """Display the page in a notebook."""
    from IPython.display import HTML, display

    display(HTML(page(Workspace.current().root)))


def page(root: Path) -> str:
    """The page as HTML, for a notebook that lies in ``root``."""
    from flashlab import learner  # imports torch: `flashlab lab` starts its server meanwhile

    found = device.detect()
    rows = learner.progress()
    passed = sum(row["status"] == "pass" for row in rows)
    plan = _chapters(root, rows)
    return "".join(
        [
            STYLE,
            '<div class="fl-home"><h1>Understand FlashAttention by writing it</h1>',
            f'<p><progress max="{len(rows)}" value="{passed}" aria-label="exercises passed">',
            f"</progress> <b>{passed} of {len(rows)}</b> exercises passed. This machine: tier ",
            f"<b>{found.tier}</b> ({escape(found.name)}). ",
            f"{escape(found.note or ADVICE[found.tier])}</p>",
            _next_step(plan, rows),
            "<table><thead><tr><th></th><th>Chapter</th><th>Lab</th><th>Exercises</th>",
            "<th>You</th><th>Quiz</th></tr></thead><tbody>",
            *[_table_rows(chapter) for chapter in plan],
            "</tbody></table>",
            '<p class="fl-quiet">Read the chapter, then do its lab. Your answers are the files ',
            "in <code>kernels/</code>: write them in the lab's cells or in any editor. ",
            "<code>flashlab doctor</code> in a terminal says what this machine can run. This ",
            "page is made anew at each start: keep notes in a notebook of your own.</p></div>",
        ]
    )


def _chapters(root: Path, rows: list[dict[str, Any]]) -> list[Chapter]:
    """Chapters of which there is a notebook or an exercise, in order."""
    plan: dict[str, Chapter] = {}
    for kind in ("chapters", "labs"):
        for path in sorted((root / kind).glob("[0-9][0-9]_*.ipynb")):
            if path.stem.endswith(NEWER):  # the course's text beside one's own
                continue
            chapter = plan.setdefault(path.name[:2], Chapter(path.name[:2]))
            setattr(chapter, kind.removesuffix("s"), f"{kind}/{path.name}")
            chapter.title = chapter.title or title(path)
    for row in rows:
        plan.setdefault(row["chapter"], Chapter(row["chapter"])).exercises.append(row)
    for number, chapter in plan.items():
        chapter.quizzes = [session.quiz(name) for name in session.of_chapter(number)]
    return [plan[number] for number in sorted(plan)]


def title(path: Path) -> str:
    """The first heading of a notebook without its number, else its file name in words."""
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        text = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    except (OSError, ValueError, KeyError, TypeError):
        text = ""
    heading = re.search(r"^# +(?:(?:chapter|lab) )?(?:\d+)?[\s.:·-]*(.+)$", text, re.M | re.I)
    title = heading.group(1).strip() if heading else path.stem[3:].replace("_", " ")
    return title[:1].upper() + title[1:]


def _next_step(plan: list[Chapter], rows: list[dict[str, Any]]) -> str:
    todo = next((row for row in rows if row["status"] != "pass"), None)
    if todo is None:
        text = f"All {len(rows)} exercises passed."
    else:
        chapter = next(c for c in plan if c.number == todo["chapter"])
        where = [
            _link(chapter.chapter, "read the chapter"),
            _link(chapter.lab, "do the lab"),
        ]
        links = ", then ".join(link for link in where if link)
        ahead = f": {links}" if links else f": <code>flashlab start {todo['slug']}</code>"
        text = (
            f"<b>Next: {escape(todo['title'])}</b> (<code>{todo['slug']}</code>, about "
            f"{todo['minutes']} minutes){ahead}."
        )
    return f'<div class="fl-next">{text}</div>'


def _table_rows(chapter: Chapter) -> str:
    """A row for each exercise; what belongs to the whole chapter spans them."""
    title = _link(chapter.chapter, chapter.title) or escape(chapter.title)
    quiz = "<br>".join(f"{len(q.right())} of {len(q.questions)} right" for q in chapter.quizzes)
    high = max(1, len(chapter.exercises))
    span = f' rowspan="{high}"' if high > 1 else ""
    before = "".join(
        f"<td{span}>{cell}</td>" for cell in (chapter.number, title, _link(chapter.lab, "lab"))
    )
    after = f'<td{span} class="fl-whole">{quiz}</td>'
    own = [
        f"<td><code>{row['slug']}</code></td><td>{_status(row)}</td>" for row in chapter.exercises
    ] or ["<td></td><td></td>"]
    rows = [before + own[0] + after, *own[1:]]
    return "".join(f"<tr>{row}</tr>" for row in rows)


def _status(row: dict[str, Any]) -> str:
    hints = (
        f", {row['hints']} hint{'s' if row['hints'] > 1 else ''} opened" if row["hints"] else ""
    )
    if row["status"] == "pass":
        return f"✓ passed, {row['points']:g} points ({row['tier']}){hints}"
    if row["points"] is None:
        return f"not checked yet{hints}"
    return f"best so far {row['points']:g} points: {escape(row['status'])}{hints}"


def _link(path: str, text: str) -> str:
    return f'<a href="{escape(path, quote=True)}">{escape(text)}</a>' if path else ""
