"""A session-wide JupyterLab and Chromium. Without a browser: not run, said so; a failure in CI."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.labpage import LabPage

ROOT = Path(__file__).resolve().parent.parent.parent
SCREENSHOTS = ROOT / "screenshots"  # git-ignored
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
HOW = (
    "not run (no Chromium on this machine; Debian, Ubuntu: apt-get install chromium; or name one "
    "in FLASHLAB_BROWSER)"
)
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]
BROWSER = os.environ.get("FLASHLAB_BROWSER") or next(filter(None, map(shutil.which, BROWSERS)), "")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder needs a browser, and in CI there has to be one."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.browser)
            if not BROWSER and os.environ.get("CI") != "true":
                item.add_marker(pytest.mark.skip(reason="browser tests: " + HOW))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not BROWSER:
        terminalreporter.line(f"browser tests: {HOW}", yellow=True)


@pytest.fixture(scope="session")
def lab_workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The workspace of the session's JupyterLab."""
    return tmp_path_factory.mktemp("learner") / "work"


@pytest.fixture(scope="session")
def lab_url(lab_workspace: Path) -> Iterator[str]:
    """The address that ``flashlab lab`` prints."""
    if not BROWSER:
        pytest.fail("browser tests: " + HOW)
    env = {**os.environ, "HOME": str(lab_workspace.parent), "FLASHLAB_WORK": str(lab_workspace)}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    env["FLASHLAB_CAPSTONE_STEPS"] = "8"  # the whole training takes a minute
    command = [sys.executable, "-m", "flashlab", "lab", "--no-browser", "--port", "8931"]
    lab = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
    try:
        said = ""
        for line in lab.stdout:
            said += line
            if found := re.search(r"http://\S+", line):
                break
        else:
            pytest.fail(f"flashlab lab printed no address: {said}")
        yield found.group()
    finally:
        lab.send_signal(signal.SIGINT)
        lab.wait(30)
        lab.stdout.close()


@pytest.fixture(scope="session")
def chromium(lab_url: str):
    """One browser for the session."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=QUIET)
        yield browser
        browser.close()


@pytest.fixture
def lab(
    chromium, lab_url: str, lab_workspace: Path, request: pytest.FixtureRequest
) -> Iterator[LabPage]:
    """A page whose requests may go to this JupyterLab alone; a picture of it when a test fails."""
    failures = request.session.testsfailed
    context = chromium.new_context(viewport={"width": 1400, "height": 1600})
    page = context.new_page()
    outside = []
    page.on("request", lambda r: outside.append(r.url) if _is_outside(r.url, lab_url) else None)
    SCREENSHOTS.mkdir(exist_ok=True)
    yield LabPage(page, lab_url, lab_workspace, SCREENSHOTS)
    if request.session.testsfailed > failures:
        page.screenshot(path=SCREENSHOTS / f"failed-{request.node.name}.png")
    context.close()
    assert not outside, f"the page asked the network for {outside[:3]}"


def _is_outside(url: str, lab_url: str) -> bool:
    host = re.match(r"https?://[^/]+", lab_url).group()
    return not url.startswith((host, host.replace("http", "ws", 1), "data:", "blob:", "about:"))
