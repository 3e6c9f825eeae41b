"""Reports as text and as HTML: order, size, safety, and that nothing is told by colour alone."""

import importlib.util
import io
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from flashlab.errormap import MAX_HEADS
from flashlab.exercise import STATUSES
from flashlab.grader import wording
from flashlab.grader.report import Report, Stage, Where
from flashlab.grader.wording import MEANINGS
from flashlab.render import summary, terminal
from flashlab.render.html import progress_html, report_html
from flashlab.render.safe import one_line, plain
from flashlab.render.terminal import print_report, report_text, status_line

spec = importlib.util.spec_from_file_location(
    "samples", Path(__file__).with_name("sample_reports.py")
)
samples = importlib.util.module_from_spec(spec)
spec.loader.exec_module(samples)

EACH = pytest.mark.parametrize("make", samples.ALL, ids=lambda f: f.__name__)
VOID = ("rect", "progress")


class Checked(HTMLParser):
    """Collects tags and attributes, and checks that every tag is closed in order."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.attributes = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def parsed(text):
    checked = Checked()
    checked.feed(text)
    assert checked.open == []
    return checked


@EACH
@pytest.mark.parametrize("width", [80, 100])
def test_text_fits_one_screen(make, width):
    lines = report_text(make(), width).splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= width


@EACH
def test_text_without_colour_holds_no_escape(make):
    text = report_text(make())
    assert "\x1b" not in text and "\u202e" not in text


def test_text_keeps_the_order_of_the_design():
    text = report_text(samples.wrong())
    labels = "Status Tested Broke Where Repeat Cause Numbers Hint File Points IO".split()
    found = [re.search(rf"^{label}\b", text, re.M).start() for label in labels]
    assert found == sorted(found)
    assert text.splitlines()[1] == samples.wrong().headline


def test_failing_call_can_be_copied_as_it_stands():
    call = samples.wrong().failing_call
    assert "\n" + call + "\n" in report_text(samples.wrong(), 80)
    compile(call, "<call>", "exec")


def test_tile_picture_shows_right_and_wrong_tiles():
    assert "         ····\n         ██▒▒\n         ██░░\n" in report_text(samples.wrong())
    assert "         ....\n         ##++\n         ##--\n" in report_text(
        samples.wrong(), ascii_only=True
    )


def test_io_over_its_budget_is_shown():
    text = report_text(samples.wrong())
    assert re.search(r"k +14,208 +7,104 +0 +0 +over", text)
    assert "within budget: q, v, o" in text
    assert re.search(r"lse +0 +0 +320 +320 +ok", report_text(samples.passed()))


def test_architectures_with_the_same_fact_are_named_together():
    assert "Compiled sm_80, sm_90: 24 KiB shared" in report_text(samples.passed())


def test_what_did_not_run_is_no_pass():
    assert "Not run  compiled run and speed: no GPU" in report_text(samples.passed())


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
def test_printing_follows_the_encoding_of_the_stream(encoding):
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding)
    print_report(samples.wrong(), stream)
    stream.flush()
    text = raw.getvalue().decode(encoding)
    assert "\x1b" not in text
    assert ("██▒▒" in text) == (encoding == "utf-8") and ("##++" in text) == (encoding != "utf-8")


def test_colour_only_on_a_terminal_and_without_no_color(monkeypatch):
    class Terminal(io.StringIO):
        encoding = "utf-8"

        def isatty(self):
            return True

    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured = Terminal()
    print_report(samples.wrong(), coloured)
    monkeypatch.setenv("NO_COLOR", "1")
    plain_text = Terminal()
    print_report(samples.wrong(), plain_text)
    assert "\x1b[1;31mFAIL" in coloured.getvalue()
    assert "\x1b" not in plain_text.getvalue()


def test_status_line_can_be_updated(capsys):
    with status_line("checking") as status:
        status.update("checking: 1 of 2 [core]")
    assert capsys.readouterr().out == ""


@EACH
def test_html_is_well_formed_and_loads_nothing(make):
    checked = parsed(report_html(make()))
    assert not {"script", "img", "link", "iframe", "object", "a"} & set(checked.tags)
    names = [name for name, _ in checked.attributes]
    assert not any(name.startswith("on") or name in ("src", "href") for name in names)
    assert not re.search(r"url\(|@import|https?://(?!www\.w3\.org/2000/svg)", report_html(make()))


@EACH
def test_html_holds_no_escape_or_override(make):
    text = report_html(make())
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)


def test_html_folds_details_and_names_pictures():
    text = report_html(samples.wrong())
    checked = parsed(text)
    assert checked.tags.count("details") == checked.tags.count("summary") >= 4
    pictures = [value for name, value in checked.attributes if name == "aria-label"]
    assert "Map of the tiles of o: 4 of 6 tiles are wrong" in pictures
    assert any(p.startswith("Your attention matrix: 24 queries down") for p in pictures)
    assert sum(p.startswith("Bars of bytes.") for p in pictures) == 1
    assert checked.tags.count("svg") == 3
    assert ("role", "img") in checked.attributes


def test_html_says_status_in_words_and_marks():
    assert "✘ FAIL" in report_html(samples.wrong()) and "✔ PASS" in report_html(samples.passed())
    for shown in (report_html(samples.wrong()), report_text(samples.wrong(), 100)):
        said = " ".join(shown.split())
        assert "wrong: the numbers are off by far more than rounding can explain" in said
        assert (
            "the solution with mistake acc-not-rescaled in it returns what yours returns" in said
        )
        assert said.count("is not rescaled when a new maximum arrives") == 1
        assert "The budget is what the solution moves" in said


def test_every_status_has_a_meaning():
    assert set(MEANINGS) == set(STATUSES) - {"pass"}


def test_numbers_that_differ_are_shown_to_differ():
    spot = Where("o", [0, 0, 3, 1], 3.76301, 3.76342, rows=[0, 2, 4, 6, 8, 10, 12, 14])
    said = summary.where(spot)
    assert "expected 3.7630, got 3.7634" in said
    assert "and more" in said and "and more and on" not in said
    assert wording.apart(1.0, 1.0) == ("1", "1")
    assert wording.apart(0.5, 8.0) == ("0.5", "8")


def test_a_pack_has_tokens_where_other_outputs_have_heads():
    said = summary.where(Where("o", [23, 1, 0], -0.3, 0.4, heads=[[22], [23]], rows=[0, 1]))
    assert "o, token (22), (23), heads 0 and 1; worst at [23, 1, 0]" in said
    said = summary.where(Where("lse", [1, 23], -0.3, 0.4, heads=[[1]], rows=[22, 23]))
    assert "lse, head (1), rows 22 and 23" in said
    assert "head (0), (1), (2) and 12 more" in summary.where(
        Where("lse", [0, 0], 0.0, 1.0, heads=[[h] for h in range(15)])
    )
    kept = [[h] for h in range(MAX_HEADS)]  # others may be wrong too
    assert "(2) and more" in summary.where(Where("lse", [0, 0], 0.0, 1.0, heads=kept))


def test_an_unfilled_step_is_told_once():
    said = "Step 2 is not written yet: load the tile"
    report = Report("triad", "cpu", "unfilled", f"triad is not filled in yet: {said}.")
    report.stages = [Stage("read", "fail", said)]
    assert report_text(report, 100).count("Step 2 is not written yet") == 1
    assert report_html(report).count("Step 2 is not written yet") == 1
    assert "there is no file of yours yet" in report_text(report)


def test_html_knows_light_and_dark_pages():
    text = report_html(samples.passed())
    for part in ("prefers-color-scheme:dark", 'data-jp-theme-light="false"', "--jp-layout-color0"):
        assert part in text


def test_progress_is_escaped():
    assert parsed(progress_html("a<b", 1, 0, "<i>x")).tags == ["div", "progress"]


def test_safe_text():
    assert plain("\x1b]0;title\x07a\x1b[31mb\x1b[0m\x00c\u202ed\x9b1me") == "abcde"
    assert one_line("a\r\nb\tc") == "a b c"
    long = plain("x" * 9000, 100)
    assert "8900 characters cut" in long and len(long) < 150


def test_json_keeps_nan_and_infinity():
    report = samples.hostile()
    text = report.to_json()
    assert "NaN" not in text and "Infinity" not in text
    again = Report.from_json(text)
    assert again.cases[0].where.got == float("inf")
    assert again.cases[0].where.tile_map == [[float("inf")]]
    assert again.cases[0].where.expected != again.cases[0].where.expected
    assert again.attention_matrix[0][0] == 0.5
    for make in samples.ALL[:-1]:
        assert Report.from_json(make().to_json()) == make()


def test_many_tiles_are_cut():
    report = samples.wrong()
    report.cases[1].where.tile_map = [[2.0, 0.0]] * 20
    assert "... and 12 more rows of tiles" in report_text(report)
    report.cases[1].where.tile_map = [[2.0]] * 20
    assert "░░" * 20 in report_text(report) and "rows from left to right" in report_text(report)
    assert terminal.SHADES[1] == "░░"
