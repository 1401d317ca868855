"""The one way in which this project replaces a file: durable, and old or new but never torn."""

from __future__ import annotations

import contextlib
import os

TYPE_CHECKING = False  # importing typing is slow
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TEMPORARY_SUFFIX = ".tmp"


def write_atomic(
    path: Path, data: bytes, mode: int = 0o600, check: Callable[[], None] = lambda: None
) -> None:
    """Make `data` the content of `path`, on the disk when this returns.

    Readers see the old file or the new one. A unique temporary file stands in the same folder
    meanwhile; a crash may leave it there, never a torn `path`. `check` runs in the last moment
    before the old file goes, and may raise to keep it.

    Raises OSError and what `check` raises, with `path` as it was.
    """
    folder = path.parent
    temporary = f"{folder}/.{path.name}.{os.urandom(8).hex()}{TEMPORARY_SUFFIX}"
    try:
        _write_durably(temporary, data, mode)
        check()
        os.replace(temporary, path)  # noqa: PTH105 - the system call's own name says what happens
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)  # noqa: PTH108 - making paths of it takes longer
        raise
    _sync_folder(folder)


def _write_durably(path: str, data: bytes, mode: int) -> None:
    binary = getattr(os, "O_BINARY", 0)  # Windows would turn every \n into \r\n
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | binary, mode)
    try:
        remaining = memoryview(data)
        while remaining:
            remaining = remaining[os.write(descriptor, remaining) :]
        if hasattr(os, "fchmod"):
            os.fchmod(descriptor, mode)  # the umask must not take from a mode that is kept
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    """Put the rename itself on the disk; Windows can't open a folder, and needs no such step."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
