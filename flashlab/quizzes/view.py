"""A quiz as widgets: a field a question; Enter, Tab or the button checks. ipywidgets 7.7 and 8."""

from typing import TYPE_CHECKING

import ipywidgets as widgets

from flashlab.quizzes import page
from flashlab.quizzes.question import Verdict
from flashlab.viz import bundle

if TYPE_CHECKING:
    from flashlab.quizzes.session import Quiz


def widget(quiz: "Quiz") -> widgets.Widget:
    """All questions in a column, and how many are right."""
    score = widgets.HTML()

    def count() -> None:
        score.value = _scoped(
            f'<span class="fl-soft">{len(quiz.right())} of {len(quiz.questions)} right</span>'
        )

    rows = [_row(quiz, n, count) for n in range(1, len(quiz.questions) + 1)]
    count()
    look = widgets.HTML(page.style() + bundle.keeps_keys())
    box = widgets.VBox([look, *rows, score])
    box.add_class(bundle.KEYS_STAY)
    return box


def _row(quiz: "Quiz", number: int, changed) -> widgets.Widget:
    question = quiz.questions[number - 1]
    prompt = widgets.HTML(_scoped(page.prompt(number, question)))
    field = widgets.Text(
        description=f"Answer {number}",
        placeholder="a number or a formula: 2.1e6, 2 * 128 * 64",
        continuous_update=False,  # a change is then sent on Enter and on leaving the field
        layout=widgets.Layout(width="420px"),
    )
    button = widgets.Button(description="Check", tooltip=f"check answer {number}")
    said = widgets.HTML(_said_before(quiz, question.key))
    seen = [""]

    def check(_: object = None) -> None:
        text = field.value.strip()
        if not text or text == seen[0]:  # the button comes after the field's own change
            return
        seen[0] = text
        said.value = _verdict(quiz.answer(number, text))
        changed()

    field.observe(check, names="value")
    button.on_click(check)
    return widgets.VBox([prompt, widgets.HBox([field, button]), said])


def _scoped(inner: str) -> str:
    return f'<div class="flashlab-quiz" style="line-height:1.5;white-space:normal">{inner}</div>'


def _said_before(quiz: "Quiz", key: str) -> str:
    if quiz.progress().get(key, {}).get("right"):
        inner = '<div class="fl-right"><b>✔ Right</b>, answered before.</div>'
        return _scoped(inner)
    return ""


def _verdict(verdict: Verdict) -> str:
    mark = "✔ Right." if verdict.right else "✘ Not yet."
    name = "fl-right" if verdict.right else "fl-wrong"
    inner = f'<div class="{name}" role="status"><b>{mark}</b> {page.rich(verdict.said)}</div>'
    return _scoped(inner)
