"""The site's script in a browser: packed pictures follow sliders, quizzes judge as Python."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from flashlab import quizzes
from flashlab.quizzes.page import rich
from flashlab.quizzes.question import judge, number
from flashlab.viz import waves
from flashlab.website import live

SCRIPT = Path(live.__file__).parent / "conf" / "static" / "live.js"
ANSWERS = (
    "2 * 128 * 64|1,048,576|= 3.0 * exp(2.0 - 2.5)|-4|1e3|2 ** 3 ** 2|-2 ** 2|log(8) / log(2)"
)
NO_ANSWERS = "abc|2 +|(3|4)|1 2|2(3)|3px|__import__"


@pytest.fixture(scope="module")
def page(chromium, tmp_path_factory):
    """A page with an explorer and every quiz, opened from the disk."""
    shown = [live.explorer_html(waves.waves())]
    shown += [live.quiz_html(quizzes.quiz(name)) for name in quizzes.names()]
    path = tmp_path_factory.mktemp("live") / "page.html"
    path.write_text(
        f'<!doctype html><meta charset="utf-8"><script>{SCRIPT.read_text()}</script>'
        + "".join(shown)
    )
    context = chromium.new_context()
    opened = context.new_page()
    problems = []
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.goto(path.as_uri())
    yield opened
    context.close()
    assert problems == []


def test_a_slider_shows_the_picture_that_python_draws_there(page):
    explorer = waves.waves()
    sliders = page.locator(".fl-live input")
    for at, control in enumerate(explorer.controls):
        sliders.nth(at).focus()
        page.keyboard.press("End")
        expect(sliders.nth(at)).to_have_attribute(
            "aria-valuetext", control.words(control.values[-1])
        )
    last = explorer.at(**{control.name: control.values[-1] for control in explorer.controls})
    expect(page.locator(".fl-shown figcaption")).to_have_text(last.caption)


def test_the_script_judges_as_python_does(page):
    texts = page.locator(".flashlab-quiz script").all_text_contents()
    ask = "([data, i, text]) => judge(JSON.parse(data)[i], text)"
    for name, data in zip(quizzes.names(), texts, strict=True):
        for at, question in enumerate(quizzes.quiz(name).questions):
            right = float(question.answer())
            numbers = [right, *(float(wrong.value()) for wrong in question.wrong)]
            numbers += [right * 1024, right * 3.3, right / 2.7, -right]
            for value in numbers:
                good, said = page.evaluate(ask, [data, at, repr(value)])
                verdict = judge(question, value)
                assert good == verdict.right, (name, question.key, value)
                assert said == rich(verdict.said), (name, question.key, value)


@pytest.mark.parametrize("text", ANSWERS.split("|"))
def test_a_formula_has_the_same_value_in_both(page, text):
    assert page.evaluate("text => number(text)", text) == pytest.approx(number(text))


@pytest.mark.parametrize("text", NO_ANSWERS.split("|"))
def test_what_is_no_formula_is_none_in_both(page, text):
    with pytest.raises(ValueError):
        number(text)
    assert page.evaluate("t => { try { return number(t) } catch { return null } }", text) is None


def test_enter_checks_an_answer(page):
    question = quizzes.quiz(quizzes.names()[0]).questions[0]
    field = page.locator(".fl-question input").first
    field.fill(f"{float(question.answer())!r}")
    field.press("Enter")
    expect(page.locator(".fl-said").first).to_contain_text("✔ Right.")
