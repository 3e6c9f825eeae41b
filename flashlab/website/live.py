"""Explorers and quizzes that work without a kernel: an IPython extension for the site's run.

An explorer's pictures are all drawn now and packed into the page; a quiz's verdicts are asked from
the same judge now. ``live.js`` only chooses among them. Without script the first picture and the
questions are there.
"""

import base64
import itertools
import json
import zlib
from html import escape
from typing import TYPE_CHECKING, Any

from flashlab.viz import picture

if TYPE_CHECKING:
    from flashlab.quizzes.question import Question
    from flashlab.quizzes.session import Quiz
    from flashlab.viz.explorer import Explorer


FAR = (977.31, 4321.7, 89.13, 31.77, 2.19)  # no unit's factor; one is no likely mistake either


def load_ipython_extension(shell: Any) -> None:
    """Show explorers and quizzes by their live pages in this kernel."""
    formatter = shell.display_formatter.mimebundle_formatter
    for module, name, page in (
        ("flashlab.viz.explorer", "Explorer", explorer_html),
        ("flashlab.quizzes.session", "Quiz", quiz_html),
    ):
        formatter.for_type_by_name(module, name, _bundle(page))


def _bundle(page):
    def bundle(shown: Any) -> dict[str, str]:
        return {"text/html": page(shown), "text/plain": repr(shown)}

    return bundle


def explorer_html(explorer: "Explorer") -> str:
    """Sliders, the picture at the start, and all other pictures packed."""
    controls = explorer.controls
    places = itertools.product(*(control.values for control in controls))
    names = [control.name for control in controls]
    pictures = [explorer.at(**dict(zip(names, place, strict=True))).figure() for place in places]
    rows = "".join(
        f'<label>{escape(c.label)} <input type="range" min="0" max="{len(c.values) - 1}" '
        f'value="{list(c.values).index(c.start)}" aria-valuetext="{escape(c.words(c.start))}" '
        f'data-words="{escape(json.dumps([c.words(v) for v in c.values]))}">'
        f"<output>{escape(c.words(c.start))}</output></label>"
        for c in controls
    )
    packed = base64.b64encode(zlib.compress(json.dumps(pictures).encode(), 9)).decode()
    name = escape(explorer.title)
    return (
        f'{picture.style()}<div class="fl-live" role="group" aria-label="{name}">'
        f'<div class="fl-controls">{rows}</div>'
        f'<div class="fl-shown" aria-live="polite">{explorer.at().figure()}</div>'
        f'<script type="text/plain">{packed}</script></div>'
    )


def quiz_html(quiz: "Quiz") -> str:
    """The questions with fields, and what the judge says to each answer that it knows."""
    from flashlab.quizzes import page

    rows = "".join(
        f'<div class="fl-question"><p>{page.prompt(number, question)}</p>'
        f'<label>Answer {number} <input type="text" autocomplete="off" spellcheck="false" '
        'placeholder="2.1e6 or 2 * 128 * 64"></label> <button type="button">Check</button>'
        '<div class="fl-said" role="status"></div></div>'
        for number, question in enumerate(quiz.questions, 1)
    )
    data = json.dumps([verdicts(question) for question in quiz.questions]).replace("<", "\\u003c")
    return (
        f'<div class="flashlab-quiz" role="region" aria-label="Quiz">{page.style()}{rows}'
        f'<script type="application/json">{data}</script></div>'
    )


def verdicts(question: "Question") -> dict[str, Any]:
    """What the judge says: to numbers within a share of a target, in order, and to all others."""
    from flashlab.quizzes.page import rich
    from flashlab.quizzes.question import UNIT_SLIPS, judge

    right = float(question.answer())
    tolerance = max(question.tolerance, 1e-9)
    known = [(right, tolerance)]
    known += [(float(wrong.value()), tolerance) for wrong in question.wrong]
    for slip in UNIT_SLIPS if right else ():
        known += [(right * slip, max(tolerance, 1e-6)), (right / slip, max(tolerance, 1e-6))]

    def said(value: float | str) -> str:
        return rich(judge(question, value).said)

    far = next(
        f for f in FAR if not any(_near(v, known) for v in (right * f, right / f, -right * f))
    )
    return {
        "near": [[target, share, said(target)] for target, share in known],
        "large": said(right * far),
        "small": said(right / far),
        "sign": said(-right * far if right else far),
        "none": said("?").replace("&#x27;?&#x27; is", "This is").replace("'?' is", "This is"),
    }


def _near(value: float, known: list[tuple[float, float]]) -> bool:
    return any(abs(value - target) <= share * abs(target) for target, share in known)
