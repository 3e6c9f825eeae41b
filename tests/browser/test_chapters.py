"""Chapters in a browser: pictures move by keys, no key reaches the notebook, quizzes answer."""

import json

import pytest
from playwright.sync_api import expect

from flashlab import quizzes, sources

GATE = ("04_", "08_")  # every kind of picture; the other chapters: `make test-full`
CHAPTERS = [
    pytest.param(path.stem, marks=() if path.stem.startswith(GATE) else pytest.mark.slow)
    for path in sorted((sources.course_dir() / "chapters").glob("*.ipynb"))
]
COMMANDS = ("ArrowDown", "ArrowUp", "a", "x", "m", "d", "d")  # move, insert, cut, retype, delete


@pytest.mark.parametrize("name", CHAPTERS)
def test_pictures_move_by_keys_that_stay_inside(lab, name):
    lab.open(f"chapters/{name}.ipynb")
    lab.use_theme("light")
    lab.run_all()
    before = lab.cells().count()
    players, explorers = lab.parts("iframe[srcdoc]"), lab.parts(".flashlab-explorer")
    for number in range(players.count()):
        step_player(lab, players.nth(number))
        lab.screenshot(f"{name}-player-{number}-light", players.nth(number))
    for number in range(explorers.count()):
        move_sliders(lab, explorers.nth(number))
        lab.screenshot(f"{name}-explorer-{number}-light", explorers.nth(number))
    assert lab.cells().count() == before

    lab.use_theme("dark")
    for kind, parts in (("player", players), ("explorer", explorers)):
        for number in range(parts.count()):
            lab.screenshot(f"{name}-{kind}-{number}-dark", parts.nth(number))
    for number in range(players.count()):
        root = players.nth(number).content_frame.locator("html")
        expect(root).to_have_attribute("data-theme", "dark")


def step_player(lab, player):
    """Arrow right, End and a letter: the picture follows, the notebook does not."""
    player.scroll_into_view_if_needed()
    inside = player.content_frame
    stage, count = inside.locator("#stage"), inside.locator("#count")
    stage.click()
    first = stage.inner_html()
    lab.page.keyboard.press("ArrowRight")
    expect(count).to_contain_text("2 /")
    assert stage.inner_html() != first
    lab.page.keyboard.press("End")
    total = count.inner_text().split("/")[1].strip()
    expect(count).to_have_text(f"{total} / {total}")
    active = lab.active_cell()
    for key in COMMANDS:
        lab.page.keyboard.press(key)
    assert lab.active_cell() == active
    expect(count).to_have_text(f"{total} / {total}")


def move_sliders(lab, explorer):
    """Each slider by an arrow key: the picture follows; letters do nothing."""
    explorer.scroll_into_view_if_needed()
    figure = explorer.locator("figure").last
    for handle in explorer.locator(".noUi-handle").all():
        handle.focus()
        lab.page.keyboard.press("Home")
        lab.wait_until_idle()
        lab.page.wait_for_timeout(400)  # the answer to Home is on its way
        seen = figure.text_content()
        lab.page.keyboard.press("End")
        expect(figure).not_to_have_text(seen)
        count, active = lab.cells().count(), lab.active_cell()
        for key in COMMANDS[2:]:
            lab.page.keyboard.press(key)
        assert (lab.cells().count(), lab.active_cell()) == (count, active)


def test_a_saved_chapter_shows_its_explorer_without_a_run(lab):
    lab.open("chapters/04_flash_forward.ipynb")
    lab.run("imports")
    shown = lab.run("budget").locator("figure")
    lab.parts(".flashlab-explorer .noUi-handle").first.focus()
    lab.page.keyboard.press("Home")
    expect(shown).to_contain_text("all scores, 256 x 256")
    lab.save()
    lab.open("chapters/04_flash_forward.ipynb")
    again = lab.cell("budget").locator(".jp-Cell-outputArea")
    expect(again.locator("figure")).to_contain_text("all scores, 256 x 256")
    expect(again).not_to_contain_text("model not found")


def test_a_square_of_a_pattern_is_pressed_and_its_kernel_counted(lab):
    lab.open("chapters/05_counting_io.ipynb")
    lab.use_theme("light")
    lab.run("imports")
    editor = lab.run("sparse-editor")
    expect(editor.locator("figcaption")).to_contain_text("44 % of the tiles")
    square = editor.get_by_role("button", name="queries 0, keys 7: dropped")
    square.focus()
    before = lab.cells().count()
    for key in ("x", "Space"):
        lab.page.keyboard.press(key)
    expect(editor.get_by_role("button", name="queries 0, keys 7: kept")).to_be_visible()
    editor.get_by_role("button", name="queries 0, keys 6: dropped").click()
    expect(editor.locator("figcaption")).to_contain_text("47 % of the tiles")
    assert lab.cells().count() == before
    lab.screenshot("pattern-light", editor)
    expect(lab.run("sparse-count")).to_contain_text("47 % of the tiles")
    lab.use_theme("dark")
    lab.screenshot("pattern-dark", lab.cell("sparse-editor"))


def test_a_quiz_gives_a_reason_and_keeps_what_was_right(lab, lab_workspace):
    quiz = quizzes.quiz("flash-forward")
    wrong, right = quiz.questions[0].wrong[0], quiz.questions[0].answer()
    lab.open("chapters/04_flash_forward.ipynb")
    lab.use_theme("light")
    lab.run("imports")
    output = lab.run("quiz")
    field = output.get_by_label("Answer 1", exact=True)
    field.fill(f"{wrong.value()}")
    field.press("Enter")
    expect(output).to_contain_text(wrong.reason)
    lab.screenshot("quiz-wrong", output)
    before = lab.cells().count()
    output.get_by_role("button", name="Check").first.focus()
    lab.page.keyboard.press("x")
    assert lab.cells().count() == before
    field.fill(f"{right:,.0f}")
    output.get_by_role("button", name="Check").first.click()
    expect(output).to_contain_text("✔ Right.")
    expect(output).to_contain_text(f"1 of {len(quiz.questions)} right")
    lab.screenshot("quiz-right", output)
    kept = json.loads((lab_workspace / "progress.json").read_text())["quizzes"]["flash-forward"]
    assert kept[quiz.questions[0].key]["tries"] == 2
    expect(lab.run("quiz")).to_contain_text("answered before")
    lab.use_theme("dark")
    lab.screenshot("quiz-dark", lab.cell("quiz"))
