from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from sidecar.sessions import Sessions
from sidecar.sweep import LONGEST_SLEEP, RETRY_SLEEP, sweep
from snapshots.folder import SnapshotFolder
from snapshots.origins import OriginIndex
from snapshots.sessions import SnapshotStore

DAY = 86_400


@pytest.fixture
def sessions(tmp_path: Path) -> Sessions:
    return Sessions(
        SnapshotStore(SnapshotFolder(tmp_path / "snapshots"), OriginIndex(tmp_path / "origins"))
    )


def age(sessions: Sessions, session_id: str, days: float) -> None:
    then = time.time() - days * DAY
    os.utime(sessions.store.folder.file_of(session_id), (then, then))


async def unused(sessions: Sessions, session_id: str) -> None:
    """Save a snapshot as another process would have: this one does not hold it in memory."""
    other = SnapshotStore(sessions.store.folder, sessions.store.origins)
    await asyncio.to_thread(other.obtain, session_id, "initial", lambda: "text", time.time())


async def test_a_sweep_removes_what_is_over_and_spares_what_is_live(sessions: Sessions) -> None:
    await sessions.obtain("ses_live", "initial", lambda: "text")
    await unused(sessions, "ses_over")
    age(sessions, "ses_live", 31)
    age(sessions, "ses_over", 31)
    await sweep(sessions)
    assert os.listdir(sessions.store.folder.path) == ["ses_live.xml"]


async def test_the_next_sweep_is_at_the_next_deadline_but_within_a_day(sessions: Sessions) -> None:
    assert await sweep(sessions) == LONGEST_SLEEP
    await unused(sessions, "ses_a")
    assert await sweep(sessions) == LONGEST_SLEEP
    age(sessions, "ses_a", 29.5)
    assert DAY / 2 - 60 < await sweep(sessions) <= DAY / 2


async def test_a_snapshot_that_the_disk_refused_is_tried_again_within_a_minute(
    sessions: Sessions,
) -> None:
    folder = sessions.store.folder.path
    folder.write_text("a file where the folder belongs")
    await sessions.obtain("ses_a", "initial", lambda: "text")
    assert await sweep(sessions) == RETRY_SLEEP
    folder.unlink()
    assert await sweep(sessions) == LONGEST_SLEEP
    assert sessions.store.folder.file_of("ses_a").exists()
