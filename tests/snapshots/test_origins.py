from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from snapshots.folder import SnapshotFolder
from snapshots.origins import MOST_SESSIONS, OriginIndex

ORIGIN = "a" * 64
DAY = 86_400.0
NOW = 1_000 * DAY


@pytest.fixture
def index(tmp_path: Path) -> OriginIndex:
    return OriginIndex(tmp_path / "origins")


def test_the_sessions_of_an_origin_come_newest_first(index: OriginIndex) -> None:
    assert index.sessions(ORIGIN) == []
    for session_id in ("ses_a", "ses_b"):
        index.add(ORIGIN, session_id)
        index.write()
    index.add("b" * 64, "ses_c")
    index.add(ORIGIN, "ses_unwritten")
    assert index.sessions(ORIGIN) == ["ses_unwritten", "ses_b", "ses_a"]
    index.write()
    assert index.sessions(ORIGIN) == ["ses_unwritten", "ses_b", "ses_a"]


def test_it_is_the_users_alone(index: OriginIndex) -> None:
    index.add(ORIGIN, "ses_a")
    index.write()
    assert stat.S_IMODE(index.path.stat().st_mode) == 0o700
    assert stat.S_IMODE((index.path / ORIGIN).stat().st_mode) == 0o600


def test_what_many_write_at_once_is_written_once(index: OriginIndex) -> None:
    for number in range(200):
        index.add(f"{number:064}", "ses_a")
    with ThreadPoolExecutor(8) as threads:
        for done in [threads.submit(index.write) for _ in range(8)]:
            done.result()
    assert [file.read_text() for file in index.path.iterdir()] == ["ses_a\n"] * 200


def test_a_fork_finds_its_parent_also_while_that_is_being_written(
    index: OriginIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    real_open = os.open

    def look(*arguments: Any, **options: Any) -> int:
        monkeypatch.undo()
        found.extend(index.sessions(ORIGIN))
        return real_open(*arguments, **options)

    index.add(ORIGIN, "ses_a")
    monkeypatch.setattr(os, "open", look)
    index.write()
    assert found == ["ses_a"]


def test_of_very_many_forks_only_the_newest_are_looked_at(index: OriginIndex) -> None:
    for number in range(MOST_SESSIONS + 1):
        index.add(ORIGIN, f"ses_{number}")
    assert index.sessions(ORIGIN)[-1] == "ses_1"


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"\0" * 20, b"se\n", b"../../passwd\n"])
def test_a_file_that_makes_no_sense_names_no_session(
    index: OriginIndex, tmp_path: Path, content: bytes
) -> None:
    index.add(ORIGIN, "ses_a")
    index.write()
    (index.path / ORIGIN).write_bytes(content)
    assert index.sessions(ORIGIN) == []
    os.utime(index.path / ORIGIN, (NOW - 31 * DAY, NOW - 31 * DAY))
    index.purge(SnapshotFolder(tmp_path / "snapshots"), NOW, 30 * DAY)
    assert os.listdir(index.path) == []


def test_an_index_that_cannot_be_written_costs_no_more_than_a_warning(
    index: OriginIndex, caplog: pytest.LogCaptureFixture
) -> None:
    index.path.write_text("a file where the folder belongs")
    index.add(ORIGIN, "ses_a")
    index.write()
    assert "can't be noted" in caplog.text


def test_an_origin_goes_when_it_is_old_and_its_snapshots_are_gone(
    index: OriginIndex, tmp_path: Path
) -> None:
    folder = SnapshotFolder(tmp_path / "snapshots")
    folder.path.mkdir()
    index.purge(folder, NOW, 30 * DAY)  # nothing there yet
    for origin, session_id, days in (("a", "ses_a", 31), ("b", "ses_b", 31), ("c", "ses_c", 1)):
        index.add(origin * 64, session_id)
        index.write()
        os.utime(index.path / (origin * 64), (NOW - days * DAY, NOW - days * DAY))
    folder.file_of("ses_b").write_bytes(b"")
    (index.path / ("d" * 64)).mkdir()  # can't be removed, and holds up no other
    os.utime(index.path / ("d" * 64), (0, 0))
    index.purge(folder, NOW, 30 * DAY)
    assert sorted(file.name[0] for file in index.path.iterdir()) == ["b", "c", "d"]
    assert (index.path / ("b" * 64)).stat().st_mtime == NOW
