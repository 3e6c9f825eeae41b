"""Stubs, stub cells, contract cells and the cells for Colab: all that is derived. Floor: front.

A stub is written twice, as ``flashlab/stubs/<slug>.py`` and as the lab's ``%%fill <slug>`` cell;
its hash joins the list of released stubs, by which an untouched one is known for ever.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from flashlab import exercises, sources
from flashlab.authoring import canonical, colab_cells, contract


def weave() -> dict[Path, str]:
    """What every derived file should hold, from the solutions; writes nothing.

    Raises:
        ValueError: malformed markers, or a lab's stub cell of an exercise without a solution.
    """
    folder = sources.course_dir() / "solutions"
    solutions = {path.stem: path for path in sorted(folder.glob("[!_]*.py"))}
    stubs = {
        slug: sources.derive_stub(path.read_text(encoding="utf-8"), str(path))
        for slug, path in solutions.items()
    }
    woven = {sources.stub_path(slug): text for slug, text in stubs.items()}
    woven[sources.RELEASED] = _released(stubs)
    for path in canonical.notebooks():
        woven[path] = _notebook(path, stubs)
    return woven


def _released(stubs: Mapping[str, str]) -> str:
    """The committed list with this stub's hash at the end of its slug's; nothing is removed."""
    text = sources.RELEASED.read_text(encoding="utf-8") if sources.RELEASED.is_file() else "{}"
    hashes: dict[str, list[str]] = json.loads(text)
    for slug, stub in stubs.items():
        known = hashes.setdefault(slug, [])
        if sources.text_hash(stub) not in known:
            known.append(sources.text_hash(stub))
    return json.dumps(dict(sorted(hashes.items())), indent=1) + "\n"


def _notebook(path: Path, stubs: Mapping[str, str]) -> str:
    """The notebook's text with its derived cells replaced, the other cells as they are."""
    notebook = canonical.read(path)
    cells = colab_cells.placed(notebook["cells"], path)
    changed = cells != notebook["cells"]
    notebook["cells"] = cells
    for cell in cells if path.parent.name == "labs" else ():
        text = _cell_text(cell, path, stubs)
        if text and sources.normalise(canonical.source(cell)) != sources.normalise(text):
            cell["source"] = canonical.lines(text)
            changed = True
    return canonical.dump(notebook) if changed else path.read_text(encoding="utf-8")


def _cell_text(cell: canonical.Cell, path: Path, stubs: Mapping[str, str]) -> str | None:
    """What is woven into a cell, None for a hand-written one."""
    if slug := canonical.fill_slug(cell):
        if slug not in stubs:
            raise ValueError(f"{path}: %%fill {slug} has no solutions/{slug}.py")
        return f"%%fill {slug}\n{stubs[slug]}"
    slug = canonical.contract_slug(cell)
    return contract.contract_cell(exercises.get(slug)) if slug in exercises.SYLLABUS else None


def main(check: bool) -> list[str]:
    """Write what differs; with ``check`` only name it."""
    said = []
    try:
        woven = weave()
    except ValueError as error:
        return [str(error)]
    for path, text in woven.items():
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        if check:
            said.append(f"{path}: not what its solution gives: run make weave")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wove {path}")
    return said
