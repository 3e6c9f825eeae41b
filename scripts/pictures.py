"""Draw README's pictures anew: a report on a wrong kernel, and a chapter's picture. Small PNGs.

Needs Chromium, like the browser tests: `.venv/bin/python scripts/pictures.py`.
"""

import io
import shutil
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from flashlab import exercises, learner, sources
from flashlab.render import html
from flashlab.viz import tile_walk

OUT = Path(__file__).resolve().parent.parent / "docs" / "pictures"
SLUG, MISTAKE = "flash_forward", "output-not-rescaled"
COLOURS, SCALE = 64, 1.5
PAGE = '<!doctype html><meta charset="utf-8"><body style="margin:8px;width:844px">{}</body>'


def report():
    """The page of a check of a kernel with one likely mistake in it."""
    mistake = next(m for m in exercises.get(SLUG).mistakes if m.slug == MISTAKE)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{SLUG}.py"
        path.write_text(sources.mutant(sources.solution_text(SLUG), mistake))
        found = learner.check(SLUG, file=path, tier="cpu", show=False)
    assert found.mistake, found.headline
    shown = html.report_html(found)
    return PAGE.format(shown.replace(str(path), f"work/kernels/{SLUG}.py"))


def save(name, png):
    """Keep a picture with few colours: it is text and flat areas."""
    small = Image.open(io.BytesIO(png)).convert("RGB").quantize(COLOURS)
    small.save(OUT / name, optimize=True)
    print(f"{name}: {(OUT / name).stat().st_size / 1e3:.0f} kB, {small.width} x {small.height}")


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    browser_path = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        context = browser.new_context(
            device_scale_factor=SCALE, viewport={"width": 880, "height": 640}
        )
        page = context.new_page()
        page.set_content(report())
        save("report.png", page.locator(".flashlab-report").screenshot())
        page.set_content(tile_walk.tile_walk(N=12, block_m=4, block_n=4).page())
        for _ in range(8):
            page.keyboard.press("ArrowRight")
        save("chapter.png", page.locator("figure").screenshot())
        browser.close()


if __name__ == "__main__":
    main()
