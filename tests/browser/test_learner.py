"""A learner's whole way through a lab in a browser: stub, wrong, right, restart, nothing lost."""

import json
import re

import pytest
from playwright.sync_api import expect

from flashlab import exercises, sources
from flashlab.workspace import Workspace

LABS = [
    pytest.param(
        *("labs/00_start_here.ipynb", "vector_scale", "store-unmasked"), marks=pytest.mark.slow
    ),
    ("labs/03_online_softmax.ipynb", "online_softmax", "padded-with-zero"),
    ("labs/04_flash_forward.ipynb", "flash_forward", "output-not-rescaled"),
]
PICTURES = {"flash_forward": ("bytes-count", "tiles-visited")}  # of the learner's own kernel


@pytest.mark.parametrize(
    ("notebook", "slug", "mistake"), LABS, ids=["vector_scale", "online_softmax", "flash_forward"]
)
def test_stub_then_wrong_then_right_then_restart(lab, lab_workspace, notebook, slug, mistake):
    prefix = slug.replace("_", "-")
    stub, check = f"{prefix}-stub", f"{prefix}-check"
    file = lab_workspace / "kernels" / f"{slug}.py"
    exercise = exercises.get(slug)
    right = sources.without_markers(sources.solution_text(slug))
    wrong_by = next(m for m in exercise.mistakes if m.slug == mistake)
    wrong = sources.mutant(sources.solution_text(slug), wrong_by)
    passed_before = _passed(lab_workspace)
    lab.open(notebook)
    for cell_id in _code_before(lab_workspace / notebook, stub):
        lab.run(cell_id)

    lab.run(stub)
    report = lab.run(check)
    expect(report).to_contain_text("Step 1 is not written yet")
    lab.screenshot(f"{prefix}-1-stub", report)

    lab.write(stub, f"%%fill {slug}\n{wrong}")
    expect(lab.run(stub)).to_contain_text(f"kernels/{slug}.py")
    report = lab.run(check)
    expect(report).to_contain_text(re.compile(rf"FAIL\s*{slug}\s*{wrong_by.expect}"))
    lab.screenshot(f"{prefix}-2-wrong", report)

    call = report.locator("dt", has_text="Repeat").locator("+ dd pre")
    told = call.inner_text().strip()
    lab.copy_into(check, call)
    expect(lab.cell(check).locator(".cm-content")).to_contain_text(told.splitlines()[-1])
    expect(lab.run(check)).to_contain_text("'reference': ")

    lab.write(check, f'flashlab.hint("{slug}")')
    expect(lab.run(check)).to_contain_text("Hint 1 of")
    lab.write(check, f'flashlab.check("{slug}")')

    lab.write(stub, f"%%fill {slug}\n{right}")
    lab.run(stub)
    assert file.read_text() == right
    report = lab.run(check)
    expect(report).to_contain_text(re.compile(rf"PASS\s*{slug}\s*100 of 100 points"))
    lab.screenshot(f"{prefix}-3-right", report)
    for cell_id in PICTURES.get(slug, ()):
        picture = lab.run(cell_id).locator("figure.flashlab-picture")
        expect(picture.locator("svg")).to_be_visible()
        lab.screenshot(f"{prefix}-{cell_id}", picture)
    lab.save()

    lab.restart_kernel()
    expect(lab.run(stub)).to_contain_text("loaded")
    lab.open(notebook)
    expect(lab.cell(stub)).to_contain_text(f"%%fill {slug}")
    assert file.read_text() == right
    kept = [path.read_text() for path in (lab_workspace / "history" / slug).glob("*.py")]
    assert wrong in kept

    lab.open("home.ipynb")
    page = lab.run("course-home")
    expect(page).to_contain_text("✓ passed")
    done = page.get_by_role("progressbar", name="exercises passed")
    assert int(done.get_attribute("value")) == passed_before + 1
    expect(page).to_contain_text("1 hint opened")
    lab.screenshot(f"{prefix}-4-home")


def _passed(workspace):
    """How many exercises have passed."""
    rows = Workspace(workspace).progress().values()
    return sum(row["status"] == "pass" for row in rows)


def _code_before(path, stop):
    """Ids of the code cells above the cell ``stop``."""
    cells = json.loads(path.read_text())["cells"]
    ids = [cell["id"] for cell in cells]
    return [c["id"] for c in cells[: ids.index(stop)] if c["cell_type"] == "code"]
