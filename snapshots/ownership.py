"""Whose a file is: what another user made, or could have changed, is never trusted.

Windows has no owner numbers; there a user's own folders keep others out.
"""

from __future__ import annotations

import os
import stat
from errno import ENOTDIR, EPERM

from snapshots.regular import read_regular

TYPE_CHECKING = False  # importing typing is slow
if TYPE_CHECKING:
    from pathlib import Path

_OTHERS = 0o077
_OTHERS_WRITE = 0o022


def is_own(status: os.stat_result) -> bool:
    """Whether this user has made it, and nobody else can write to it."""
    if os.name == "nt":
        return True
    return status.st_uid == os.geteuid() and not status.st_mode & _OTHERS_WRITE


def read_own(file: Path) -> bytes:
    """Read a regular file that is this user's own.

    Raises OSError: PermissionError for a file that is not.
    """

    def refuse_others(status: os.stat_result) -> None:
        if not is_own(status):
            raise PermissionError(EPERM, "it is not this user's own file", str(file))

    return read_regular(file, refuse_others)[0]


def is_own_socket(path: Path) -> bool:
    """Whether a socket of this user's is there."""
    try:
        status = path.lstat()
    except OSError:
        return False
    return stat.S_ISSOCK(status.st_mode) and is_own(status)


def make_private_folder(folder: Path) -> None:
    """Create `folder` for this user alone (0700), its parents as the user's umask has them.

    One that is there already is closed to others. Raises OSError: PermissionError for another
    user's.
    """
    try:
        status = os.stat(folder)  # noqa: PTH116 - a first request waits for it
    except FileNotFoundError:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.stat()
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(ENOTDIR, os.strerror(ENOTDIR), str(folder))
    if os.name == "nt":
        return
    if status.st_uid != os.geteuid():
        advice = "it belongs to another user; remove it, or become that user"
        raise PermissionError(EPERM, advice, str(folder))
    if status.st_mode & _OTHERS:
        folder.chmod(0o700)
