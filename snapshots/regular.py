"""The one way in which this project reads a file that others may have put there.

Of a FIFO in its place a plain read would wait for whoever writes to it, for ever if nobody does.
"""

from __future__ import annotations

import os
import stat
from errno import EINVAL

TYPE_CHECKING = False  # importing typing is slow
if TYPE_CHECKING:
    from collections.abc import Callable

_AT_ONCE = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


class NotRegularError(OSError):
    """A folder, FIFO, socket or device stands where a file should."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(EINVAL, "it is not a regular file", os.fspath(path))


def read_regular(
    path: str | os.PathLike[str],
    check: Callable[[os.stat_result], object] = lambda _status: None,
    flags: int = 0,
) -> tuple[bytes, os.stat_result]:
    """Return a file's content, and its status from before it was read.

    `check` sees the status first, and may raise; `flags` are more of `os.open`'s.

    Raises OSError, as NotRegularError, and what `check` raises.
    """
    descriptor = os.open(path, _AT_ONCE | flags)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise NotRegularError(path)
        check(status)
        # One byte more than there should be: what is short is the end.
        data = b"".join(iter(lambda: os.read(descriptor, status.st_size + 1), b""))
    finally:
        os.close(descriptor)
    return data, status
