"""The quick gate: woven texts, canonical notebooks, ruff, partners of files. Floor: front."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from flashlab import exercises, sources
from flashlab.authoring import canonical, weave


def main() -> int:
    """Run every check, say one line each and the findings below; returns the exit code."""
    results = {
        "stubs and contracts are woven": weave.main(check=True),
        "notebooks are canonical": canonical.main([], check=True),
        "ruff check": _ruff("check", "--quiet", "--output-format=concise"),
        "ruff format": _ruff("format", "--quiet", "--check"),
        "every file has its partner": list(strays()),
    }
    for name, findings in results.items():
        print(f"{'ok' if not findings else 'FAILED':6s} {name}")
        for finding in findings:
            print(f"       - {finding.removeprefix(f'{sources.course_dir()}{os.sep}')}")
    return int(any(results.values()))


def _ruff(*arguments: str) -> list[str]:
    command = [sys.executable, "-m", "ruff", *arguments, "."]
    run = subprocess.run(command, cwd=sources.course_dir(), capture_output=True, text=True)
    said = (run.stdout + run.stderr).splitlines()
    return said or ["failed without a word"] if run.returncode else []


def strays(folder: Path | None = None) -> Iterator[str]:
    """One sentence for each file of solutions, exercises, stubs, chapters and labs left alone."""
    folder = folder or sources.course_dir()
    package = Path(sources.__file__).parent
    stems = {
        "solutions": _stems(folder / "solutions", ".py"),
        "flashlab/exercises": _stems(package / "exercises", ".py"),
        "flashlab/stubs": _stems(sources.STUBS, ".py"),
        "chapters": _stems(folder / "chapters", ".ipynb"),
        "labs": _stems(folder / "labs", ".ipynb"),
    }
    for where, slugs in list(stems.items())[:3]:
        for slug in sorted(set(exercises.SYLLABUS) - slugs):
            yield f"{where}/{slug}.py is missing: the syllabus names it"
        for slug in sorted(slugs - set(exercises.SYLLABUS)):
            yield f"{where}/{slug}.py is not in the syllabus: add it or remove the file"
    for here, there in (("chapters", "labs"), ("labs", "chapters")):
        for stem in sorted(stems[here] - stems[there]):
            yield f"{here}/{stem}.ipynb has no partner {there}/{stem}.ipynb"
    yield from _other_files(folder, package)
    yield from _lab_cells(folder)


def _stems(folder: Path, suffix: str) -> set[str]:
    return {path.stem for path in folder.glob(f"*{suffix}") if path.stem[0] not in "_."}


def _other_files(folder: Path, package: Path) -> Iterator[str]:
    """Files of a kind that does not belong; figures must be named by a notebook beside them."""
    expected = {
        folder / "solutions": (".py",),
        package / "exercises": (".py",),
        sources.STUBS: (".py", ".json"),
        folder / "chapters": (".ipynb",),
        folder / "labs": (".ipynb",),
    }
    known = {"__init__", *exercises.SYLLABUS}
    for where, suffixes in expected.items():
        texts = [path.read_text(encoding="utf-8") for path in where.glob("*.ipynb")]
        for path in sorted(where.rglob("*")):
            hidden = {"__pycache__", ".ipynb_checkpoints"} & set(path.parts)
            placed = path.suffix in suffixes and path.parent == where
            mine = path.parent.parent == package / "exercises" and path.stem in known
            if path.is_dir() or hidden or placed or mine:
                continue
            if path.suffix != ".svg" or not any(path.name in text for text in texts):
                yield f"{path}: nothing uses this file: remove it"


def _lab_cells(folder: Path) -> Iterator[str]:
    """Each exercise needs one stub cell and one contract cell, in the lab of its chapter."""
    wanted = Counter()
    for slug in exercises.SYLLABUS:
        chapter = exercises.get(slug).chapter
        wanted += Counter({(chapter, "stub", slug): 1, (chapter, "contract", slug): 1})
    found = Counter()
    for path in (folder / "labs").glob("*.ipynb"):
        for cell in canonical.read(path)["cells"]:
            found[path.name[:2], "stub", canonical.fill_slug(cell)] += 1
            found[path.name[:2], "contract", canonical.contract_slug(cell)] += 1
    for key in sorted(key for key in wanted | found if key[2] in exercises.SYLLABUS):
        if found[key] != wanted[key]:
            chapter, kind, slug = key
            yield f"labs/{chapter}_*: {found[key]} {kind} cells of {slug}, {wanted[key]} wanted"
