from __future__ import annotations

from pathlib import Path

import pytest

from snapshots.errors import InvalidSessionIdError
from snapshots.folder import SnapshotFolder


@pytest.mark.parametrize(
    "session_id",
    [
        "",
        "ses_",
        "abc",
        "../ses_a",
        "ses_../a",
        "ses_a/b",
        "ses_a\n",
        "ses_a.xml",
        "ses_" + "a" * 101,
        "ses_ä",
        "ses_a\0",
        "SES_a",
        " ses_a",
    ],
)
def test_what_is_no_session_id_never_becomes_a_file_name(tmp_path: Path, session_id: str) -> None:
    with pytest.raises(InvalidSessionIdError, match="is not a session id"):
        SnapshotFolder(tmp_path).file_of(session_id)


def test_a_session_has_one_file_of_its_name(tmp_path: Path) -> None:
    file = SnapshotFolder(tmp_path).file_of("ses_018f2c3d4e5fAbCdEfGhIjKlMn")
    assert file == tmp_path / "ses_018f2c3d4e5fAbCdEfGhIjKlMn.xml"


def test_a_removed_file_is_gone_and_an_absent_one_is_told(tmp_path: Path) -> None:
    folder = SnapshotFolder(tmp_path)
    folder.file_of("ses_a").write_bytes(b"x")
    assert folder.remove("ses_a")
    assert not folder.remove("ses_a")
    assert list(folder.entries()) == []


def test_a_file_that_goes_while_the_folder_is_read_is_passed_over(tmp_path: Path) -> None:
    folder = SnapshotFolder(tmp_path)
    for name in "abc":
        folder.file_of(f"ses_{name}").write_bytes(b"x")
    entries = folder.entries()
    first = next(entries)
    for file in tmp_path.iterdir():
        file.unlink()
    assert first.session_id
    assert list(entries) == []


def test_a_file_in_the_folders_place_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert list(SnapshotFolder(tmp_path / "file").entries()) == []
    assert list(SnapshotFolder(tmp_path / "none").entries()) == []


def test_a_file_set_aside_frees_the_name_and_loses_nothing(tmp_path: Path) -> None:
    folder = SnapshotFolder(tmp_path)
    folder.file_of("ses_a").write_bytes(b"torn")
    aside = folder.set_aside("ses_a", now=1_700_000_000.5)
    assert aside.name == "ses_a.xml.corrupt.1700000000"
    assert aside.read_bytes() == b"torn"
    assert not folder.file_of("ses_a").exists()
    assert [entry.session_id for entry in folder.entries()] == [None]
