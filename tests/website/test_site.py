"""Every page of the built site, as a reader meets it: from the disk, without a network."""

import re
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest
from playwright.sync_api import expect

from flashlab import exercises, sources
from flashlab.render import html
from flashlab.website import api
from tests import sample_reports

CHAPTERS = sorted(path.stem for path in (sources.course_dir() / "chapters").glob("*.ipynb"))
LABS = sorted(path.stem for path in (sources.course_dir() / "labs").glob("*.ipynb"))
PAGES = [
    "index",
    *("start", "syllabus", "glossary", "evidence", "search", "genindex"),
    *sorted(path.stem for path in (sources.course_dir() / "docs").glob("*.md")),
    *(f"chapters/{name}" for name in CHAPTERS),
    *(f"labs/{name}" for name in LABS),
    *(f"exercises/{slug}" for slug in exercises.SYLLABUS),
    *(f"api/{name}" for name in api.PAGES),
]
VIEWS = {390: "dark", 1440: "light"}
# Tables and code scroll inside themselves; the page as a whole must not.
WIDER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
ROOM = "root => [innerHeight, root.querySelector('figure').offsetHeight]"
# On a desktop no line of code or of what it printed hides behind a scroll bar.
HIDDEN = """[...document.querySelectorAll('.highlight pre')]
  .filter(pre => pre.scrollWidth > pre.clientWidth + 1).map(pre => pre.textContent)"""


class Visit:
    """A page that was opened, and what went wrong while it was."""

    def __init__(self, browser, site: Path, width: int = 1440, theme: str = "light") -> None:
        self.context = browser.new_context(
            viewport={"width": width, "height": 1000}, color_scheme=theme
        )
        self.page, self.site = self.context.new_page(), site
        self.outside, self.errors = [], []
        self.page.on("request", lambda request: self._asked(request.url))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._said)

    def _asked(self, url: str) -> None:
        if not url.startswith((self.site.as_uri(), "data:", "blob:", "about:")):
            self.outside.append(url)

    def _said(self, message) -> None:
        if message.type == "error":
            self.errors.append(message.text)

    def open(self, name: str):
        """Go to a page and let its frames load."""
        self.page.goto((self.site / f"{name}.html").as_uri())
        for frame in self.page.locator("iframe[srcdoc]").all():
            frame.scroll_into_view_if_needed()
            inside = frame.content_frame
            expect(inside.locator("#stage svg")).to_be_visible()
            room, needed = inside.locator("html").evaluate(ROOM)
            assert needed <= room < needed + 120, f"a player of {needed} px has {room} px"
        return self.page


@pytest.fixture
def visit(reader, site):
    """Visits that end with the test."""
    opened = []

    def make(**options) -> Visit:
        opened.append(Visit(reader, site, **options))
        return opened[-1]

    yield make
    for one in opened:
        one.context.close()


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize(("width", "theme"), VIEWS.items(), ids=VIEWS.values())
def test_a_page_is_readable_for_everybody_and_asks_nobody(visit, axe_script, name, width, theme):
    one = visit(width=width, theme=theme)
    page = one.open(name)
    assert page.evaluate(WIDER) <= 0, f"wider than {width} px"
    assert width < 1000 or page.evaluate(HIDDEN) == []
    assert any(text.strip() for text in page.locator("h1").all_inner_texts())
    assert one.outside == []
    assert one.errors == []
    page.evaluate(axe_script)
    assert barriers(page.evaluate("axe.run(document, {preload: false})")) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_report_has_no_barriers(visit, axe_script, theme):
    page = visit(theme=theme).page
    told = (sample_reports.passed(), sample_reports.wrong())
    shown = "".join([html.progress_html("triad", 1, 3, "core"), *map(html.report_html, told)])
    page.set_content(f'<!doctype html><html lang="en"><title>reports</title><main>{shown}</main>')
    page.locator("details").evaluate_all("all => all.forEach(one => one.open = true)")
    page.evaluate(axe_script)
    assert barriers(page.evaluate("axe.run(document)")) == []


def barriers(found: dict) -> list[str]:
    """What axe-core calls serious or critical."""
    return [
        f"{rule['id']} ({rule['impact']}): {node['target']} {node.get('failureSummary', '')}"
        for rule in found["violations"]
        if rule["impact"] in ("serious", "critical")
        for node in rule["nodes"][:2]
    ]


def links(path: Path) -> set[str]:
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"<(script|iframe)\b.*?</\1>|srcdoc=\"[^\"]*\"", "", text, flags=re.S)
    return set(re.findall(r'\b(?:href|src)="([^"]+)"', text))


def test_no_link_within_the_site_is_broken(site):
    ids: dict[Path, set[str]] = {}
    broken, seen = [], 0
    for path in sorted(site.rglob("*.html")):
        if "_static" in path.parts:  # the theme's templates, no pages
            continue
        for link in links(path):
            if re.match(r"[a-z]+:|//", link):
                continue
            address, part = urldefrag(link)
            target = (path.parent / unquote(address.split("?")[0])) if address else path
            seen += 1
            if not target.is_file():
                broken.append(f"{path.relative_to(site)}: {link}")
            elif part and target.suffix == ".html":
                if target not in ids:
                    text = target.read_text(encoding="utf-8")
                    ids[target] = set(re.findall(r'\bid="([^"]+)"', text))
                if unquote(part) not in ids[target]:
                    broken.append(f"{path.relative_to(site)}: {link}")
    assert seen > 1000
    assert broken == []


@pytest.mark.parametrize("name", CHAPTERS)
def test_pictures_of_a_chapter_move_by_keys_without_a_kernel(visit, name):
    page = visit().open(f"chapters/{name}")
    for player in page.locator("iframe[srcdoc]").all():
        inside = player.content_frame
        count = inside.locator("#count")
        inside.locator("#next").focus()
        page.keyboard.press("Home")
        first = inside.locator("#stage").inner_html()
        page.keyboard.press("ArrowRight")
        expect(count).to_contain_text("2 /")
        assert inside.locator("#stage").inner_html() != first
        page.keyboard.press("End")
        total = count.inner_text().split("/")[1].strip()
        expect(count).to_have_text(f"{total} / {total}")
    for explorer in page.locator(".fl-live").all():
        shown = explorer.locator(".fl-shown")
        for slider in explorer.locator("input").all():
            slider.focus()
            page.keyboard.press("Home")
            page.wait_for_timeout(100)
            before = shown.inner_html()
            page.keyboard.press("End")
            expect(slider).not_to_have_attribute("aria-valuetext", "")
            page.wait_for_timeout(100)
            assert shown.inner_html() != before


def test_the_switch_of_themes_reaches_the_frames(visit):
    page = visit(theme="light").open("chapters/04_flash_forward")
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    root = page.locator("iframe[srcdoc]").first.content_frame.locator("html")
    expect(root).to_have_attribute("data-theme", "dark")


def test_search_finds_a_chapter_and_an_exercise(visit):
    one = visit()
    page = one.page
    page.goto((one.site / "search.html").as_uri() + "?q=online+softmax")
    found = page.locator("#search-results")
    expect(found.get_by_text("Chapter 03: online softmax").first).to_be_visible()
    page.goto((one.site / "search.html").as_uri() + "?q=paged_decode")
    expect(found.locator("a[href*='exercises/paged_decode']").first).to_be_visible()
    assert one.outside == one.errors == []


def test_a_phone_opens_the_table_of_contents(visit):
    page = visit(width=390).open("index")
    page.locator("button.primary-toggle").first.click()
    link = page.get_by_role("link", name="Chapter 03: online softmax").first
    expect(link).to_be_visible()
