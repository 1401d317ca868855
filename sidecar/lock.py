"""The lock that makes one process the owner of a data folder, as long as it lives."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout


class AlreadyRunningError(Exception):
    """Another sidecar owns the snapshots."""


@contextmanager
def sole_owner(file: Path) -> Iterator[None]:
    """Hold the lock; the system releases it however the process ends.

    Raises AlreadyRunningError at once if another process holds it.
    """
    try:
        lock = FileLock(file, timeout=0, mode=0o600)
        lock.acquire()
    except Timeout:
        raise AlreadyRunningError from None
    try:
        yield
    finally:
        lock.release()


def has_owner(file: Path) -> bool:
    """Whether some process holds the lock now."""
    try:
        with sole_owner(file):
            return False
    except AlreadyRunningError:
        return True
