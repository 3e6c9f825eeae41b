"""Explorers: the pure part, the view's logic without a browser, and one output for all readers."""

import html
import time

import ipywidgets
import pytest

from flashlab import hardware
from flashlab.bench import records
from flashlab.viz import (
    bundle,
    fits,
    fp8_formats,
    gpt_step,
    incoherent,
    io_curves,
    l2_reuse,
    pipeline_timeline,
    ring_link,
    ring_work,
    score_budget,
    sparse_pattern,
    warp_split,
    waves,
)
from flashlab.viz.explorer import Control, Explorer
from flashlab.viz.picture import Picture, svg

EXPLORERS = [
    score_budget.score_budget(),
    io_curves.io_curves(),
    l2_reuse.l2_reuse(),
    sparse_pattern.PatternEditor(),
    pipeline_timeline.pipeline(),
    waves.waves(),
    warp_split.warp_split(),
    fits.fits(),
    fp8_formats.formats(),
    incoherent.incoherent(),
    gpt_step.gpt_step(records.load("capstone")),
    ring_link.link_explorer(),
    ring_work.work_explorer(),
]


def _of(widget, kind):
    inside = [w for child in getattr(widget, "children", ()) for w in _of(child, kind)]
    return ([widget] if type(widget) is kind else []) + inside


@pytest.mark.parametrize("explorer", EXPLORERS, ids=lambda e: e.draw.__module__)
def test_every_place_of_every_slider_draws_quickly_and_says_it_in_words(explorer):
    for control in explorer.controls:
        assert control.label and len(control.values) > 1
        for value in control.values:
            start = time.process_time()
            picture = explorer.at(**{control.name: value})
            assert time.process_time() - start < 0.1
            assert picture.caption.endswith(".")
            assert len({len(row) for row in picture.rows}) == 1
            for row in picture.rows:
                assert all(html.escape(cell) in picture.figure() for cell in row)
                assert all(cell in repr(picture) for cell in row)


@pytest.mark.parametrize("explorer", EXPLORERS, ids=lambda e: e.draw.__module__)
def test_moving_a_labelled_slider_changes_the_picture(explorer):
    box = explorer.widget()
    sliders = _of(box, ipywidgets.SelectionSlider)
    shown = _of(box, ipywidgets.HTML)[-1]
    assert [slider.description for slider in sliders] == [c.label for c in explorer.controls]
    assert shown.value == explorer.at().figure()
    for slider, control in zip(sliders, explorer.controls, strict=True):
        other = next(v for v in control.values if v != control.start)
        slider.value = other
        assert shown.value == explorer.at(**{control.name: other}).figure()
        slider.value = control.start


def test_one_output_serves_notebook_page_and_terminal(monkeypatch):
    explorer = score_budget.score_budget()
    plain = explorer._repr_mimebundle_()
    assert set(plain) == {"text/plain", "text/html"}
    assert explorer.at().figure() in plain["text/html"]
    assert "8,192" in plain["text/plain"] and "Shown at" in plain["text/plain"]
    monkeypatch.setattr(bundle, "in_notebook", lambda: True)
    assert explorer._repr_mimebundle_()["application/vnd.jupyter.widget-view+json"]["model_id"]


def test_an_explorer_refuses_what_it_does_not_offer():
    explorer = score_budget.score_budget()
    with pytest.raises(ValueError, match="no n$"):
        explorer.at(n=1)
    with pytest.raises(ValueError, match="N is one of"):
        explorer.at(N=8191)
    with pytest.raises(ValueError, match="starts at 3"):
        Control("x", "x", [1, 2], 3)
    with pytest.raises(ValueError, match="at least one control"):
        Explorer("none", explorer.draw, [])


def test_a_picture_needs_words():
    with pytest.raises(ValueError, match="role and aria-label"):
        Picture("bare", "<svg></svg>", "Nothing.")
    drawn = Picture("a < b", svg(2, 1, 'say "<x>"', ""), "a < b.", (("n", "m"), ("1", "<i>")))
    page = drawn._repr_html_()
    assert "&lt;i&gt;" in page and "<i>" not in page and "a &lt; b" in page
    assert 'aria-label="say &quot;&lt;x&gt;&quot;"' in page


def test_score_budget_counts_by_hand():
    b = score_budget.budget(8192, 128, 64, "float16", "A100-80", D=64)
    assert b.rows == 2 * 1024 * 1024
    assert b.matrix == 134_217_728
    assert b.limit == 163 * 1024 == hardware.SHARED_PER_BLOCK[80]
    tiles = 2 * (128 * 64 + 2 * 64 * 64 + 128 * 64)
    assert b.held == tiles + 4 * (128 * 64 + 2 * 128)
    assert score_budget.budget(16384, 128, 64).held == b.held


def test_plain_keys_stay_and_ctrl_passes():
    box = score_budget.score_budget().widget()
    assert bundle.KEYS_STAY in box._dom_classes
    code = html.unescape(_of(box, ipywidgets.HTML)[0].value)
    assert bundle.KEYS_STAY in code and "ctrlKey" in code
