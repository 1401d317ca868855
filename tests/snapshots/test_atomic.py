from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from snapshots.atomic import write_atomic

from ..process import without_descriptors


def test_a_write_replaces_the_content_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "file"
    write_atomic(file, b"old")
    write_atomic(file, b"new")
    assert file.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["file"]


def test_a_written_file_is_the_users_alone_whatever_the_umask(tmp_path: Path) -> None:
    file = tmp_path / "file"
    previous = os.umask(0o277)
    try:
        write_atomic(file, b"secret")
    finally:
        os.umask(previous)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_write_that_fails_leaves_the_old_file_and_nothing_beside_it(tmp_path: Path) -> None:
    target = tmp_path / "folder"
    (target / "inside").mkdir(parents=True)
    with pytest.raises(OSError, match="folder"):
        write_atomic(target, b"new")  # a folder can't be replaced by a file
    assert (target / "inside").is_dir()
    assert os.listdir(tmp_path) == ["folder"]


def test_a_check_that_raises_in_the_last_moment_keeps_the_old_file(tmp_path: Path) -> None:
    file = tmp_path / "file"
    write_atomic(file, b"old")

    def refuse() -> None:
        raise ValueError("changed meanwhile")

    with pytest.raises(ValueError, match="changed meanwhile"):
        write_atomic(file, b"new", check=refuse)
    assert file.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_what_a_killed_writer_has_left_hinders_no_later_one(tmp_path: Path) -> None:
    file = tmp_path / "file"
    killed = (
        "import os, pathlib, signal, sys; from snapshots.atomic import write_atomic; "
        "write_atomic(pathlib.Path(sys.argv[1]), b'killed', "
        "check=lambda: os.kill(os.getpid(), signal.SIGKILL))"
    )
    for _ in range(2):
        subprocess.run([sys.executable, "-c", killed, file], check=False, timeout=30)
    assert len(os.listdir(tmp_path)) == 2
    write_atomic(file, b"new")
    assert file.read_bytes() == b"new"


def test_a_write_that_cannot_begin_says_why(tmp_path: Path) -> None:
    with without_descriptors(), pytest.raises(OSError, match="open files"):
        write_atomic(tmp_path / "file", b"new")


def test_sigkill_at_any_step_leaves_the_old_file_the_new_one_or_none(tmp_path: Path) -> None:
    script = Path(__file__).with_name("kill_while_saving.py")
    done = subprocess.run(
        [sys.executable, script, tmp_path, "600"], capture_output=True, check=True, timeout=50
    )
    outcomes = Counter(json.loads(done.stdout))
    assert outcomes.total() == 600
    assert set(outcomes) == {"old", "new", "absent"}
