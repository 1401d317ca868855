"""What another user made, or could have changed, is never trusted."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from snapshots.ownership import is_own_socket, make_private_folder, read_own
from snapshots.regular import NotRegularError

from ..process import STRANGER, needs_root

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs POSIX owners")


def test_an_own_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"said")
    assert read_own(file) == b"said"


@needs_root
def test_another_users_file_is_not_read_not_even_by_root(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"forged")
    file.chmod(0o600)
    os.chown(file, STRANGER, STRANGER)
    with pytest.raises(PermissionError, match="not this user's own"):
        read_own(file)


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_have_changed_is_not_read(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"forged")
    file.chmod(mode)
    with pytest.raises(PermissionError, match="not this user's own"):
        read_own(file)


def test_a_pipe_in_a_files_place_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "file", 0o600)
    with pytest.raises(NotRegularError):
        read_own(tmp_path / "file")


def test_a_private_folder_is_the_users_alone_also_if_it_was_open_before(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    make_private_folder(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o777)
    make_private_folder(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_file_in_a_private_folders_place_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "file").chmod(0o644)
    with pytest.raises(NotADirectoryError):
        make_private_folder(tmp_path / "file")
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o644


@needs_root
def test_another_users_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir(mode=0o700)
    os.chown(folder, STRANGER, STRANGER)
    with pytest.raises(PermissionError, match="belongs to another user"):
        make_private_folder(folder)


def test_only_a_socket_of_this_users_is_one(tmp_path: Path) -> None:
    path = tmp_path / "s"
    assert not is_own_socket(path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        assert is_own_socket(path)
        (tmp_path / "link").symlink_to(path)
        assert not is_own_socket(tmp_path / "link")
        path.chmod(0o777)
        assert not is_own_socket(path)
    (tmp_path / "file").touch(0o600)
    assert not is_own_socket(tmp_path / "file")


@needs_root
def test_another_users_socket_is_none(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        os.chown(path, STRANGER, STRANGER)
        assert not is_own_socket(path)
