"""A learner's files: where they lie, what is recorded, and what stands in the way."""

import errno
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from flashlab import sources
from flashlab.workspace import MARKER, Workspace, WorkspaceError, files
from flashlab.workspace.progress import last_pass

SLUG = "vector_scale"


@pytest.fixture
def workspace() -> Workspace:
    return Workspace.current()


def put(path: Path, data: bytes = b"x = 1\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def tree(folder: Path) -> dict[Path, bytes]:
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.name != ".lock"}


def python(code: str, **environment: str) -> subprocess.Popen:
    """Another process that runs ``code`` with the course importable."""
    return subprocess.Popen([sys.executable, "-c", code], env={**os.environ, **environment})


# Where it lies


def test_the_variable_comes_first(monkeypatch, tmp_path):
    put(tmp_path / MARKER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLASHLAB_WORK", "~/here")
    found = Workspace.current()
    assert found.root == Path.home() / "here" and "FLASHLAB_WORK" in found.why
    monkeypatch.setenv("FLASHLAB_WORK", "elsewhere")
    assert Workspace.current().root == tmp_path / "elsewhere"


def test_the_nearest_marker_comes_next(monkeypatch, tmp_path):
    outer, inner = tmp_path / MARKER, tmp_path / "a" / MARKER
    put(outer), put(inner)
    (tmp_path / "a" / "b").mkdir()
    monkeypatch.chdir(tmp_path / "a" / "b")
    monkeypatch.setenv("FLASHLAB_WORK", " ")
    assert Workspace.current().root == tmp_path / "a"


def test_beside_the_course_or_at_home(monkeypatch, tmp_path):
    monkeypatch.delenv("FLASHLAB_WORK")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sources, "course_dir", lambda: tmp_path / "course")
    assert Workspace.current().root == tmp_path / "course" / "work"
    monkeypatch.setattr(sources, "course_dir", lambda: tmp_path / "flashlab" / "_course")
    found = Workspace.current()
    assert found.root == Path.home() / "flashlab-work" and "wheel" in found.why

    def missing():
        raise FileNotFoundError

    monkeypatch.setattr(sources, "course_dir", missing)
    assert Workspace.current().root == Path.home() / "flashlab-work"


def test_a_deleted_working_directory_is_no_reason_to_fail(monkeypatch, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    monkeypatch.delenv("FLASHLAB_WORK")
    assert Workspace.current().root.name == "work"
    monkeypatch.chdir(tmp_path)


def test_reading_makes_nothing(workspace):
    assert workspace.answer(SLUG).origin == "stub"
    assert workspace.progress() == {} and workspace.history(SLUG) == []
    assert workspace.hints_opened(SLUG) == 0 and workspace.last_pass(SLUG) is None
    assert not workspace.root.exists()


# Answers


def test_answer_is_the_stub_then_the_file(workspace):
    stub = workspace.answer(SLUG)
    assert (stub.text, stub.path, stub.saved_at) == (sources.stub_text(SLUG), None, "")
    path = put(workspace.kernel_path(SLUG), b"\xef\xbb\xbfx = 1\r\n")
    os.utime(path, (1e9, 1e9))
    answer = workspace.answer(SLUG)
    assert (answer.text, answer.path, answer.origin) == ("x = 1\n", path, "file")
    assert answer.saved_at.startswith("2001-09-") and len(answer.saved_at) == 19


def test_unknown_slugs(workspace):
    with pytest.raises(KeyError, match="did you mean vector_scale"):
        workspace.answer("vector_scal")
    for bad in ("../x", "a b", "", "x.py"):
        with pytest.raises(WorkspaceError, match="is no exercise"):
            workspace.kernel_path(bad)


# What stands in the way: one sentence each, nothing lost


def refused(workspace: Workspace, pattern: str, force: bool = False) -> None:
    before = tree(workspace.root) if workspace.root.is_dir() else {}
    with pytest.raises(WorkspaceError, match=pattern) as caught:
        workspace.fill(SLUG, "y = 2\n", force)
    assert "\n" not in str(caught.value)
    assert caught.value._render_traceback_() == [f"WorkspaceError: {caught.value}"]
    after = tree(workspace.root) if workspace.root.is_dir() else {}
    assert before.items() <= after.items()


def test_not_utf8(workspace):
    path = put(workspace.kernel_path(SLUG), b"# one\n# caf\xe9\n")
    refused(workspace, r"vector_scale.py, line 2: byte 0xe9 is not UTF-8 text; save the file as")
    with pytest.raises(WorkspaceError, match="line 2"):
        workspace.answer(SLUG)
    assert workspace.fill(SLUG, "y = 2\n", force=True).action == "saved"
    (entry,) = [e for e in workspace.history(SLUG) if e.path.suffix == ".bin"]
    assert entry.path.read_bytes() == b"# one\n# caf\xe9\n" and path.read_text() == "y = 2\n"


def test_reset_keeps_bytes_that_are_no_text(workspace):
    put(workspace.kernel_path(SLUG), b"\xff\xfe")
    workspace.reset(SLUG)
    assert [e.path.read_bytes() for e in workspace.history(SLUG)] == [b"\xff\xfe"]
    assert workspace.answer(SLUG).text == sources.stub_text(SLUG)


@pytest.mark.parametrize("force", [False, True])
def test_a_folder_where_the_file_belongs(workspace, force):
    workspace.kernel_path(SLUG).mkdir(parents=True)
    refused(workspace, r"vector_scale.py is a folder where a file is expected: move it", force)


@pytest.mark.parametrize("name", ["kernels", "history"])
def test_a_file_where_a_folder_belongs(workspace, name):
    put(workspace.root / name)
    refused(workspace, rf"{name} stands where a folder is expected: move it away")


def test_a_file_where_the_workspace_belongs(workspace):
    put(workspace.root)
    refused(workspace, "work stands where a folder is expected")


def test_neither_file_nor_folder(workspace):
    workspace.kernel_path(SLUG).parent.mkdir(parents=True)
    os.mkfifo(workspace.kernel_path(SLUG))
    refused(workspace, "is not a plain file: move it away")


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EROFS, r"Read-only file system\): nothing was changed; the disk is read-only"),
        (errno.ENOSPC, "the disk is full: free some space"),
        (errno.EACCES, "no permission: point FLASHLAB_WORK to a folder that you can write"),
        (errno.EIO, "point FLASHLAB_WORK to a folder of your own"),
    ],
)
def test_a_disk_that_takes_nothing(workspace, monkeypatch, number, words):
    put(workspace.kernel_path(SLUG))
    workspace.fill(SLUG, "x = 1\n")

    def fails(*args):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(files.os, "replace", fails)
    refused(workspace, f"cannot be written .*{words}.*, then try again", force=True)
    assert not list(workspace.root.rglob("*.tmp"))
    assert workspace.answer(SLUG).text == "x = 1\n"
    assert workspace.fill(SLUG, "x = 1\n").action == "loaded"  # needs no new file


