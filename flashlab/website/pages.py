"""Writes what Sphinx reads: executed chapters, and all other pages from the course's own texts."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

from flashlab import exercises, home, sources
from flashlab.authoring import canonical, colab_cells
from flashlab.viz import tile_walk
from flashlab.website import api, contracts, evidence
from flashlab.workspace.files import write_atomic

LINK = re.compile(r"\]\((?:\.\./(chapters|labs)/)?(\d\d_\w+)\.ipynb\)")


def write(source: Path, executed: Sequence[Path], tables: Sequence[str]) -> None:
    """Fill the folder ``source``; files that nothing writes any more are removed.

    Args:
        source: What Sphinx reads.
        executed: The executed chapters.
        tables: The papers' tables of the evidence page.
    """
    texts = {"index.md": index(executed)}
    there = {path.stem for path in executed}
    for path in executed:
        texts[f"chapters/{path.name}"] = chapter(path, there)
    for path in labs():
        texts[f"labs/{path.stem}.md"] = lab(path, there)
    for slug in exercises.SYLLABUS:
        texts[f"exercises/{slug}.md"] = contracts.page(slug)
    texts["syllabus.md"] = syllabus(executed)
    texts["glossary.md"] = glossary()
    texts["evidence.md"] = evidence.page({path.stem[:2]: path.stem for path in executed}, tables)
    texts |= api.pages()
    texts |= guides()
    _replace(source, texts)


def _replace(source: Path, texts: dict[str, str]) -> None:
    """Unchanged files keep their times, so that Sphinx reads only what is new."""
    for path in sorted(source.rglob("*")):
        if path.is_file() and path.relative_to(source).as_posix() not in texts:
            path.unlink()
    for name, text in texts.items():
        path = source / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            write_atomic(path, text.encode())


def labs() -> list[Path]:
    """Every lab's notebook."""
    return [path for path in canonical.notebooks() if path.parent.name == "labs"]


def title(path: Path) -> str:
    """A notebook's first heading without its number."""
    return home.title(path)


def linked(text: str, folder: str, there: set[str]) -> str:
    """Links between notebooks as links between pages; one to a page that is not there leads to
    the syllabus.
    """

    def target(match: re.Match[str]) -> str:
        kind, stem = match[1] or folder, match[2]
        if kind == "labs":
            return f"](../labs/{stem}.md)"
        return f"](../chapters/{stem}.ipynb)" if stem in there else "](../syllabus.md)"

    return LINK.sub(target, text)


