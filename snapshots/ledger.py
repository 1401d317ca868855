"""The usage ledger: what each finished step of a session cost in tokens, as its provider counted.

One SQLite file in WAL mode, one row per assistant message of the host. It holds ids and numbers, no
text. Whoever writes holds the sidecar's lock; the command line reads at any time.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from typing import TYPE_CHECKING, Literal

import msgspec

from snapshots.errors import SnapshotError
from snapshots.ownership import make_private_folder

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from sqlite3 import Connection  # at run time, with the first step: no start waits for it

_LOGGER = logging.getLogger(__name__)

SCHEMA = 1
"""The file's `user_version`. One that is newer is left alone."""
MAX_STEPS = 200_000
"""Some 40 MB. Of more, the oldest go."""
LOCK_SECONDS = 0.5
"""How long a write waits for a program that holds the file; the plugin sends the steps again."""
_DAMAGED = ("SQLITE_CORRUPT", "SQLITE_NOTADB")

Outcome = Literal["done", "aborted", "failed"]


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One request to a model. Times are in seconds since 1970, tokens as the host has them.

    `input` is what was not cached; the prompt's size is `input + cache_read + cache_write`.
    `parent_id` is the session that started this one, if it is a subagent's. `compaction` marks the
    request for a summary. `cost` is in US dollars, 0 where the host knows no price.
    """

    session_id: str
    message_id: str
    parent_id: str | None
    started_at: float
    finished_at: float
    provider: str
    model: str
    agent: str
    outcome: Outcome
    compaction: bool
    input: int
    output: int
    reasoning: int
    cache_read: int
    cache_write: int
    cost: float

    @property
    def prompt(self) -> int:
        """The prompt's size in tokens."""
        return self.input + self.cache_read + self.cache_write


_COLUMNS = Step.__struct_fields__
_CREATE = f"""
CREATE TABLE IF NOT EXISTS steps (
  {", ".join(_COLUMNS)}, PRIMARY KEY (session_id, message_id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS steps_by_time ON steps (started_at);
PRAGMA user_version = {SCHEMA};
"""
_MARKS = ", ".join("?" * len(_COLUMNS))
_INSERT = f"INSERT OR REPLACE INTO steps ({', '.join(_COLUMNS)}) VALUES ({_MARKS})"


class NewerLedgerError(SnapshotError):
    """A newer version wrote the file."""

    code = "newer_ledger"


class Ledger:
    """The file as its one writer uses it, from any thread. Opened when the first step comes."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._connection: Connection | None = None
        self._lock = threading.Lock()

    def add(self, steps: Iterable[Step]) -> None:
        """Write these steps; one that is there already is replaced.

        A file that is damaged is set aside and begun anew: a ledger is not worth a failure.

        Raises NewerLedgerError and sqlite3.Error.
        """
        import sqlite3

        rows = [[getattr(step, name) for name in _COLUMNS] for step in steps]
        with self._lock:
            try:
                self._write(rows)
            except sqlite3.DatabaseError as error:
                if getattr(error, "sqlite_errorname", "") not in _DAMAGED:
                    raise
                self._set_aside()
                self._write(rows)

    def purge(self, now: float, max_age: float) -> int:
        """Remove the steps of sessions whose last one is older than so many seconds.

        Their age is that at the ledger's last step, if that is before `now`: a clock that jumps
        ahead removes nothing. Returns how many steps went. Nothing is made for this alone.
        """
        if not self.file.exists():
            return 0
        with self._lock, self._open() as connection:
            (last,) = connection.execute("SELECT max(started_at) FROM steps").fetchone()
            over = "SELECT session_id FROM steps GROUP BY session_id HAVING max(started_at) < ?"
            removed = connection.execute(
                f"DELETE FROM steps WHERE session_id IN ({over})", [min(now, last or now) - max_age]
            ).rowcount
            oldest = "SELECT started_at FROM steps ORDER BY started_at DESC LIMIT 1 OFFSET ?"
            removed += connection.execute(
                f"DELETE FROM steps WHERE started_at <= ({oldest})", [MAX_STEPS]
            ).rowcount
        return removed

    def close(self) -> None:
        """Close the file; the next step opens it again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def _write(self, rows: list[list[object]]) -> None:
        with self._open() as connection:
            connection.executemany(_INSERT, rows)

    def _open(self) -> Connection:
        if self._connection is not None:
            return self._connection
        import sqlite3

        make_private_folder(self.file.parent)
        flags = os.O_CREAT | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0)
        os.close(os.open(self.file, flags, 0o600))
        connection = sqlite3.connect(self.file, LOCK_SECONDS, check_same_thread=False)
        try:
            _check_version(connection, self.file)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")  # whole after a crash, not complete
            connection.executescript(_CREATE)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def _set_aside(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        aside = self.file.with_name(f"{self.file.name}.corrupt.{int(time.time())}")
        self.file.rename(aside)
        for suffix in ("-wal", "-shm"):
            self.file.with_name(self.file.name + suffix).unlink(missing_ok=True)
        _LOGGER.warning("The usage ledger is damaged; it was set aside as %s.", aside.name)


def read_steps(
    file: Path, *, session_id: str | None = None, since: float | None = None
) -> list[Step]:
    """Return the steps of one session or all, begun since then, in the order of time.

    None of a file that is not there. Raises NewerLedgerError and sqlite3.Error.
    """
    import sqlite3

    if not file.exists():
        return []
    conditions = {"session_id = ?": session_id, "started_at >= ?": since}
    asked = {text: value for text, value in conditions.items() if value is not None}
    where = f" WHERE {' AND '.join(asked)}" if asked else ""
    query = f"SELECT {', '.join(_COLUMNS)} FROM steps{where} ORDER BY started_at, message_id"
    with contextlib.closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as connection:
        _check_version(connection, file)
        if not connection.execute("PRAGMA user_version").fetchone()[0]:
            return []  # just being made
        rows = connection.execute(query, list(asked.values())).fetchall()
    fields = (dict(zip(_COLUMNS, row, strict=True)) for row in rows)
    return [msgspec.convert(each, Step, strict=False) for each in fields]


def _check_version(connection: Connection, file: Path) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > SCHEMA:
        raise NewerLedgerError(
            f"The usage ledger {file} was written by a newer version (format {version}, this one "
            f"reads up to {SCHEMA}). It is left alone; install the newer version again."
        )