def test_a_place_where_nothing_can_be_made(monkeypatch):
    monkeypatch.setenv("FLASHLAB_WORK", "/proc/nowhere")
    refused(Workspace.current(), "cannot be written .*: nothing was changed")


def test_unreadable(workspace, monkeypatch):
    put(workspace.kernel_path(SLUG))

    def fails(self):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", fails)
        with pytest.raises(WorkspaceError, match="cannot be read .Permission denied"):
            workspace.answer(SLUG)


def test_a_link_and_the_mode_of_its_file_stay(workspace, tmp_path):
    real = put(tmp_path / "drive.py")
    real.chmod(0o640)
    workspace.kernel_path(SLUG).parent.mkdir(parents=True)
    workspace.kernel_path(SLUG).symlink_to(real)
    workspace.fill(SLUG, "x = 1\n")
    workspace.fill(SLUG, "y = 2\n")
    assert workspace.kernel_path(SLUG).is_symlink() and real.read_text() == "y = 2\n"
    assert real.stat().st_mode & 0o777 == 0o640


# History


def test_history_is_in_order_and_without_repeats(workspace):
    for text in ("a = 1\n", "b = 2\n", "a = 1  \r\n"):
        workspace.keep(SLUG, text)
    entries = workspace.history(SLUG)
    assert [entry.text for entry in entries] == ["a = 1\n", "b = 2\n"]
    assert all(sources.text_hash(e.text).startswith(e.short_hash) for e in entries)
    assert workspace.keep(SLUG, sources.stub_text(SLUG)) is None


def test_an_entry_that_somebody_edited_no_longer_keeps_the_text(workspace):
    entry = workspace.keep(SLUG, "a = 1\n")
    entry.write_text("spoilt\n")
    assert workspace.keep(SLUG, "a = 1\n") != entry
    assert {e.text for e in workspace.history(SLUG)} == {"spoilt\n", "a = 1\n"}


def test_foreign_files_in_the_history_are_left_alone(workspace):
    workspace.keep(SLUG, "a = 1\n")
    foreign = put(workspace.root / "history" / SLUG / "meZ-notes.py")
    assert len(workspace.history(SLUG)) == 1 and foreign.exists()


# Progress


def test_checks_hints_and_solution_are_recorded(workspace):
    workspace.record_check(SLUG, "h1", "wrong", 20, "cpu")
    workspace.record_check(SLUG, "h2", "pass", 100, "cpu")
    workspace.record_check(SLUG, "h3", "crash", 0, "gpu")
    workspace.record_hint(SLUG, 1), workspace.record_hint(SLUG, 3), workspace.record_hint(SLUG, 1)
    workspace.record_solution(SLUG)
    opened = workspace.progress()[SLUG]["solution_opened"]
    workspace.record_solution(SLUG)
    assert Workspace(workspace.root).progress() == {
        SLUG: {
            "status": "pass",
            "points": 100,
            "tier": "cpu",
            "checks": 3,
            "hints": 3,
            "solution_opened": opened,
            "last_pass": "h2",
        }
    }
    assert opened and workspace.hints_opened(SLUG) == 3 and workspace.last_pass(SLUG) == "h2"
    first = workspace.checks(SLUG)[0]
    time = first.pop("time")
    assert first == {"text": "h1", "status": "wrong", "points": 20, "tier": "cpu"} and time


