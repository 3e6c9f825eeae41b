"""Notebooks in canonical form: what is put right, what is kept, what only an author can mend."""

import json

import nbformat
import pytest

from flashlab.authoring import __main__ as authoring
from flashlab.authoring import canonical


def code(text: str, **more) -> canonical.Cell:
    saved = {"execution_count": 3, "outputs": [{"output_type": "stream", "text": "x"}]}
    return {"cell_type": "code", "metadata": {}, "source": text, **saved, **more}


def prose(text: str, **more) -> canonical.Cell:
    return {"cell_type": "markdown", "metadata": {}, "source": text, **more}


def form(*cells: canonical.Cell, **more) -> canonical.Notebook:
    notebook = {"nbformat": 4, "nbformat_minor": 2, "metadata": {}, "cells": list(cells), **more}
    return canonical.canonical(notebook)


def ids(*cells: canonical.Cell) -> list[str]:
    return [cell["id"] for cell in form(*cells)["cells"]]


def test_the_real_notebooks_are_canonical():
    assert canonical.main([], check=True) == []


def test_outputs_counts_and_metadata_go_and_tags_stay():
    metadata = {"tags": ["predict"], "collapsed": True, "vscode": {"languageId": "python"}}
    kernel = {"name": "my-env", "display_name": "my env", "language": "python"}
    notebook = form(
        code("1", metadata=metadata),
        prose("a", metadata={"tags": []}, outputs=[]),
        metadata={"kernelspec": kernel, "widgets": {}, "language_info": {"version": "3.11.7"}},
        signature="x",
    )
    assert set(notebook) == {"cells", "metadata", "nbformat", "nbformat_minor"}
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert notebook["metadata"] == {"kernelspec": canonical.KERNEL}
    first, second = notebook["cells"]
    assert first["metadata"] == {"tags": ["predict"]}
    assert first["outputs"] == [] and first["execution_count"] is None
    assert set(second) == {"cell_type", "id", "metadata", "source"} and second["metadata"] == {}


def test_text_form():
    text = canonical.dump(form(code("a = 1\n\nb = 'ä'\n\n")))
    assert text.endswith("}\n") and '\n "cells": [\n  {\n' in text and "ä" in text
    (cell,) = json.loads(text)["cells"]
    assert cell["source"] == ["a = 1\n", "\n", "b = 'ä'"]


def test_nbformat_agrees():
    text = canonical.dump(form(prose("# T"), code("a = 1\nb"), code("c", id="c")))
    notebook = nbformat.reads(text, as_version=4)
    nbformat.validate(notebook)
    assert nbformat.writes(notebook) + "\n" == text


def test_empty_cells_are_left_out():
    assert ids(code("  \n"), prose(""), prose("# A")) == ["a"]


def test_ids_come_from_slug_and_heading():
    assert ids(
        code("import flashlab"),
        prose("Some words\n\n## 2. Online softmax: *why*?"),
        prose("No heading here."),
        code("1"),
        code("2"),
        code("%%fill flash_forward\nx"),
        code("flashlab.check('flash_forward')"),
        prose("### Online softmax: why"),
        prose("## ???"),
    ) == [
        "start-code",
        "2-online-softmax-why",
        "2-online-softmax-why-text",
        "2-online-softmax-why-code",
        "2-online-softmax-why-code-2",
        "flash-forward-stub",
        "flash-forward-check",
        "online-softmax-why",
        "cell",
    ]


def test_readable_ids_are_kept_and_others_named_anew():
    kept = ["predict-1", "setup", "flash-forward-stub"]
    assert ids(*(code("1", id=name) for name in kept)) == kept
    for name in (
        "a1b2c3d4",
        "0f2c5a3e-1b2c-4d5e-8f90-123456789abc",
        "Some_Name",
        "x" * 65,
        "",
        "setup-",
    ):
        assert ids(prose("# Title", id=name)) == ["title"], name


def test_ids_are_unique_and_the_first_keeps_its_own():
    cells = [prose("# A", id="same"), prose("# B", id="same"), code("1"), code("2", id="b")]
    assert ids(*cells) == ["same", "b-2", "b-code", "b"]


def test_long_headings_make_short_ids():
    names = ids(prose("# " + "word " * 40), prose("# " + "word " * 40))
    assert all(len(name) <= 64 for name in names) and len(set(names)) == 2


def test_canonical_form_is_stable():
    once = form(prose("# A b"), code("x = 1\n"), code("%%fill vector_scale\n"), code("y", id="y"))
    assert canonical.dump(canonical.canonical(once)) == canonical.dump(once)


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        (code("x = 1\n" * 26), "has 26 lines; 25 is the most"),
        (code("x = 1\n" * 25), None),
        (code("%%fill vector_scale\n" + "x = 1\n" * 80), None),
        (prose("line\n" * 80, id="vector-scale-contract"), None),
        (prose("line\n" * 80, id="text"), "has 80 lines"),
        (prose("![p](data:image/png;base64,AAAA)"), "holds a pasted picture"),
        (code(f'picture = "{"iVBOR" * 50}"'), "holds a pasted picture"),
        (prose("![p](attachment:p.png)", attachments={"p.png": {}}), "holds a pasted picture"),
    ],
)
def test_faults_that_an_author_must_mend(cell, says):
    said = list(canonical.faults({"cells": [cell]}))
    assert (not said) if says is None else (len(said) == 1 and says in said[0])


def test_fill_slug_is_read_from_the_first_line_alone():
    for text in ("%%fill flash_forward", "%%fill  flash_forward \nx", "%%fill flash_forward\n"):
        assert canonical.fill_slug(code(text)) == "flash_forward"
    for text in ("%fill flash_forward", " %%fill a", "x\n%%fill a", "%%fill a --force", "%%fill"):
        assert canonical.fill_slug(code(text)) is None, text
    assert canonical.fill_slug(prose("%%fill flash_forward")) is None


def test_command_line(tmp_path, capsys):
    path = tmp_path / "nb.ipynb"
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [code("1")]}
    path.write_text(json.dumps(notebook))
    assert authoring.main(["canonical", "--check", str(path)]) == 1
    assert "not canonical: run python -m" in capsys.readouterr().out
    assert json.loads(path.read_text()) == notebook
    assert authoring.main(["canonical", str(path)]) == 0
    assert authoring.main(["canonical", "--check", str(path)]) == 0
    assert path.read_text() == canonical.dump(canonical.canonical(notebook))


@pytest.mark.parametrize("text", ["{", "[]", '{"nbformat": 3}'])
def test_unreadable_notebooks_are_one_sentence(tmp_path, capsys, text):
    path = tmp_path / "nb.ipynb"
    path.write_text(text)
    assert authoring.main(["canonical", str(path)]) == 1
    assert capsys.readouterr().out.startswith(f"{path}: not ")
    assert path.read_text() == text
