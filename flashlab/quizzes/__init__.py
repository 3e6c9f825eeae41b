"""Numeric questions of the chapters, judged with reasons; progress is kept. Floor: front.

A chapter's questions are data: ``chapters/<name>.py`` with ``QUESTIONS``, a tuple of 4 to 8.
"""

from flashlab.quizzes.question import Question, Verdict, Wrong
from flashlab.quizzes.session import Quiz, names, quiz

__all__ = ["Question", "Quiz", "Verdict", "Wrong", "names", "quiz"]
