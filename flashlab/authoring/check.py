"""The quick gate: woven texts, canonical notebooks, ruff, partners of files. Floor: front."""

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from flashlab import exercises, sources
from flashlab.authoring import canonical, weave


def main() -> int:
    """Run every check, say one line each and the findings below; returns the exit code."""
    root = sources.course_dir()
    results = {
        "stubs and contracts are woven": weave.main(check=True),
        "notebooks are canonical": canonical.main([], check=True),
        "ruff check": _ruff("check", "--quiet"),
        "ruff format": _ruff("format", "--quiet", "--check"),
        "every file has its partner": _partners(root),
    }
    for name, findings in results.items():
        print(f"{'FAILED' if findings else 'ok':6s} {name}")
        for finding in findings:
            print(f"       - {finding.removeprefix(f'{root}{os.sep}')}")
    return int(any(results.values()))


def _ruff(*arguments: str) -> list[str]:
    command = [sys.executable, "-m", "ruff", *arguments, "."]
    env = {**os.environ, "RUFF_OUTPUT_FORMAT": "concise"}
    folder = sources.course_dir()
    run = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    return (run.stdout + run.stderr).splitlines() or ["ruff failed"] if run.returncode else []


def _partners(root: Path) -> list[str]:
    try:
        return list(strays(root))
    except ValueError as error:  # a notebook that cannot be read
        return [str(error)]


NO_EXERCISE = {"12": "deals broken kernels of all exercises (flashlab.broken)"}  # labs without one


def strays(root: Path) -> Iterator[str]:
    """One sentence for each file of the course that lacks its partner or that nothing uses."""
    known = set(exercises.SYLLABUS)
    for where in ("solutions", "flashlab/exercises", "flashlab/stubs"):
        slugs = _stems(root / where, ".py")
        for slug in sorted(known - slugs):
            yield f"{where}/{slug}.py is missing: the syllabus names it"
        for slug in sorted(slugs - known):
            if not _imported(root / where, slug):
                yield f"{where}/{slug}.py is not in the syllabus: add it or remove the file"
    stems = {part: _stems(root / part, ".ipynb") for part in ("chapters", "labs")}
    for stem in sorted(stems["chapters"] - stems["labs"]):
        yield f"chapters/{stem}.ipynb has no partner labs/{stem}.ipynb"
    numbers = {exercises.get(slug).chapter for slug in known} | {*NO_EXERCISE}
    for stem in sorted(stem for stem in stems["labs"] if stem[:2] not in numbers):
        yield f"labs/{stem}.ipynb belongs to no exercise of the syllabus"
    yield from _other_files(root)
    yield from _lab_cells(root)


def _stems(folder: Path, suffix: str) -> set[str]:
    return {path.stem for path in folder.glob(f"*{suffix}") if path.stem[0] not in "_."}


def _imported(folder: Path, stem: str) -> bool:
    """Whether another file of the folder imports this one, as exercises share their inputs."""
    name = re.compile(rf"^from flashlab\.exercises(\.| import .*\b){stem}\b", re.MULTILINE)
    others = (path for path in folder.glob("*.py") if path.stem != stem)
    return any(name.search(path.read_text(encoding="utf-8")) for path in others)


def _other_files(root: Path) -> Iterator[str]:
    """Files of a kind that does not belong; figures must be named by a notebook beside them."""
    expected = {
        "solutions": (".py",),
        "flashlab/exercises": (".py",),
        "flashlab/stubs": (".py", ".json"),
        "chapters": (".ipynb",),
        "labs": (".ipynb",),
    }
    known = {"__init__", *exercises.SYLLABUS}
    for where, suffixes in expected.items():
        folder = root / where
        texts = [path.read_text(encoding="utf-8") for path in folder.glob("*.ipynb")]
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            hidden = {"__pycache__", ".ipynb_checkpoints"} & set(path.parts)
            here = path.parent == folder and path.suffix in suffixes
            inside = {path.stem, *path.relative_to(folder).parts}
            part = where == "flashlab/exercises" and inside & known  # such as its mistakes
            figure = path.suffix == ".svg" and any(path.name in text for text in texts)
            if not (hidden or here or part or figure):
                yield f"{path.relative_to(root)}: nothing uses this file: remove it"


def _lab_cells(root: Path) -> Iterator[str]:
    """Each exercise needs one stub cell and one contract cell, in the lab of its chapter."""
    chapters = {slug: exercises.get(slug).chapter for slug in exercises.SYLLABUS}
    kinds = {"stub": canonical.fill_slug, "contract": canonical.contract_slug}
    wanted = Counter((chapter, slug, kind) for slug, chapter in chapters.items() for kind in kinds)
    found = Counter()
    for path in (root / "labs").glob("*.ipynb"):
        for cell in canonical.read(path)["cells"]:
            found.update((path.name[:2], of(cell), kind) for kind, of in kinds.items())
    for chapter, slug, kind in sorted(key for key in wanted | found if key[1] in chapters):
        count, right = found[chapter, slug, kind], wanted[chapter, slug, kind]
        if count != right:
            yield f"labs/{chapter}_*.ipynb: {count} {kind} cells of {slug}, {right} wanted"
