from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from sidecar.sessions import Sessions
from sidecar.sweep import GRACE, LONGEST_SLEEP, RETRY_SLEEP, Sweeper
from snapshots.folder import SnapshotFolder
from snapshots.origins import OriginIndex
from snapshots.sessions import SnapshotStore

DAY = 86_400


@pytest.fixture
def sessions(tmp_path: Path) -> Sessions:
    return Sessions(
        SnapshotStore(SnapshotFolder(tmp_path / "snapshots"), OriginIndex(tmp_path / "origins"))
    )


@pytest.fixture
def sweeper(sessions: Sessions) -> Sweeper:
    return Sweeper(sessions)


def age(sessions: Sessions, session_id: str, days: float) -> None:
    then = time.time() - days * DAY
    os.utime(sessions.store.folder.file_of(session_id), (then, then))


async def unused(sessions: Sessions, session_id: str) -> None:
    """Save a snapshot as another process would have: this one does not hold it in memory."""
    other = SnapshotStore(sessions.store.folder, sessions.store.origins)
    await asyncio.to_thread(other.obtain, session_id, "initial", lambda _: "text", time.time())


async def test_a_sweep_removes_what_is_over_and_spares_what_is_live(
    sessions: Sessions, sweeper: Sweeper
) -> None:
    await sessions.obtain("ses_live", "initial", lambda _: "text")
    await unused(sessions, "ses_over")
    age(sessions, "ses_live", 31)
    age(sessions, "ses_over", 31)
    assert await sweeper.sweep(time.time(), 0) == GRACE
    assert await sweeper.sweep(time.time(), GRACE - 1) == 1
    assert await sweeper.sweep(time.time(), GRACE - 0.25) == 1
    assert len(os.listdir(sessions.store.folder.path)) == 2
    assert await sweeper.sweep(time.time(), GRACE) == LONGEST_SLEEP
    assert os.listdir(sessions.store.folder.path) == ["ses_live.xml"]


async def test_a_clock_that_jumps_by_a_year_costs_no_session_in_use_its_snapshot(
    sessions: Sessions, sweeper: Sweeper
) -> None:
    now = time.time()
    await sessions.obtain("ses_live", "initial", lambda _: "v1")
    await unused(sessions, "ses_old")
    age(sessions, "ses_old", 20)
    for jump in (-366, 366, 0, 366):
        then = now + jump * DAY
        for hours in (0, 2, 4):
            await sweeper.sweep(then + hours * 3600, hours * 3600)
    # It asks again while the clock is still wrong; a sidecar that has just started says the same.
    for store in (sessions.store, SnapshotStore(sessions.store.folder, sessions.store.origins)):
        used = await asyncio.to_thread(
            store.obtain, "ses_live", "initial", lambda _: "v2", now + 366 * DAY
        )
        assert used.text == b"v1"
    await sweeper.sweep(now + 366 * DAY, 4 * 3600 + GRACE)
    assert os.listdir(sessions.store.folder.path) == ["ses_live.xml"]


async def test_what_was_used_in_the_meantime_has_all_of_its_grace_again(
    sessions: Sessions, sweeper: Sweeper
) -> None:
    await unused(sessions, "ses_a")
    for days, uptime in ((31, 0), (0, 3600), (31, GRACE + 1), (31, 2 * GRACE)):
        age(sessions, "ses_a", days)
        await sweeper.sweep(time.time(), uptime)
    assert os.listdir(sessions.store.folder.path) == ["ses_a.xml"]


async def test_a_time_in_the_future_stops_no_sweep(sessions: Sessions, sweeper: Sweeper) -> None:
    await unused(sessions, "ses_future")
    await unused(sessions, "ses_over")
    age(sessions, "ses_future", -10 * 365)
    age(sessions, "ses_over", 31)
    for uptime in (0, GRACE):
        assert 1 <= await sweeper.sweep(time.time(), uptime) <= LONGEST_SLEEP
    assert os.listdir(sessions.store.folder.path) == ["ses_future.xml"]


async def test_the_next_sweep_is_at_the_next_deadline_but_within_a_day(
    sessions: Sessions, sweeper: Sweeper
) -> None:
    assert await sweeper.sweep(time.time(), 0) == LONGEST_SLEEP
    await unused(sessions, "ses_a")
    assert await sweeper.sweep(time.time(), 0) == LONGEST_SLEEP
    age(sessions, "ses_a", 29.5)
    assert DAY / 2 - 60 < await sweeper.sweep(time.time(), 0) <= DAY / 2


async def test_a_snapshot_that_the_disk_refused_is_tried_again_within_a_minute(
    sessions: Sessions, sweeper: Sweeper
) -> None:
    folder = sessions.store.folder.path
    folder.write_text("a file where the folder belongs")
    await sessions.obtain("ses_a", "initial", lambda _: "text")
    assert await sweeper.sweep(time.time(), 0) == RETRY_SLEEP
    folder.unlink()
    assert await sweeper.sweep(time.time(), 0) == LONGEST_SLEEP
    assert sessions.store.folder.file_of("ses_a").exists()
