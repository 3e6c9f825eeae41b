"""The built site and a browser that may ask nobody but the disk for anything."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.conftest import BROWSER, HOW, QUIET, ROOT

SITE = ROOT / "build" / "site" / "html"
AXE = "import axe_playwright_python as a, pathlib; print(pathlib.Path(a.__file__).parent)"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Building takes minutes, so all of it is slow; and it needs a browser."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.browser)
            if not BROWSER and os.environ.get("CI") != "true":
                item.add_marker(pytest.mark.skip(reason="tests of the site: " + HOW))


@pytest.fixture(scope="session")
def site() -> Path:
    """The folder of the built site; what is unchanged is not built again."""
    done = subprocess.run(["make", "site"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return SITE


@pytest.fixture(scope="session")
def axe_script(site: Path) -> str:
    """axe-core, from the package of the site's environment that carries it."""
    python = ROOT / ".venv-site" / "bin" / "python"
    folder = subprocess.run(
        [python, "-c", AXE], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    return (Path(folder) / "axe.min.js").read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def reader() -> Iterator:
    """One browser for all pages."""
    from playwright.sync_api import sync_playwright

    if not BROWSER:
        pytest.fail("tests of the site: " + HOW)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=QUIET)
        yield browser
        browser.close()
