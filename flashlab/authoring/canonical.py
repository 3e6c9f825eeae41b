"""Notebooks in canonical form, so that a diff of one shows what an author changed. Floor: front.

Form is put right here (ids, metadata, outputs, JSON); what only an author can put right (a cell
too long, a pasted picture) is named.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flashlab import sources

Notebook = dict[str, Any]
Cell = dict[str, Any]

MAX_LINES = 25
KEPT_METADATA = ("tags",)
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
FILL = re.compile(r"%%fill[ \t]+([^\W\d]\w*)[ \t]*(?:\n|$)")

_READABLE_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_MACHINE_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){0,4}([0-9a-f]{8})?")
_MAX_ID = 64
_BASE64 = re.compile(r";base64,|[A-Za-z0-9+/]{200,}")
_CHECK = re.compile(r"\bcheck\(\s*[\"'](\w+)[\"']")


def notebooks() -> list[Path]:
    """Every committed notebook: chapters, then labs, by name."""
    folders = (sources.course_dir() / "chapters", sources.course_dir() / "labs")
    return [path for folder in folders for path in sorted(folder.glob("*.ipynb"))]


def read(path: Path) -> Notebook:
    """The notebook at ``path``; ValueError unless it is nbformat 4."""
    try:
        notebook = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: not JSON: {error}") from error
    if not isinstance(notebook, dict) or notebook.get("nbformat") != 4:
        raise ValueError(f"{path}: not a notebook of format 4; save it anew with JupyterLab")
    return notebook


def dump(notebook: Notebook) -> str:
    """The bytes' text of a notebook, as Jupyter writes it: one-space indent, final newline."""
    return json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def source(cell: Cell) -> str:
    """A cell's text."""
    return "".join(cell.get("source", ""))


def lines(text: str) -> list[str]:
    """A cell's text as notebooks store it: one string a line, no newline at the end."""
    return text.rstrip().splitlines(keepends=True)


def fill_slug(cell: Cell) -> str | None:
    """The exercise whose stub cell this is (it starts with ``%%fill <slug>``), else None."""
    match = FILL.match(source(cell)) if cell["cell_type"] == "code" else None
    return match[1] if match else None


def contract_slug(cell: Cell) -> str | None:
    """The exercise whose contract this Markdown cell shows (its id says so), else None."""
    name = cell.get("id", "")
    is_contract = cell["cell_type"] == "markdown" and name.endswith("-contract")
    return name.removesuffix("-contract").replace("-", "_") if is_contract else None


def canonical(notebook: Notebook) -> Notebook:
    """The same notebook in canonical form; empty cells are left out."""
    cells = [_cell(cell) for cell in notebook["cells"] if source(cell).strip()]
    _give_ids(cells)
    return {
        "cells": cells,
        "metadata": {"kernelspec": KERNEL},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def _cell(cell: Cell) -> Cell:
    metadata = cell.get("metadata", {})
    clean = {
        "cell_type": cell["cell_type"],
        "id": cell.get("id", ""),
        "metadata": {key: metadata[key] for key in KEPT_METADATA if metadata.get(key)},
        "source": lines(source(cell)),
    }
    if cell["cell_type"] == "code":
        clean |= {"execution_count": None, "outputs": []}
    return clean


def _give_ids(cells: list[Cell]) -> None:
    """Keep readable ids, the first of each; name the other cells after slug or last heading."""
    taken: set[str] = set()
    for cell in cells:
        name = cell["id"]
        fits = _READABLE_ID.fullmatch(name) and not _MACHINE_ID.fullmatch(name)
        cell["id"] = name if fits and len(name) <= _MAX_ID and name not in taken else ""
        taken.add(cell["id"])
    heading = "start"
    for cell in cells:
        heading = _heading(cell) or heading
        if not cell["id"]:
            cell["id"] = _free(_name(cell, heading), taken)
            taken.add(cell["id"])


def _heading(cell: Cell) -> str | None:
    if cell["cell_type"] == "markdown":
        for line in source(cell).splitlines():
            if match := re.match(r"#{1,6}\s+(.+)", line):
                return _kebab(match[1])
    return None


def _name(cell: Cell, heading: str) -> str:
    if slug := fill_slug(cell):
        return _kebab(slug) + "-stub"
    if cell["cell_type"] == "markdown":
        return heading if _heading(cell) else f"{heading}-text"
    match = _CHECK.search(source(cell))
    return _kebab(match[1]) + "-check" if match else f"{heading}-code"


def _kebab(text: str) -> str:
    words = re.findall(r"[a-z0-9]+", text.lower())
    return "-".join(words)[: _MAX_ID - 12].strip("-") or "cell"


def _free(name: str, taken: set[str]) -> str:
    names = [name, *(f"{name}-{n}" for n in range(2, len(taken) + 3))]
    return next(n for n in names if n not in taken)


def faults(notebook: Notebook) -> Iterator[str]:
    """What an author has to put right by hand, one sentence each."""
    for number, cell in enumerate(notebook["cells"], 1):
        where = f"cell {number} ({cell.get('id') or 'no id'})"
        count = len(source(cell).splitlines())
        woven = fill_slug(cell) or contract_slug(cell)
        if count > MAX_LINES and not woven:
            yield f"{where} has {count} lines; {MAX_LINES} is the most: split it into two ideas"
        if _BASE64.search(source(cell)) or cell.get("attachments"):
            yield f"{where} holds a pasted picture or data: draw it with flashlab.viz"


def main(files: list[Path], check: bool) -> list[str]:
    """Bring ``files`` (default: all) into canonical form; with ``check`` only say what differs."""
    said = []
    for path in files or notebooks():
        try:
            notebook = read(path)
        except ValueError as error:
            said.append(str(error))
            continue
        text = dump(canonical(notebook))
        said += [f"{path}: {fault}" for fault in faults(notebook)]
        if path.read_text(encoding="utf-8") == text:
            continue
        if check:
            said.append(f"{path}: not canonical: run python -m flashlab.authoring canonical")
        else:
            path.write_text(text, encoding="utf-8")
    return said
