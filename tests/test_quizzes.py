"""Every quiz of the course as data, the judge, a reader's progress, and the widgets' logic."""

import math
import re

import ipywidgets
import pytest

import flashlab
from flashlab import quizzes
from flashlab.quizzes import page, view
from flashlab.quizzes.question import Question, Wrong, judge, number
from flashlab.viz import bundle
from flashlab.workspace import Workspace

NAMES = quizzes.names()
PLAIN = Question(
    key="half",
    prompt="How many bytes?",
    answer=lambda: 2048,
    unit="bytes",
    because="Two rows.",
    wrong=(Wrong(lambda: 1024, "That is one row."),),
)


def questions() -> list:
    return [
        pytest.param(question, id=f"{name}/{question.key}")
        for name in NAMES
        for question in quizzes.quiz(name).questions
    ]


@pytest.mark.parametrize("name", NAMES)
def test_a_quiz_has_four_to_eight_questions_with_names_of_their_own(name):
    keys = [question.key for question in quizzes.quiz(name).questions]
    assert 4 <= len(keys) <= 8
    assert len(set(keys)) == len(keys)
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", key) for key in keys)


@pytest.mark.parametrize("question", questions())
def test_each_likely_wrong_answer_gets_its_reason(question):
    right = question.answer()
    assert math.isfinite(right)
    assert 0 <= question.tolerance <= 0.05
    assert judge(question, right).right
    assert judge(question, repr(right)).right
    assert question.wrong, "say at least one likely wrong answer and why it is wrong"
    for wrong in question.wrong:
        verdict = judge(question, wrong.value())
        assert (verdict.status, verdict.said) == ("wrong", wrong.reason)
    for text in (question.prompt, question.because, *(w.reason for w in question.wrong)):
        assert text[0].isupper() or text[0].isdigit() or text[0] in "`-", text
        assert text[-1] in ".?", text
        assert text.count("`") % 2 == 0, text
    far = judge(question, right * 1.37 + 0.21)
    assert far.status == "wrong" and far.said


@pytest.mark.parametrize(
    ("given", "status", "says"),
    [
        (2048, "right", "It is 2,048 bytes. Two rows."),
        (2060, "right", "It is"),
        ("2 * 1,024", "right", "It is"),
        (1024, "wrong", "That is one row."),
        (2.0, "wrong", "a factor 1,024: wanted is a number in bytes"),
        (2048 * 8, "wrong", "bits for bytes"),
        (1500, "wrong", "Too small"),
        (1e5, "wrong", "Too large"),
        (-3, "wrong", "above 0"),
        (math.nan, "wrong", "above 0"),
        ("two", "not a number", "write one such as"),
        ("__import__('os')", "not a number", "write one such as"),
        ("9**9**9**9", "not a number", "write one such as"),
        (None, "not a number", "write one such as"),
    ],
)
def test_the_judge(given, status, says):
    verdict = judge(PLAIN, given)
    assert verdict.status == status
    assert says in verdict.said
    assert verdict.said in repr(verdict)


@pytest.mark.parametrize(
    ("text", "value"),
    [("2.1e6", 2.1e6), ("67,108,864", 2**26), ("= 2**3 - -1", 9), ("exp(-2)", math.exp(-2))],
)
def test_numbers_and_formulas(text, value):
    assert number(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "(-1)**0.5", "1/0", "a", "1 if 1 else 2", "1;2", "True"])
def test_what_is_no_number(text):
    with pytest.raises(ValueError):
        number(text)


def test_an_exact_question_is_exact():
    exact = Question("n", "How many?", lambda: 528, "tiles", "So.", (), tolerance=0.0)
    assert judge(exact, 528).right
    assert not judge(exact, 529).right
    assert "exact" in exact.asked


def test_progress_is_kept_and_a_right_answer_stays():
    quiz = quizzes.Quiz("sample", [PLAIN])
    assert quiz.progress() == {}
    with pytest.raises(ValueError, match="try question 1 2 times"):
        quiz.reveal(1)
    quiz.answer(1, "words")
    assert quiz.progress() == {}  # no number, no try
    quiz.answer(1, 3)
    quiz.answer(1, 4)
    assert "2,048 bytes" in quiz.reveal(1)
    quiz.answer(1, 2048)
    first = Workspace.current().quiz("sample")["half"]
    quiz.answer(1, 5)
    assert Workspace.current().quiz("sample")["half"] == first
    assert first["tries"] == 3 and first["right"]
    assert quiz.right() == [1]
    assert "[right]" in repr(quiz) and "1 of 1 right" in repr(quiz)


def test_questions_have_numbers():
    quiz = quizzes.Quiz("sample", [PLAIN])
    for wrong in (0, 2, "1"):
        with pytest.raises(ValueError, match="questions 1 to 1"):
            quiz.answer(wrong, 1)


def test_an_unknown_quiz_is_named_with_the_nearest():
    assert flashlab.quiz(NAMES[0]).name == NAMES[0]
    with pytest.raises(KeyError, match="did you mean 'flash-forward'"):
        quizzes.quiz("flash_forward")
    with pytest.raises(KeyError, match="there are"):
        quizzes.quiz("zzz")


def _of(widget, kind):
    inside = [w for child in getattr(widget, "children", ()) for w in _of(child, kind)]
    return ([widget] if type(widget) is kind else []) + inside


def test_a_field_checks_on_enter_and_the_button_does_not_count_twice():
    quiz = quizzes.Quiz("sample", [PLAIN])
    box = view.widget(quiz)
    (field,), (button,) = _of(box, ipywidgets.Text), _of(box, ipywidgets.Button)
    said = _of(box, ipywidgets.HTML)
    assert field.description and not field.continuous_update
    field.value = "1024"
    button.click()
    assert any("That is one row." in w.value for w in said)
    assert Workspace.current().quiz("sample")["half"]["tries"] == 1
    field.value = "2048"
    assert any("✔ Right." in w.value for w in said)
    assert any("1 of 1 right" in w.value for w in said)
    again = _of(view.widget(quiz), ipywidgets.HTML)
    assert any("answered before" in w.value for w in again)


def test_one_output_serves_notebook_page_and_terminal(monkeypatch):
    quiz = quizzes.quiz("flash-forward")
    plain = quiz._repr_mimebundle_()
    assert set(plain) == {"text/plain", "text/html"}
    for question in quiz.questions:
        assert question.prompt in plain["text/plain"]
        assert page.rich(question.prompt) in plain["text/html"]
    monkeypatch.setattr(bundle, "in_notebook", lambda: True)
    shown = quiz._repr_mimebundle_()["application/vnd.jupyter.widget-view+json"]
    assert shown["model_id"]
    assert page.rich("a < `b`") == "a &lt; <code>b</code>"
