"""The site's pages before Sphinx reads them, and what is packed into them for readers without
Python. The built site itself is tested by tests/website (slow).
"""

import base64
import json
import math
import re
import zlib
from pathlib import Path

import nbformat
import pytest

from flashlab import claims, exercises, quizzes, sources
from flashlab.bench import records
from flashlab.quizzes.question import judge
from flashlab.viz import score_budget
from flashlab.website import contracts, evidence, execute, live, pages

CHAPTERS = sorted((sources.course_dir() / "chapters").glob("*.ipynb"))


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Path:
    """All pages, the chapters without outputs."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "left over.md").write_text("# Nothing writes me any more\n")
    pages.write(folder, CHAPTERS, [evidence.reproduced("fa3-ablation")])
    return folder


def markdown(path: Path) -> str:
    if path.suffix == ".md":
        return path.read_text()
    cells = json.loads(path.read_text())["cells"]
    return "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")


def test_links_between_pages_lead_somewhere(written):
    found = 0
    for path in written.rglob("*.*"):
        for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+)[^)]*\)", markdown(path)):
            if "/" in target or target.endswith((".md", ".ipynb")):
                found += 1
                assert (path.parent / target).resolve().is_file(), f"{path.name}: {target}"
    assert found > 100


def test_every_page_is_in_the_table_of_contents(written):
    index = (written / "index.md").read_text()
    listed = {
        line.rpartition("<")[2].rstrip(">")
        for block in re.findall(r"```\{toctree\}\n(.*?)```", index, re.S)
        for line in block.splitlines()
        if line and line[0] != ":"
    }
    there = {p.relative_to(written).with_suffix("").as_posix() for p in written.rglob("*.*")}
    assert listed == there - {"index"}


@pytest.mark.parametrize("slug", exercises.SYLLABUS)
def test_an_exercise_page_has_its_contract_and_no_line_of_its_solution(slug):
    page = contracts.page(slug)
    exercise = exercises.get(slug)
    for name in exercise.functions:
        assert f"{name}(" in page
    assert all(step in page for step in exercise.steps)
    solution = sources.solution_text(slug)
    for hole in sources.holes(solution):
        for line in hole.lines:
            code = line.split("#")[0].strip()
            if len(code) > 12:
                assert code not in page


def test_evidence_shows_every_claim_and_every_record(written):
    page = (written / "evidence.md").read_text()
    assert all(claim.words.replace("|", "\\|") in page for claim in claims.every())
    assert all(f"### `{path.stem}`" in page for path in records.FOLDER.glob("*.json"))


def test_a_rate_on_the_evidence_page_is_work_by_time():
    record = records.load("flash2_forward")
    row = record["rows"][0]
    rate = row["work"] / row["ms"]["ours"] / 1e9
    assert f" {rate:.1f} " in evidence.page({}, []).split("`flash2_forward`")[1].split("###")[0]


def test_a_version_that_was_not_timed_is_left_blank():
    rows = [
        {"cell": "a", "work": 2e9, "digits": 1, "unit": "TFLOP/s", "ms": {"ours": 1.0}},
        {"cell": "b", "work": 2e9, "digits": 1, "unit": "TFLOP/s", "ms": {"peer": math.nan}},
    ]
    assert evidence._rates(rows).splitlines() == [
        "| TFLOP/s | ours | peer |",
        "|---|---:|---:|",
        "| a | 2.0 |  |",
        "| b |  |  |",
    ]


def test_versions_that_were_not_timed_together_get_tables_of_their_own():
    one = {"cell": "a", "ms": dict.fromkeys("bcdefg", 1.0)}
    two = {"cell": "h", "ms": dict.fromkeys("bijkl", 1.0)}
    assert evidence._together([one, two, one]) == [[one, one], [two]]
    assert evidence._together([one, one]) == [[one, one]]


def test_a_row_of_the_evidence_page_is_named_by_its_sizes():
    row = {"N": 4096, "causal": True, "sent_bytes": 10, "ms": {"ours": 1.0}}
    assert evidence._cell(row) == "N 4,096, causal"
    assert evidence._cell(row | {"causal": False}) == "N 4,096"
    assert [evidence._plain(value) for value in (7.32e14, 2_118_000_000.0, 15.94, 4096, None)] == [
        "732 T", "2.118 G", "15.94", "4,096", "not measured",
    ]  # fmt: skip
    columns = evidence.table(("a", "b"), [("732 T", "float16"), ("not measured", "7")])
    assert columns.splitlines()[1] == "|---:|---|"


def test_the_syllabus_says_how_long_everything_takes(written):
    rows = [
        [cell.strip() for cell in line.split("|")]
        for line in (written / "syllabus.md").read_text().splitlines()
        if re.match(r"\| \d\d ", line)
    ]
    assert len(rows) == len(CHAPTERS)
    assert all(10 < int(row[3]) < 120 for row in rows), "a chapter does not say its time"
    writing = sum(exercises.get(slug).minutes for slug in exercises.SYLLABUS)
    assert sum(int(row[6] or 0) for row in rows) == writing


def test_reference_pages_speak_to_readers(written):
    for path in (written / "api").glob("*.md"):
        assert "Floor:" not in path.read_text()
    assert "### `check_" not in (written / "api" / "reference.md").read_text()


def test_a_signature_with_a_class_in_it_reads_as_it_was_written():
    from flashlab.website.conf import conf

    shown = "(name: str, values: ~collections.abc.Sequence[~typing.Any], words=<class 'str'>)"
    assert conf.readable(None, "class", "C", None, None, shown, None) == (
        "(name: str, values: Sequence[Any], words=str)",
        None,
    )
    assert conf.readable(None, "class", "C", None, None, "(name: str)", None) is None


def test_a_folder_that_is_gone_is_not_in_a_page():
    cell = nbformat.v4.new_code_cell(
        outputs=[nbformat.v4.new_output("stream", text="saved as /somewhere/x/work/a.html")]
    )
    page = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("a"), cell])
    execute._forget("/somewhere/x", page)
    assert cell.outputs[0].text == "saved as work/a.html"


def test_a_chapter_runs_once_and_a_cell_that_fails_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(execute, "_state", lambda: "code as it is now")
    said = []
    for name, code in (("00_good", "print(6 * 7)"), ("01_bad", "1 / 0")):
        page = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
        nbformat.write(page, tmp_path / f"{name}.ipynb")
    good, bad = tmp_path / "00_good.ipynb", tmp_path / "01_bad.ipynb"
    for _ in range(2):
        (done,) = execute.run_all([good], tmp_path / "executed", 1, said.append)
    assert nbformat.read(done, 4).cells[0].outputs[0].text == "42\n"
    assert said[1] == "00_good: unchanged"
    with pytest.raises(RuntimeError, match=r"(?s)01_bad\.ipynb: .*ZeroDivisionError"):
        execute.run_all([bad], tmp_path / "executed", 1, said.append)


def test_a_page_that_is_not_there_leads_to_the_syllabus():
    text = "[here](03_a.ipynb) [gone](09_b.ipynb) [lab](../labs/03_a.ipynb)"
    assert pages.linked(text, "chapters", {"03_a"}) == (
        "[here](../chapters/03_a.ipynb) [gone](../syllabus.md) [lab](../labs/03_a.md)"
    )


def test_links_to_files_lead_to_the_repository():
    text = "[a](../CONTRIBUTING.md) [b](https://a.b/c) [c](#here) [d](labs/x.ipynb#y)"
    told = pages.without_repository_links(text)
    assert "/blob/main/CONTRIBUTING.md)" in told and "/blob/main/labs/x.ipynb#y)" in told
    assert "[b](https://a.b/c) [c](#here)" in told


def test_nothing_is_left_over_and_unchanged_pages_keep_their_time(written):
    assert not (written / "left over.md").exists()
    before = {path: path.stat().st_mtime_ns for path in written.rglob("*.md")}
    pages.write(written, CHAPTERS, [evidence.reproduced("fa3-ablation")])
    assert {path: path.stat().st_mtime_ns for path in written.rglob("*.md")} == before


def test_an_explorer_packs_all_its_pictures_in_the_order_of_its_sliders():
    explorer = score_budget.score_budget()
    page = live.explorer_html(explorer)
    packed = re.search(r'<script type="text/plain">(.*?)</script>', page).group(1)
    pictures = json.loads(zlib.decompress(base64.b64decode(packed)))
    counts = [len(control.values) for control in explorer.controls]
    assert len(pictures) == math.prod(counts)
    last = {control.name: control.values[-1] for control in explorer.controls}
    assert pictures[-1] == explorer.at(**last).figure()
    third = explorer.controls[-1]
    assert (
        pictures[2]
        == explorer.at(
            **{control.name: control.values[0] for control in explorer.controls[:-1]},
            **{third.name: third.values[2]},
        ).figure()
    )


@pytest.mark.parametrize("name", quizzes.names())
def test_packed_verdicts_are_the_judges_own(name):
    for question in quizzes.quiz(name).questions:
        packed = live.verdicts(question)
        right = float(question.answer())
        assert packed["near"][0][0] == right
        assert packed["none"].startswith("This is no number")
        for wrong, (target, _, said) in zip(question.wrong, packed["near"][1:], strict=False):
            value = float(wrong.value())
            assert target == value
            assert judge(question, value).said.split("`")[0].split("<")[0][:20] in said
        assert "large" in packed["large"] and "small" in packed["small"]
        assert packed["sign"].startswith("A number")
