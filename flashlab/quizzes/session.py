"""A quiz with its reader's progress, asked in a notebook or by plain calls."""

import difflib
import importlib
import pkgutil
from collections.abc import Sequence
from typing import Any

from flashlab.quizzes import chapters, page
from flashlab.quizzes.question import Question, Verdict, judge
from flashlab.viz import bundle
from flashlab.workspace import Workspace, WorkspaceError

TRIES = 2  # wrong tries before an answer may be shown


class Quiz:
    """The questions of one chapter; a notebook shows them with fields to answer in.

    Args:
        name: Such as ``"flash-forward"``; its progress lies under this name.
        questions: In order.
    """

    def __init__(self, name: str, questions: Sequence[Question]) -> None:
        self.name, self.questions = name, tuple(questions)

    def answer(self, number: int, value: float | str) -> Verdict:
        """Judge an answer to question ``number`` (from 1) and keep the result.

        Raises:
            ValueError: there is no such question.
        """
        question = self._question(number)
        verdict = judge(question, value)
        if verdict.status != "not a number":
            self._record(question, verdict.right)
        return verdict

    def reveal(self, number: int) -> str:
        """The answer of question ``number``, after two wrong tries or once it is right.

        Raises:
            ValueError: there is no such question, or it was not tried twice.
        """
        question = self._question(number)
        row = self.progress().get(question.key, {})
        if not row.get("right") and row.get("tries", 0) < TRIES:
            raise ValueError(f"try question {number} {TRIES} times first")
        return judge(question, question.answer()).said

    def progress(self) -> dict[str, dict[str, Any]]:
        """Question key -> {"tries": int, "right": time of the first right answer or None}."""
        try:
            return Workspace.current().quiz(self.name)
        except WorkspaceError:
            return {}

    def right(self) -> list[int]:
        """Numbers of the questions that were answered rightly."""
        rows = self.progress()
        return [n for n, q in enumerate(self.questions, 1) if rows.get(q.key, {}).get("right")]

    def _question(self, number: int) -> Question:
        if number not in range(1, len(self.questions) + 1):
            raise ValueError(f"{self.name} has questions 1 to {len(self.questions)}, no {number}")
        return self.questions[number - 1]

    def _record(self, question: Question, right: bool) -> None:
        try:
            Workspace.current().record_quiz(self.name, question.key, right)
        except WorkspaceError as error:  # a full disk must not cost the verdict
            print(f"Your progress was not saved: {error}")

    def __repr__(self) -> str:
        return page.text(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        from flashlab.quizzes import view

        return bundle.bundle(lambda: view.widget(self), page.static_html(self), repr(self))


def names() -> list[str]:
    """Every quiz of the course."""
    return sorted(m.name.replace("_", "-") for m in pkgutil.iter_modules(chapters.__path__))


def of_chapter(number: str) -> list[str]:
    """Names of the quizzes of a chapter, such as ``"04"``; their files say whose they are."""
    found = []
    for name in names():
        module = importlib.import_module(f"{chapters.__name__}.{name.replace('-', '_')}")
        if (module.__doc__ or "").startswith(f"Chapter {number}:"):
            found.append(name)
    return found


def quiz(name: str) -> Quiz:
    """The quiz of a chapter: display it, or answer by ``quiz(name).answer(1, 2.1e6)``.

    Raises:
        KeyError: no chapter has it; the message suggests the nearest.
    """
    if name not in names():
        near = difflib.get_close_matches(name, names(), n=1, cutoff=0.4)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names())}"
        raise KeyError(f"there is no quiz {name!r}; {hint}")
    module = importlib.import_module(f"{chapters.__name__}.{name.replace('-', '_')}")
    return Quiz(name, module.QUESTIONS)
