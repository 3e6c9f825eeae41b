"""A quiz without a kernel: its questions as text and as HTML."""

import html
import re
from typing import TYPE_CHECKING

from flashlab.quizzes.question import Question
from flashlab.viz import palette

if TYPE_CHECKING:
    from flashlab.quizzes.session import Quiz

SCOPE = ".flashlab-quiz"
_STYLE = """
{r}{{font:15px/1.5 system-ui,sans-serif;color:var(--fl-ink);max-width:760px}}
{r} code{{font:13px ui-monospace,Menlo,Consolas,monospace;color:var(--fl-ink);
background:var(--fl-panel);padding:0 3px;border-radius:3px}}
{r} .fl-soft{{color:var(--fl-soft)}}
{r} .fl-right,{r} .fl-wrong{{border-left:5px solid var(--fl-green);padding:2px 10px;margin:2px 0}}
{r} .fl-wrong{{border-color:var(--fl-orange)}}
{r} b{{color:var(--fl-ink)}}
"""


def style() -> str:
    """The quiz's ``<style>``; safe to repeat."""
    return f"<style>{palette.inline(SCOPE)}{_STYLE.format(r=SCOPE)}</style>"


def rich(text: str) -> str:
    """Escaped HTML of a sentence with `code` in backticks."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text, quote=False))


def prompt(number: int, question: Question) -> str:
    """One question as HTML."""
    asked = f'<span class="fl-soft">({rich(question.asked)})</span>'
    return f"<b>{number}.</b> {rich(question.prompt)} {asked}"


def static_html(quiz: "Quiz") -> str:
    """The questions as HTML, for a page without a kernel."""
    items = "".join(f"<p>{prompt(n, q)}</p>" for n, q in enumerate(quiz.questions, 1))
    call = f'flashlab.quiz("{quiz.name}").answer(1, ...)'
    return (
        f'<div class="flashlab-quiz" role="region" aria-label="Quiz">{style()}{items}'
        f'<p class="fl-soft">Run the cell to answer here, or call <code>{html.escape(call)}'
        "</code>.</p></div>"
    )


def text(quiz: "Quiz") -> str:
    """The questions as plain text, with what was answered so far."""
    rows = quiz.progress()
    lines = []
    for number, question in enumerate(quiz.questions, 1):
        mark = "right" if rows.get(question.key, {}).get("right") else "open"
        lines.append(f"{number}. [{mark}] {question.prompt} ({question.asked})")
    right = len(quiz.right())
    lines.append(f"{right} of {len(quiz.questions)} right. Answer by .answer(1, number).")
    return "\n".join(lines)
