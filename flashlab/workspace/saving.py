"""Writing a learner's file: fill it from a cell, put the stub back, keep what was there.

Every write is preceded by a copy in the history, under the workspace's lock. Floor: core.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from flashlab import sources
from flashlab.workspace import files
from flashlab.workspace.files import WorkspaceError
from flashlab.workspace.fill import FillResult, decide, difference, message

if TYPE_CHECKING:
    from flashlab.workspace.home import Answer, Workspace


def fill(workspace: "Workspace", slug: str, cell_text: str, force: bool) -> FillResult:
    """See ``Workspace.fill``; the caller holds the lock."""
    path, history = workspace.kernel_path(slug), workspace.past(slug)
    before = _before(workspace, slug, force)
    place = before.path if before and before.path else path
    cell_hash, last_saved = sources.text_hash(cell_text), history.last_saved()
    action = "saved"
    if before is not None:
        file_hash = sources.text_hash(before.text) if before.path else None
        stubs = sources.released_stubs(slug)
        action = decide(cell_hash, file_hash, last_saved, stubs, history.find)
    if force and action != "loaded":
        action = "saved"
    past = history.find(cell_hash)
    kept = keep_file(workspace, slug, place)
    if action == "saved":
        keep_text(workspace, slug, cell_text)
        files.write_atomic(path, cell_text.encode())
        place, before = path, workspace.answer(slug)
    if action in ("saved", "loaded"):
        history.remember(cell_hash)
    shown = workspace.show(place) if before.path else "the untouched stub"
    said = message(action, slug, shown, past.kept_at if past else "")
    if action == "saved" and force:
        said += _forced(workspace.show(kept) if kept else "")
    differs = action in ("older", "newer", "conflict")
    diff = difference(before.text, cell_text, shown) if differs else ""
    return FillResult(action, before.text, said, before.path, diff)


def _before(workspace: "Workspace", slug: str, force: bool) -> "Answer | None":
    """What counted so far; None where force may replace a file that is no text."""
    try:
        return workspace.answer(slug)
    except WorkspaceError:
        if force and workspace.kernel_path(slug).is_file():
            return None
        raise


def _forced(kept: str) -> str:
    where = f" The text before it is kept as {kept}." if kept else ""
    return f"{where} Take --force out of the cell's first line again."


def reset(workspace: "Workspace", slug: str) -> str:
    """See ``Workspace.reset``; the caller holds the lock."""
    stub = _released_stub(slug)
    done = []
    for place in (workspace.kernel_path(slug), sources.stub_path(slug)):
        data = files.read_bytes(place)
        if data is None or data == stub.encode():
            continue
        kept = keep_file(workspace, slug, place)
        files.write_atomic(place, stub.encode())
        where = f"; your text is kept as {workspace.show(kept)}" if kept else ""
        done.append(f"{workspace.show(place)} is the stub again{where}.")
    workspace.past(slug).remember(None)
    return " ".join(done) or f"{slug} is untouched: there was nothing to put back."


def _released_stub(slug: str) -> str:
    """The stub as released, also where the packaged one was edited in place."""
    place = sources.stub_path(slug)
    try:
        text = files.decoded(place, files.read_bytes(place) or b"")
    except WorkspaceError:
        text = ""
    if sources.is_stub(slug, text):
        return text
    try:
        return sources.derive_stub(sources.solution_text(slug))
    except KeyError:
        raise WorkspaceError(
            f"{place} was edited and its original is not at hand: install flashlab-course again"
        ) from None


def keep_text(workspace: "Workspace", slug: str, text: str) -> Path | None:
    """Keep a text in the history; None for a released stub, which is not kept."""
    if sources.is_stub(slug, text):
        return None
    return workspace.past(slug).keep(text.encode())


def keep_file(workspace: "Workspace", slug: str, place: Path) -> Path | None:
    """Keep what the file at ``place`` holds, text or not; None for a stub or no file."""
    data = files.read_bytes(place)
    if data is None:
        return None
    try:
        stub = sources.is_stub(slug, files.decoded(place, data))
    except WorkspaceError:
        stub = False
    return None if stub else workspace.past(slug).keep(data)