def chapter(path: Path, there: set[str]) -> str:
    """An executed chapter as a page, among the chapters ``there``."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            text = linked("".join(cell["source"]), "chapters", there)
            if cell.get("id") == colab_cells.BADGE:
                text = text.split("\n")[0]
            cell["source"] = text.splitlines(keepends=True)
        elif cell.get("id") == "imports":
            cell["metadata"]["tags"] = ["hide-input"]
    return json.dumps(notebook, indent=1, ensure_ascii=False)


def lab(path: Path, there: set[str]) -> str:
    """What a lab holds: its own introduction, its exercises, where to do it."""
    first = canonical.source(canonical.read(path)["cells"][0])
    rows = [exercises.get(slug) for slug in exercises.SYLLABUS]
    listed = "\n".join(
        f"- [{exercise.title}](../exercises/{exercise.slug}.md) (`{exercise.slug}`, about "
        f"{exercise.minutes} minutes)"
        for exercise in rows
        if exercise.chapter == path.stem[:2]
    )
    address = colab_cells.colab_address("labs", path.name)
    return (
        f"{linked(first, 'labs', there)}\n\n[▶ Open in Google Colab]({address})\n\n"
        f"On a machine of your own: `make lab`, then `labs/{path.name}` from the course home.\n\n"
        f"## Exercises\n\n{listed}\n"
    )


def index(executed: Sequence[Path]) -> str:
    """The first page."""
    first = executed[0].stem
    return "\n".join(
        [
            "# Understand FlashAttention by writing it\n",
            "You write the kernels of FlashAttention in Triton, beginning with a vector. A "
            "checker says what is wrong, on which line and with which numbers. No GPU is needed: "
            "kernels run under a recorder that also counts every byte they move, which is what "
            "FlashAttention is about.\n",
            "This site is for reading. Pictures step, sliders move and quizzes answer here "
            "without any Python; the kernels themselves are written in the labs.\n",
            f"- **Read**: begin with [chapter {first[:2]}](chapters/{first}.ipynb), or look at "
            "the [syllabus](syllabus.md).",
            "- **Write**: [get the course](start.md), or open a lab in Google Colab from its "
            "page.",
            "- **Check us**: every claim and every measured figure is on the "
            "[evidence page](evidence.md).\n",
            "One program of FlashAttention at work, tile by tile (arrow keys step):\n",
            tile_walk.tile_walk()._repr_html_() + "\n",
            *_toctree("Chapters", [f"chapters/{path.stem}" for path in executed]),
            *_toctree("Labs", [f"labs/{path.stem}" for path in labs()]),
            *_toctree("Exercises", [f"{slug} <exercises/{slug}>" for slug in exercises.SYLLABUS]),
            *_toctree("About", ["start", "syllabus", *_guide_names(), "glossary", "evidence"]),
            *_toctree("Reference", [name.removesuffix(".md") for name in api.pages()]),
        ]
    )


def _toctree(caption: str, names: Sequence[str]) -> list[str]:
    return ["```{toctree}", ":hidden:", f":caption: {caption}", "", *names, "```", ""]


def syllabus(executed: Sequence[Path]) -> str:
    """Chapters, labs and exercises in order, with minutes."""
    chapters = {path.stem[:2]: path for path in executed}
    notebooks = {path.stem[:2]: path for path in labs()}
    rows = [exercises.get(slug) for slug in exercises.SYLLABUS]
    lines = [
        "# Syllabus",
        "",
        "| | chapter | minutes to read | lab | exercises | minutes to write |",
        "|---|---|---:|---|---|---:|",
    ]
    reading = 0
    for number in sorted(chapters | notebooks):
        mine = [row for row in rows if row.chapter == number]
        names = ", ".join(f"[`{row.slug}`](exercises/{row.slug}.md)" for row in mine)
        read = (
            f"[{title(chapters[number])}](chapters/{chapters[number].name})"
            if number in chapters
            else title(notebooks[number])
        )
        do = f"[lab {number}](labs/{notebooks[number].stem}.md)" if number in notebooks else ""
        takes = reading_minutes(chapters[number]) if number in chapters else 0
        writes = sum(row.minutes for row in mine)
        reading += takes
        lines.append(f"| {number} | {read} | {takes or ''} | {do} | {names} | {writes or ''} |")
    writing = sum(row.minutes for row in rows)
    lines += [
        "",
        f"{len(rows)} exercises, about {round(writing / 60)} hours of writing in all, and about "
        f"{round(reading / 60)} hours of reading.",
    ]
    return "\n".join(lines) + "\n"


def reading_minutes(chapter: Path) -> int:
    """How long a chapter says that it takes; 0 if it does not say."""
    cells = canonical.read(chapter)["cells"][:6]
    told = "".join(map(canonical.source, cells))
    found = re.search(r"\*\*Time\.\*\* (\d+) minutes", told)
    return int(found[1]) if found else 0


def readme_section(heading: str) -> str:
    """One section of README.md, without its heading.

    Raises:
        ValueError: README.md has no such section.
    """
    text = (sources.course_dir() / "README.md").read_text(encoding="utf-8")
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    if found is None:
        raise ValueError(f"README.md has no section {heading!r}, which a page of the site shows")
    return found.group(1).strip()


def glossary() -> str:
    """Paper symbols and the course's names."""
    return f"# Glossary: symbols and names\n\n{readme_section('Names')}\n"


def _guide_names() -> list[str]:
    """Pages written by hand, in docs/."""
    folder = sources.course_dir() / "docs"
    return [path.stem for path in sorted(folder.glob("*.md"))]


def guides() -> dict[str, str]:
    """How to start, from the README, and the guides of docs/ as they are."""
    parts = ("Two commands", "How it goes", "What runs where", "Questions")
    start = "\n\n".join(f"## {part}\n\n{readme_section(part)}" for part in parts)
    texts = {"start.md": f"# Get the course\n\n{without_repository_links(start)}\n"}
    folder = sources.course_dir() / "docs"
    for name in _guide_names():
        text = (folder / f"{name}.md").read_text(encoding="utf-8")
        texts[f"{name}.md"] = without_repository_links(text)
    return texts


def without_repository_links(text: str) -> str:
    """Links to files of the repository lead to it: they are no pages of the site."""
    base = f"{colab_cells.repository()}/blob/{colab_cells.BRANCH}"

    def target(match: re.Match[str]) -> str:
        path = match[1].lstrip("./")
        return f"]({base}/{path}{match[2] or ''})"

    return re.sub(r"\]\((?!https?:|#|mailto:)([^)#\s]+)(#[^)]*)?\)", target, text)
