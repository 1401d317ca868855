"""A nudge for the running sidecar: see whether you can still be reached.

Whoever finds no sidecar starts one. That one finds the lock held, and nudges its owner through a
named pipe beside the lock: so the owner notices that its socket is gone without looking for it
time and again.
"""

from __future__ import annotations

import contextlib
import os

TYPE_CHECKING = False  # importing typing is slow
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def nudge(file: Path) -> None:
    """Nudge the sidecar that holds this pipe, if one does."""
    with contextlib.suppress(OSError):
        descriptor = os.open(file, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0))
        try:
            os.write(descriptor, b"\n")
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def pipe(file: Path) -> Iterator[int | None]:
    """Make the pipe, and give its descriptor to read from; None where there can be none."""
    try:
        file.unlink(missing_ok=True)
        os.mkfifo(file, 0o600)
        # For writing too, or it would be at its end whenever nobody has it open.
        descriptor = os.open(file, os.O_RDWR | os.O_NONBLOCK)
    except (OSError, AttributeError):  # a disk that has none, or Windows
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)
        with contextlib.suppress(OSError):
            file.unlink()
