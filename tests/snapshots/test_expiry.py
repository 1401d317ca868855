from __future__ import annotations

import os
from pathlib import Path

from snapshots.expiry import purge
from snapshots.folder import SnapshotFolder

DAY = 86_400
NOW = 1_000 * DAY


def a_file(folder: Path, name: str, *, days_ago: float) -> Path:
    file = folder / name
    file.write_bytes(b"content")
    os.utime(file, (NOW - days_ago * DAY, NOW - days_ago * DAY))
    return file


def test_what_was_not_used_for_thirty_days_goes_and_the_rest_stays(tmp_path: Path) -> None:
    a_file(tmp_path, "ses_old.xml", days_ago=30)
    a_file(tmp_path, "ses_older.xml", days_ago=300)
    a_file(tmp_path, "ses_recent.xml", days_ago=29.9)
    a_file(tmp_path, "ses_future.xml", days_ago=-300)
    done = purge(SnapshotFolder(tmp_path), NOW)
    assert done.removed == ("ses_old", "ses_older")
    assert sorted(os.listdir(tmp_path)) == ["ses_future.xml", "ses_recent.xml"]


def test_what_cannot_be_removed_stays_and_holds_up_nothing(tmp_path: Path) -> None:
    for name in "gcaedbf":
        a_file(tmp_path, f"ses_{name}.xml", days_ago=31)
    (tmp_path / "ses_folder.xml").mkdir()
    os.utime(tmp_path / "ses_folder.xml", (0, 0))
    done = purge(SnapshotFolder(tmp_path), NOW)
    assert done.removed == tuple(f"ses_{name}" for name in "abcdefg")
    assert os.listdir(tmp_path) == ["ses_folder.xml"]


def test_a_link_is_as_old_as_itself_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    young = a_file(tmp_path, "kept", days_ago=0)
    (tmp_path / "ses_link.xml").symlink_to(young)
    os.utime(tmp_path / "ses_link.xml", (0, 0), follow_symlinks=False)
    assert purge(SnapshotFolder(tmp_path), NOW).removed == ("ses_link",)
    assert os.listdir(tmp_path) == ["kept"]


def test_a_live_session_stays_however_old_its_file_looks(tmp_path: Path) -> None:
    a_file(tmp_path, "ses_live.xml", days_ago=365)
    done = purge(SnapshotFolder(tmp_path), NOW, is_live=lambda session_id: session_id == "ses_live")
    assert done.removed == ()
    assert done.next_due == NOW + 30 * DAY


def test_the_next_due_time_is_that_of_the_longest_unused_one(tmp_path: Path) -> None:
    a_file(tmp_path, "ses_a.xml", days_ago=10)
    a_file(tmp_path, "ses_b.xml", days_ago=20)
    assert purge(SnapshotFolder(tmp_path), NOW).next_due == NOW + 10 * DAY


def test_nothing_is_due_in_an_empty_folder_or_in_none(tmp_path: Path) -> None:
    assert purge(SnapshotFolder(tmp_path), NOW).next_due is None
    assert purge(SnapshotFolder(tmp_path / "absent"), NOW).next_due is None


def test_a_dry_run_says_the_same_and_removes_nothing(tmp_path: Path) -> None:
    file = a_file(tmp_path, "ses_old.xml", days_ago=31)
    assert purge(SnapshotFolder(tmp_path), NOW, dry_run=True).removed == ("ses_old",)
    assert file.exists()


def test_old_debris_goes_too_and_foreign_files_stay(tmp_path: Path) -> None:
    a_file(tmp_path, ".ses_a.xml.0123.tmp", days_ago=31)
    a_file(tmp_path, "ses_a.xml.corrupt.1700000000", days_ago=31)
    a_file(tmp_path, "notes.txt", days_ago=31)
    a_file(tmp_path, "not a session.xml", days_ago=31)
    assert purge(SnapshotFolder(tmp_path), NOW).removed == ()
    assert sorted(os.listdir(tmp_path)) == ["not a session.xml", "notes.txt"]
