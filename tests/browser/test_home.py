"""The course home in a browser."""

import re

from playwright.sync_api import expect


def test_home_shows_the_course_before_anything_ran(lab):
    lab.page.goto(lab.url)
    home = lab.page.locator(".fl-home")
    expect(home).to_contain_text("exercises passed")
    expect(home).to_contain_text("tier")
    expect(home.locator(".fl-next")).to_contain_text("Next:")
    lab.wait_until_idle()
    lab.screenshot("home-light")


def test_home_is_renewed_by_its_cell_and_reads_on_a_dark_theme(lab):
    lab.open("home.ipynb")
    output = lab.run("course-home")
    expect(output.locator(".fl-home")).to_contain_text("exercises passed")
    lab.use_theme("dark")
    lab.screenshot("home-dark")


def test_a_link_opens_the_lab_beside_the_home(lab):
    lab.open("home.ipynb")
    lab.page.locator(".fl-home a", has_text=re.compile("^lab$")).first.click()
    expect(lab.page.locator(".lm-TabBar-tabLabel", has_text="00_")).to_be_visible()


def test_no_pop_up_asks_for_news(lab):
    lab.open("home.ipynb")
    lab.page.wait_for_timeout(1500)
    expect(lab.page.locator(".Toastify__toast")).to_have_count(0)
