"""The folder of snapshot files: names and ids, ages and removal; not what is in a file.

Imports little, so that `opencode-memory clear` starts as fast as Python does.
"""

from __future__ import annotations

import math
import os
import re

from snapshots.atomic import TEMPORARY_SUFFIX
from snapshots.errors import InvalidSessionIdError

TYPE_CHECKING = False  # importing typing is slow
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

SUFFIX = ".xml"
_SET_ASIDE = ".corrupt."
_SESSION_ID = re.compile(r"ses_[0-9A-Za-z_-]{1,100}")
_SNAPSHOT = re.compile(rf"({_SESSION_ID.pattern}){re.escape(SUFFIX)}")


class Entry:
    """One file of the folder: a session's snapshot, or, without a session id, debris."""

    __slots__ = ("last_used", "path", "session_id", "size")

    def __init__(self, path: str, session_id: str | None, size: int, last_used: float) -> None:
        self.path = path  # a string: of a hundred thousand, making paths takes most of the time
        self.session_id = session_id
        self.size = size  # bytes
        self.last_used = last_used  # seconds since 1970

    def fields(self) -> dict[str, object]:
        """Return what people and scripts are told of a session."""
        return {"session_id": self.session_id, "size": self.size, "last_used": self.last_used}


def last_used_first(entries: Iterable[Entry]) -> list[Entry]:
    """Return the sessions' files in the order in which they are shown."""
    sessions = [entry for entry in entries if entry.session_id]
    return sorted(sessions, key=lambda entry: (-entry.last_used, entry.session_id))


def is_session_id(text: str) -> bool:
    """Whether OpenCode could have made this id; nothing else ever becomes a file name."""
    return _SESSION_ID.fullmatch(text) is not None


class SnapshotFolder:
    """A folder with one `<session id>.xml` per session; a file's mtime is its last use."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def file_of(self, session_id: str) -> Path:
        """Return where this session's snapshot lies, whether or not it does.

        Raises InvalidSessionIdError.
        """
        if not is_session_id(session_id):
            raise InvalidSessionIdError(
                f"{session_id[:120]!r} is not a session id: OpenCode's look like "
                "ses_018f2c3d4e5fAbCdEfGhIjKlMn. `opencode-memory list` shows yours."
            )
        return self.path / f"{session_id}{SUFFIX}"

    def entries(self) -> Iterator[Entry]:
        """Yield every file that is ours, in no order; nothing when the folder is not there."""
        return (entry for item, status in self._items() if (entry := _entry(item, status)))

    def used_before(self, moment: float) -> tuple[list[Entry], float | None]:
        """Return our files last used by then, and when the first of the rest was; None if none.

        Most files are of the rest, and of them not even the names are looked at.
        """
        found = []
        next_used = math.inf
        for item, status in self._items():
            last_used = status.st_mtime
            if last_used > moment:
                if last_used < next_used:
                    next_used = last_used
            elif entry := _entry(item, status):
                found.append(entry)
        return found, None if next_used == math.inf else next_used

    def _items(self) -> Iterator[tuple[os.DirEntry[str], os.stat_result]]:
        try:
            found = os.scandir(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return
        with found:
            for item in found:
                try:
                    yield item, item.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue  # removed since the folder was read

    def remove(self, session_id: str) -> bool:
        """Remove this session's snapshot file; False if there was none."""
        try:
            self.file_of(session_id).unlink()
        except FileNotFoundError:
            return False
        return True

    def set_aside(self, session_id: str, now: float) -> Path:
        """Rename a file that can't be read, so that nothing is lost and the name is free again."""
        file = self.file_of(session_id)
        aside = file.with_name(f"{file.name}{_SET_ASIDE}{int(now)}")
        return file.rename(aside)


def _entry(item: os.DirEntry[str], status: os.stat_result) -> Entry | None:
    name = item.name
    snapshot = _SNAPSHOT.fullmatch(name)
    if not (snapshot or name.endswith(TEMPORARY_SUFFIX) or _SET_ASIDE in name):
        return None
    session_id = snapshot[1] if snapshot else None
    return Entry(item.path, session_id, status.st_size, status.st_mtime)
