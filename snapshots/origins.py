"""Which sessions' histories begin alike: how a fork finds the bytes that its parent was given.

One small file per origin, named by it, with a session id per line: found in constant time however
many snapshots there are. It is only an index: losing it costs a fork one cache miss, so it is
written without ceremony, and what it says is checked against the snapshots.
"""

import contextlib
import logging
import os
import threading
from pathlib import Path

from snapshots.folder import SnapshotFolder, is_session_id
from snapshots.ownership import make_private_folder
from snapshots.regular import read_regular

_LOGGER = logging.getLogger(__name__)

MOST_SESSIONS = 100
"""How many of an origin's sessions are looked at, from the newest on."""


class OriginIndex:
    """The folder of these files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._unwritten: list[tuple[str, str]] = []
        self._writing = threading.Lock()

    def sessions(self, origin: str) -> list[str]:
        """Return the sessions that began with this origin, the newest first."""
        try:
            lines = read_regular(f"{self.path}/{origin}")[0].decode("ascii").splitlines()
        except (OSError, UnicodeDecodeError):
            lines = []
        lines += [session_id for known, session_id in tuple(self._unwritten) if known == origin]
        # A line that a power cut has torn is nobody's.
        return [line for line in lines[::-1][:MOST_SESSIONS] if is_session_id(line)]

    def add(self, origin: str, session_id: str) -> None:
        """Note that this session began with this origin; `write` puts it on the disk."""
        self._unwritten.append((origin, session_id))

    def write(self) -> None:
        """Write what was added; a session's first answer need not wait for it."""
        with self._writing:
            while self._unwritten:
                self._write(*self._unwritten[0])
                del self._unwritten[0]

    def _write(self, origin: str, session_id: str) -> None:
        try:
            make_private_folder(self.path)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            descriptor = os.open(self.path / origin, flags, 0o600)
            with open(descriptor, "w", encoding="ascii") as file:  # noqa: PTH123 - a descriptor
                file.write(f"{session_id}\n")
        except OSError as error:
            _LOGGER.warning(
                "The origin of %s can't be noted (%s); a fork of it starts with memory as it is "
                "then, which costs one cache miss.",
                session_id,
                error.strerror,
            )

    def purge(self, folder: SnapshotFolder, now: float, max_age: float) -> None:
        """Remove the origins that were not needed for so long and whose snapshots are all gone."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            for file in list(self.path.iterdir()):
                with contextlib.suppress(OSError):
                    if file.stat().st_mtime + max_age > now:
                        continue
                    if any(folder.file_of(name).exists() for name in self.sessions(file.name)):
                        os.utime(file, (now, now))
                    else:
                        file.unlink()