def test_an_exercise_with_a_hint_alone_is_not_started(workspace):
    workspace.record_hint(SLUG, 1)
    row = workspace.progress()[SLUG]
    assert (row["status"], row["points"], row["checks"]) == ("not started", None, 0)


@pytest.mark.parametrize(
    ("checks", "expected"),
    [
        ([], None),
        ([("a", "pass")], "a"),
        ([("a", "pass"), ("b", "wrong")], "a"),
        ([("a", "pass"), ("a", "wrong")], None),
        ([("a", "pass"), ("a", "grader_error")], "a"),
        ([("a", "pass"), ("b", "pass"), ("b", "timeout")], "a"),
        ([("a", "wrong"), ("a", "pass")], "a"),
    ],
)
def test_last_pass_is_by_each_texts_own_last_check(checks, expected):
    rows = [{"text": text, "status": status} for text, status in checks]
    assert last_pass({"checks": rows}) == expected


@pytest.mark.parametrize(
    "broken",
    [
        b"{",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b'{"exercises": []}',
        b'{"exercises": {"a": 1}}',
        b'{"exercises": {"a": {"checks": [1]}}}',
        b'{"exercises": {"a": {"checks": [{"points": 1}]}}}',
        b'{"exercises": {"a": {"hints": [{}]}}}',
        b'{"exercises": ' + b"[" * 100_000,
    ],
    ids=lambda broken: broken[:60].decode("latin-1"),
)
def test_a_broken_file_is_set_aside(workspace, caplog, broken):
    path = put(workspace.root / "progress.json", broken)
    assert workspace.progress() == {}
    (aside,) = workspace.root.glob("progress.broken-*.json")
    assert aside.read_bytes() == broken and not path.exists()
    (record,) = caplog.records
    assert aside.name in record.message and "your kernels are untouched" in record.message
    workspace.record_hint(SLUG, 1)
    assert workspace.hints_opened(SLUG) == 1 and len(caplog.records) == 1


def test_a_broken_file_is_set_aside_by_a_change_too(workspace):
    put(workspace.root / "progress.json", b"{")
    workspace.record_hint(SLUG, 2)
    assert workspace.hints_opened(SLUG) == 2
    assert len(list(workspace.root.glob("progress.broken-*.json"))) == 1


def test_fields_of_a_later_version_stay(workspace):
    data = {"version": 2, "exercises": {SLUG: {"stars": 5}}, "badges": {"q": 1}}
    put(workspace.root / "progress.json", json.dumps(data).encode())
    workspace.record_hint(SLUG, 1)
    after = json.loads((workspace.root / "progress.json").read_bytes())
    assert after["badges"] == {"q": 1} and after["exercises"][SLUG]["stars"] == 5


RECORD = f"""
from flashlab.workspace import Workspace
workspace = Workspace.current()
for n in range(25):
    workspace.record_check({SLUG!r}, "NAME" + str(n), "wrong", n, "cpu")
    workspace.fill({SLUG!r}, "NAME = " + str(n), force=True)
"""


def test_two_processes_at_once_lose_nothing(workspace):
    others = [python(RECORD.replace("NAME", name)) for name in "pq"]
    assert [other.wait(60) for other in others] == [0, 0]
    texts = {check["text"] for check in workspace.checks(SLUG)}
    assert texts == {f"{name}{n}" for name in "pq" for n in range(25)}
    kept = {entry.text for entry in workspace.history(SLUG)}
    assert kept == {f"{name} = {n}\n" for name in "pq" for n in range(25)}
    assert workspace.past(SLUG).last_saved() == sources.text_hash(workspace.answer(SLUG).text)


def test_threads_lose_nothing_and_a_dead_holder_frees_the_lock(workspace):
    dead = python(
        "import os\nfrom flashlab.workspace import Workspace, files\n"
        "w = Workspace.current(); w.create()\n"
        "with files.locked(w.root / '.lock'): os._exit(3)"
    )
    assert dead.wait(60) == 3
    threads = [
        threading.Thread(target=lambda: [workspace.record_hint(SLUG, n) for n in range(20)])
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert workspace.hints_opened(SLUG) == 19


def test_a_disk_without_locks_still_works(workspace, monkeypatch):
    import fcntl

    def unsupported(*args):
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    assert workspace.fill(SLUG, "x = 1\n").action == "saved"
