"""Reading, writing and locking a learner's files; every failure is one sentence. Floor: core.

Nothing here knows what an exercise is.
"""

import contextlib
import errno
import os
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import Path

_REMEDIES = {
    errno.ENOSPC: "the disk is full: free some space",
    errno.EDQUOT: "the disk quota is used up: free some space",
    errno.EROFS: "the disk is read-only: point FLASHLAB_WORK to a folder that you can write",
    errno.EACCES: "no permission: point FLASHLAB_WORK to a folder that you can write",
    errno.EPERM: "no permission: point FLASHLAB_WORK to a folder that you can write",
    errno.ENAMETOOLONG: "the path is too long: point FLASHLAB_WORK to a shorter one",
}


class WorkspaceError(ValueError):
    """Something about a learner's files stands in the way; the message is for the learner."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows: the sentence, without the frames of the course's own code."""
        return [f"{type(self).__name__}: {self}"]


def read_bytes(path: Path) -> bytes | None:
    """The bytes of a file, or None if there is none.

    Raises:
        WorkspaceError: it is a folder, no plain file, or unreadable.
    """
    with _told(path, "read"):
        try:
            mode = path.stat().st_mode
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise WorkspaceError(f"{path} is not a plain file: move it away, then try again")
        return path.read_bytes()


def decoded(path: Path, data: bytes) -> str:
    """``data`` as text; a byte order mark is dropped, line ends become LF.

    Raises:
        WorkspaceError: it is not UTF-8, naming the line and the byte.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise WorkspaceError(
            f"{path}, line {line}: byte 0x{data[error.start]:02x} is not UTF-8 text; save the "
            "file as UTF-8 in your editor, then try again"
        ) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def tidied(text: str) -> str:
    """``text`` as it is written: LF line ends and one final newline."""
    return text.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n") + "\n"


def saved_at(path: Path) -> str:
    """When a file was last written, in local time, such as ``"2026-11-29 21:30:05"``."""
    with _told(path, "read"):
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(path.stat().st_mtime))


def stamp(path: Path) -> tuple[int, int, int] | None:
    """Inode, size and time of a file, which a write changes; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def write_atomic(path: Path, data: bytes) -> None:
    """Replace a file's bytes all at once; folders are made, a link keeps pointing to its file.

    Raises:
        WorkspaceError: it could not be written; the file is as it was.
    """
    with _told(path, "written"):
        target = Path(os.path.realpath(path))
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, "is a folder", str(target))
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = target.parent / f".{target.name}.{secrets.token_hex(4)}.tmp"
        try:
            with open(fresh, "xb") as file:
                if target.exists():
                    os.chmod(fresh, stat.S_IMODE(target.stat().st_mode))
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(fresh, target)
        finally:
            fresh.unlink(missing_ok=True)


def move(path: Path, target: Path) -> None:
    """Rename a file within one folder.

    Raises:
        WorkspaceError: it could not be renamed.
    """
    with _told(path, "renamed"):
        os.replace(path, target)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file at ``path``: one process or thread at a time, freed by a crash too.

    Where the disk offers no locks (some network drives) the block runs without one.

    Raises:
        WorkspaceError: the lock file could not be made.
    """
    import fcntl  # absent on Windows, where the rest of the package still has to import

    with _told(path, "written"):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def _told(path: Path, what: str) -> Iterator[None]:
    try:
        yield
    except IsADirectoryError:
        raise WorkspaceError(
            f"{path} is a folder where a file is expected: move it away, then try again"
        ) from None
    except (NotADirectoryError, FileExistsError):
        way = next((p for p in (path, *path.parents) if os.path.lexists(p)), path)
        raise WorkspaceError(
            f"{way} stands where a folder is expected: move it away, then try again"
        ) from None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        remedy = _REMEDIES.get(error.errno or 0, "point FLASHLAB_WORK to a folder of your own")
        raise WorkspaceError(
            f"{path} cannot be {what} ({reason}): nothing was changed; {remedy}, then try again"
        ) from None
