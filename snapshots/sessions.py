"""The frozen snapshot of each session: in memory, else on disk, else rendered now and saved.

One process at a time owns a store, and one thread at a time a session of it; the sidecar sees to
both. Memory holds what was used in the last day, so that a request in mid-session touches no file.
"""

import hashlib
import logging
import os
from collections.abc import Callable

import msgspec

from snapshots.atomic import write_atomic
from snapshots.errors import raise_if_exhausted
from snapshots.folder import Entry, SnapshotFolder, last_used_first
from snapshots.metadata import (
    CorruptSnapshotError,
    Metadata,
    NewerSnapshotError,
    Terms,
    decode,
    digest,
    encode,
)
from snapshots.origins import OriginIndex
from snapshots.ownership import make_private_folder
from snapshots.regular import NotRegularError, read_regular

_LOGGER = logging.getLogger(__name__)

DAY = 86_400
"""Seconds. How exactly a last use is recorded, and how long an unused session stays in memory."""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The injected bytes of one session and epoch.

    `sha256` ties them to their metadata; `etag` names them and their placement, whatever else the
    metadata says.
    """

    metadata: Metadata
    text: bytes
    sha256: str
    etag: str

    def serves(self, epoch: str | None) -> bool:
        """Whether these bytes are the ones for this epoch; None is an epoch not known."""
        if epoch is None:
            return not self.metadata.compacted
        return self.metadata.epoch == epoch

    def has_left(self, origin: str | None) -> bool:
        """Whether the history begins otherwise by now: the user has undone its first message."""
        return self.metadata.epoch is not None and origin not in (None, self.metadata.origin)

    def can_become(self, epoch: str | None, began: str | None) -> bool:
        """Whether these bytes turn out to be this epoch's.

        So it is if they were rendered while no epoch was known, or if it has begun with them.
        """
        rendered_unknown = self.metadata.epoch is None and not self.metadata.compacted
        return epoch is not None and (rendered_unknown or self.etag == began)


class _Live:
    """A snapshot in memory: whether the disk has it, and when it was used (seconds since 1970)."""

    __slots__ = ("recorded_at", "saved", "snapshot", "used_at")

    def __init__(
        self, snapshot: Snapshot, *, saved: bool, used_at: float, recorded_at: float
    ) -> None:
        self.snapshot = snapshot
        self.saved = saved
        self.used_at = used_at
        self.recorded_at = recorded_at

    def needs_recording(self) -> bool:
        return self.used_at - self.recorded_at >= DAY

    def is_idle(self, now: float) -> bool:
        return now - self.used_at >= DAY


class SnapshotStore:
    """The snapshots of one folder. `now` is always seconds since 1970."""

    def __init__(self, folder: SnapshotFolder, origins: OriginIndex) -> None:
        self.folder = folder
        self.origins = origins
        self._live: dict[str, _Live] = {}
        self._newer: set[str] = set()  # sessions whose file a newer version wrote

    def recall(
        self, session_id: str, epoch: str | None, now: float, origin: str | None = None
    ) -> Snapshot | None:
        """Return the snapshot if it is in memory; never touches the disk, hashes or encodes."""
        live = self._live.get(session_id)
        if live is None or not live.snapshot.serves(epoch) or live.snapshot.has_left(origin):
            return None
        live.used_at = now
        return live.snapshot

    def obtain(
        self,
        session_id: str,
        epoch: str | None,
        render: Callable[[Terms], str],
        now: float,
        origin: str | None = None,
        choose: Callable[[], Terms] = Terms,
        began: str | None = None,
    ) -> Snapshot:
        """Return the snapshot for this session and epoch, making and saving it if need be.

        A fork takes over what the session that it is a copy of was given: the provider has that in
        its cache. Everything else is rendered, on the terms that `choose` returns when the session
        begins. `origin` is a SHA-256 in hex; `began` the ETag of an earlier epoch's bytes with
        which this epoch has begun, and so goes on. Where the history of the same epoch begins
        otherwise by now, the bytes stay, and forks find them by the new origin.

        It is on the disk when this returns, unless the disk refuses: then it is kept in memory and
        counted by `unsaved`.

        Raises InvalidSessionIdError and ExhaustedError.
        """
        live = self._find(session_id, now)
        serves = live is not None and live.snapshot.serves(epoch)
        if live is not None and serves and not live.snapshot.has_left(origin):
            live.used_at = now
            if live.needs_recording():
                self._record_use(session_id, live)
            self._live[session_id] = live
            return live.snapshot
        if live is not None and (serves or live.snapshot.can_become(epoch, began)):
            known = msgspec.structs.replace(live.snapshot.metadata, epoch=epoch, origin=origin)
            if not serves:
                known = msgspec.structs.replace(known, compacted=False)
            return self._begin(known, live.snapshot.text, now)
        metadata = Metadata(session_id=session_id, epoch=epoch, created_at=int(now), origin=origin)
        if inherited := self._inherited(metadata, now):
            text, terms = inherited.text, inherited.metadata.terms
        else:
            terms = live.snapshot.metadata.terms if live is not None else choose()
            text = render(terms).encode("utf-8", "replace")
        metadata = msgspec.structs.replace(metadata, **msgspec.structs.asdict(terms))
        return self._begin(metadata, text, now)

    def show(self, session_id: str, now: float) -> Snapshot | None:
        """Return what this session is being given, without making or using it; None if nothing."""
        live = self._find(session_id, now)
        return live.snapshot if live is not None else None

    def clear(self, session_id: str) -> bool:
        """Forget this session's snapshot; False if there was none. The next request renders."""
        removed = self.folder.remove(session_id)
        was_live = self._live.pop(session_id, None) is not None
        self._newer.discard(session_id)
        return removed or was_live

    def entries(self) -> list[Entry]:
        """Return what the folder has and what memory knows better, the last used first."""
        found = {entry.session_id: entry for entry in self.folder.entries() if entry.session_id}
        for session_id, live in self._live.items():
            size = len(live.snapshot.text)
            file = self.folder.file_of(session_id)
            entry = found.get(session_id) or Entry(str(file), session_id, size, live.used_at)
            entry.last_used = max(entry.last_used, live.used_at)
            found[session_id] = entry
        return last_used_first(found.values())

    def mark_compacted(self, session_id: str, now: float) -> None:
        """Note durably that the host says it compacted this session.

        A hint: it decides only where the next request can't tell its epoch.
        """
        live = self._find(session_id, now)
        if live is not None and not live.snapshot.metadata.compacted:
            marked = msgspec.structs.replace(live.snapshot.metadata, compacted=True)
            self._keep(marked, live.snapshot.text, now)

    def is_live(self, session_id: str) -> bool:
        """Whether this session is in memory: used in the last day."""
        return session_id in self._live

    def unsaved(self) -> list[str]:
        """Return the sessions whose snapshot the disk has refused."""
        return sorted(session_id for session_id, live in self._live.items() if not live.saved)

    def unsettled(self, now: float) -> list[str]:
        """Return the sessions that `settle` would do something for."""
        return [
            session_id
            for session_id, live in self._live.items()
            if not live.saved or live.needs_recording() or live.is_idle(now)
        ]

    def settle(self, session_id: str, now: float) -> None:
        """Save what could not be saved, record the last use, forget what was idle for a day."""
        live = self._live.get(session_id)
        if live is None:
            return
        if not live.saved:
            live.saved = self._save(live.snapshot)
        if live.saved and live.needs_recording():
            self._record_use(session_id, live)
        if live.saved and live.is_idle(now):
            del self._live[session_id]

    def _begin(self, metadata: Metadata, text: bytes, now: float) -> Snapshot:
        snapshot = self._keep(metadata, text, now)
        if metadata.origin is not None:
            self.origins.add(metadata.origin, metadata.session_id)
        return snapshot

    def _inherited(self, metadata: Metadata, now: float) -> Snapshot | None:
        if metadata.origin is None:
            return None
        relatives = self.origins.sessions(metadata.origin)
        if metadata.session_id in relatives:
            return None  # it had a snapshot and was cleared: it is to be rendered anew
        found = [live for relative in relatives if (live := self._find(relative, now))]
        parents = [live for live in found if live.snapshot.metadata.origin == metadata.origin]
        # Forks of one beginning may have different bytes; the user was last in the one forked now.
        newest = max(parents, key=lambda live: live.used_at, default=None)
        return newest.snapshot if newest else None

    def _find(self, session_id: str, now: float) -> _Live | None:
        return self._live.get(session_id) or self._read(session_id, now)

    def _read(self, session_id: str, now: float) -> _Live | None:
        file = self.folder.file_of(session_id)
        try:
            data, status = read_regular(file)
            metadata, text, sha256 = decode(data)
            if metadata.session_id != session_id:
                raise CorruptSnapshotError("belongs to another session")
        except FileNotFoundError:
            return None
        except NewerSnapshotError as error:
            self._newer.add(session_id)
            _LOGGER.warning(
                "The snapshot %s %s. It is left alone, and memory rendered anew while this version "
                "runs; install the newer version again to have it back.",
                file.name,
                error,
            )
            return None
        except (CorruptSnapshotError, NotRegularError) as error:
            self._set_aside(session_id, error, now)
            return None
        except OSError as error:
            raise_if_exhausted(error)
            _LOGGER.warning(
                "The snapshot %s can't be read (%s). Memory is rendered anew for its session, "
                "which costs it one cache miss.",
                file.name,
                error.strerror,
            )
            return None
        snapshot = _freeze(metadata, text, sha256)
        used_at = status.st_mtime
        return _Live(snapshot, saved=True, used_at=used_at, recorded_at=used_at)

    def _set_aside(self, session_id: str, error: Exception, now: float) -> None:
        name = self.folder.file_of(session_id).name
        try:
            outcome = f"set aside as {self.folder.set_aside(session_id, now).name}"
        except OSError as refusal:
            outcome = f"left there, since it can't be renamed ({refusal.strerror})"
        _LOGGER.warning(
            "The snapshot %s %s. It was %s, and memory is rendered anew for its session, which "
            "costs it one cache miss.",
            name,
            "is not a file" if isinstance(error, NotRegularError) else error,
            outcome,
        )

    def _keep(self, metadata: Metadata, text: bytes, now: float) -> Snapshot:
        snapshot = _freeze(metadata, text, digest(metadata, text))
        saved = self._save(snapshot)
        self._live[metadata.session_id] = _Live(snapshot, saved=saved, used_at=now, recorded_at=now)
        return snapshot

    def _save(self, snapshot: Snapshot) -> bool:
        session_id = snapshot.metadata.session_id
        if session_id in self._newer:
            return True
        file = self.folder.file_of(session_id)
        try:
            make_private_folder(self.folder.path)
            write_atomic(file, encode(snapshot.metadata, snapshot.text, snapshot.sha256))
        except OSError as error:
            _LOGGER.warning(
                "The snapshot %s can't be saved (%s). Its session keeps its bytes while this "
                "process lives; make room, or mend the permissions of its folder.",
                file.name,
                error.strerror,
            )
            return False
        return True

    def _record_use(self, session_id: str, live: _Live) -> None:
        try:
            os.utime(self.folder.file_of(session_id), (live.used_at, live.used_at))
        except FileNotFoundError:
            live.saved = self._save(live.snapshot)  # removed by hand; its session goes on
        except OSError as error:
            _LOGGER.warning(
                "The last use of %s can't be recorded (%s).", session_id, error.strerror
            )
            return
        live.recorded_at = live.used_at


def _freeze(metadata: Metadata, text: bytes, sha256: str) -> Snapshot:
    # Of what a session is given alone: it stays when more becomes known of the session.
    given = hashlib.sha256(f"{metadata.placement}\n".encode() + text).hexdigest()
    return Snapshot(metadata=metadata, text=text, sha256=sha256, etag=f'"{given}"')
