"""JupyterLab as a person handles it: open a notebook, type into a cell, run it, look."""

import json
import re
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

PANEL = ".jp-NotebookPanel:not(.lm-mod-hidden)"
RUN_MS = 90_000
expect.set_options(timeout=20_000)  # a page that opens on a busy machine


class LabPage:
    """A browser page on JupyterLab; ``workspace`` is the folder that it is rooted in."""

    def __init__(self, page: Page, url: str, workspace: Path, screenshots: Path) -> None:
        self.page, self.url, self.workspace = page, url, workspace
        self.screenshots = screenshots
        self.notebook = "home.ipynb"

    def open(self, notebook: str) -> None:
        """Open a notebook by its address and wait until its kernel is idle."""
        self.notebook = notebook
        self.page.goto(self.url.replace("home.ipynb", notebook) + "&reset")
        self.wait_until_idle()

    def wait_until_idle(self) -> None:
        """Wait until the notebook on top has a kernel that does nothing."""
        idle = f"{PANEL} .jp-Notebook-ExecutionIndicator[data-status='idle']"
        self.page.wait_for_selector(idle, timeout=RUN_MS)
        status = self.page.locator("#jp-main-statusbar").get_by_text("| Idle")
        expect(status).to_be_visible(timeout=RUN_MS)  # the other says so without a kernel too

    def cell(self, cell_id: str) -> Locator:
        """The cell with this id in the notebook's file."""
        cells = json.loads((self.workspace / self.notebook).read_text())["cells"]
        index = [cell["id"] for cell in cells].index(cell_id)
        return self.page.locator(f"{PANEL} .jp-Notebook .jp-Cell").nth(index)

    def write(self, cell_id: str, text: str) -> None:
        """Replace a cell's text by typing into it."""
        editor = self.cell(cell_id).locator(".cm-content")
        editor.scroll_into_view_if_needed()
        editor.click()
        self.page.keyboard.press("ControlOrMeta+a")
        self.page.keyboard.press("Delete")
        self.page.keyboard.insert_text(text)

    def copy_into(self, cell_id: str, text: Locator) -> None:
        """Select a text on the page, copy it by keys and paste it over what a cell holds."""
        text.scroll_into_view_if_needed()
        text.click(click_count=3)
        text.select_text()
        self.page.keyboard.press("ControlOrMeta+c")
        self.cell(cell_id).locator(".cm-content").click()
        self.page.keyboard.press("ControlOrMeta+a")
        self.page.keyboard.press("ControlOrMeta+v")

    def run(self, cell_id: str) -> Locator:
        """Run a cell with Shift+Enter; returns its output once it is done."""
        cell = self.cell(cell_id)
        prompt = cell.locator(".jp-InputPrompt").first
        before = prompt.inner_text()
        cell.locator(".cm-content").click(position={"x": 5, "y": 5})
        expect(cell).to_have_class(re.compile(r"\bjp-mod-active\b"))
        self.page.keyboard.press("Shift+Enter")
        expect(prompt).not_to_have_text(before, timeout=RUN_MS)
        expect(prompt).to_have_text(re.compile(r"^\[\d+\]:$"), timeout=RUN_MS)
        return cell.locator(".jp-Cell-outputArea")

    def run_all(self) -> None:
        """Run every cell by the menu; returns when the last one is done."""
        self.page.get_by_role("menuitem", name="Run", exact=True).click()
        self.page.locator(
            "li[data-command='runmenu:run-all'], li[data-command='notebook:run-all']"
        ).click()
        last = self.page.locator(f"{PANEL} .jp-CodeCell .jp-InputPrompt").last
        expect(last).to_have_text(re.compile(r"^\[\d+\]:$"), timeout=RUN_MS)
        self.wait_until_idle()

    def use_theme(self, theme: str) -> None:
        """Switch to the light or dark theme by the menu."""
        light = "true" if theme == "light" else "false"
        if self.page.locator("body").get_attribute("data-jp-theme-light") == light:
            return  # choosing it again would load it again
        self.page.get_by_role("menuitem", name="Settings").click()
        self.page.get_by_text("Theme", exact=True).hover()
        self.page.get_by_text(f"JupyterLab {theme.capitalize()}", exact=True).click()
        expect(self.page.locator("body")).to_have_attribute("data-jp-theme-light", light)
        expect(self.page.locator("#jupyterlab-splash")).to_have_count(0)

    def parts(self, selector: str) -> Locator:
        """Parts of the notebook on top, by CSS."""
        return self.page.locator(f"{PANEL} {selector}")

    def cells(self) -> Locator:
        """Its cells."""
        return self.parts(".jp-Notebook .jp-Cell")

    def active_cell(self) -> int:
        """The number of its active cell, from 0."""
        script = "cells => cells.findIndex(cell => cell.classList.contains('jp-mod-active'))"
        return self.cells().evaluate_all(script)

    def restart_kernel(self) -> None:
        """Restart the kernel by the toolbar, as a learner does who is stuck."""
        self.page.locator(f"{PANEL} [data-command='notebook:restart-kernel']").first.click()
        self.page.locator(".jp-Dialog .jp-mod-accept").click()
        self.wait_until_idle()

    def save(self) -> None:
        """Save the notebook with Ctrl+S."""
        self.page.keyboard.press("ControlOrMeta+s")
        expect(self.page.locator(".lm-TabBar-tab.jp-mod-dirty")).to_have_count(0, timeout=10_000)

    def screenshot(self, name: str, part: Locator | None = None) -> None:
        """Keep a picture in the git-ignored folder."""
        (part or self.page).screenshot(path=self.screenshots / f"{name}.png")
