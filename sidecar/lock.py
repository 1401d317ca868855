"""The lock that makes one process the owner of a data folder, as long as it lives.

By hand, since the library that locks memory blocks takes a sixth of the sidecar's start to import.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager

TYPE_CHECKING = False  # importing typing is slow
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


class AlreadyRunningError(Exception):
    """Another sidecar owns the snapshots."""


@contextmanager
def sole_owner(file: Path) -> Iterator[None]:
    """Hold the lock; the system releases it however the process ends.

    Raises AlreadyRunningError at once if another process holds it, and OSError.
    """
    # A link could lead to a file that somebody else holds.
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(file, flags, 0o600)
    try:
        _lock(descriptor)
        yield
    finally:
        os.close(descriptor)


def has_owner(file: Path) -> bool:
    """Whether some process holds the lock now."""
    try:
        with sole_owner(file):
            return False
    except AlreadyRunningError:
        return True


def _lock(descriptor: int) -> None:
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # the second is what Windows says
        raise AlreadyRunningError from None
