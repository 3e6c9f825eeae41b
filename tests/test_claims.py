"""The table of claims, and the check that a chapter shows them (the chapters run elsewhere)."""

import json
import re

import pytest

from flashlab import claims, sources
from flashlab.claims import Claim, Value
from flashlab.claims.claim import LIVE, TOLD
from flashlab.claims.shown import TAG, numbers, said

ID = Claim(
    "A1",
    ("04",),
    "It has 67 million.",
    ("computed",),
    "arithmetic",
    (Value(67e6, "entries", 0.01),),
)
TOLD_ID = Claim("A2", ("04",), "It is 15 % faster.", ("cited",), "a paper", (Value(15, "%"),))


def cell(*tags, text="", kind="code", **data):
    outputs = [{"output_type": "stream", "text": text}] if text else []
    outputs += [{"output_type": "display_data", "data": data}] if data else []
    body = {"outputs": outputs} if kind == "code" else {"source": [text]}
    return {"cell_type": kind, "metadata": {"tags": list(tags)}, **body}


def test_ids_stand_once_and_have_words_and_sources():
    ids = [claim.id for claim in claims.every()]
    assert len(ids) == len(set(ids))
    for claim in claims.every():
        assert re.fullmatch(r"[A-Z]\d+", claim.id)
        assert claim.words.endswith(".") and claim.source and claim.chapters
        assert claim.shown and set(claim.shown) <= {*LIVE, *TOLD}
        assert {v.chapter for v in claim.values} <= {"", *claim.chapters}


@pytest.mark.parametrize("chapter", claims.chapters())
def test_a_chapter_has_a_cell_for_each_claim_and_for_no_other(chapter):
    (path,) = (sources.course_dir() / "chapters").glob(f"{chapter}_*.ipynb")
    tags = {
        t for c in json.loads(path.read_text())["cells"] for t in c["metadata"].get("tags", [])
    }
    assert {t for t in tags if t.startswith(TAG)} == {TAG + c.id for c in claims.of(chapter)}


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        ([cell("claim:A1", text="67,108,864 entries")], None),
        ([cell("claim:A1", **{"text/html": "<b>67108864</b> <i>entries</i>"})], None),
        ([cell("claim:A1", text="70,000,000 entries")], "shown is 7e+07"),
        ([cell("claim:A1", text="many entries")], "shown is none"),
        ([cell("claim:A1")], "no code cell claim:A1"),
        ([cell(text="67,108,864 entries")], "no code cell claim:A1"),
        ([cell("claim:A1", text="67,108,864 entries", kind="markdown")], "no code cell"),
        ([cell("claim:A1", text="67,108,864 entries"), cell("claim:B2", text="1")], "no claim of"),
    ],
)
def test_what_a_chapter_does_not_show_is_named(cells, says):
    found = list(claims.faults("04", cells, [ID]))
    assert len(found) == (says is not None)
    assert not says or says in found[0]


def test_what_others_measured_may_stand_in_the_text():
    assert not list(
        claims.faults("04", [cell("claim:A2", text="15 %", kind="markdown")], [TOLD_ID])
    )


def test_a_value_may_belong_to_one_chapter():
    other = Claim("A3", ("02", "04"), "x.", ("computed",), "y", (Value(1, "KB", chapter="02"),))
    shows = [cell("claim:A3", text="something")]
    assert not list(claims.faults("04", shows, [other]))
    assert list(claims.faults("02", shows, [other]))


def test_numbers_stand_right_before_their_unit():
    assert numbers("from 1.5 to 2e-3 MB, 7 MBit, -3MB, v2.0 MB", "MB") == [0.002, -3.0]
    assert numbers("12 % and 3%", "%") == [12, 3]


def test_a_claimed_zero_has_a_margin():
    assert Value(0, "off", margin=1e-12).agrees(3e-16)
    assert not Value(0, "off", margin=1e-12).agrees(1e-6)


def test_scripts_and_styles_say_nothing():
    assert "9" not in said(cell(**{"text/html": "<style>a{b:9 MB}</style>ok"}))
