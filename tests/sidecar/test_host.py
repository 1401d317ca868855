"""The `opencode` on PATH, as npm and others put it there, and one that never answers."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from sidecar.host import ask, find_host

from ..process import until


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "b in"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    return folder / "opencode"


def write(program: Path, script: str) -> None:
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def test_a_script_or_link_that_starts_the_real_one_is_asked_through(program: Path) -> None:
    real = program.parents[1] / "real"
    write(real, "echo 1.18.33; echo more")
    write(program, f'"{real}" "$@"')
    host = find_host()
    assert host is not None
    assert (host.program, host.version) == (str(program), "1.18.33")
    program.unlink()
    program.symlink_to(real)
    host = find_host()
    assert host is not None
    assert host.version == "1.18.33"


@pytest.mark.parametrize("script", ["exit 1", "echo 1.18.33; exit 1", "echo nonsense", ":"])
def test_one_that_does_not_say_its_version_has_none(script: str, program: Path) -> None:
    write(program, script)
    host = find_host()
    assert host is not None
    assert host.version == ""
    assert not host.is_too_old


def test_one_that_never_answers_is_given_up_with_all_that_it_started(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sidecar.host.ANSWER_SECONDS", 0.5)
    write(program, f"sleep 600 & echo $! > '{tmp_path}/child'; wait")
    began = time.monotonic()
    assert ask([str(program)]) == ""
    assert time.monotonic() - began < 60
    child = int((tmp_path / "child").read_text())
    until(lambda: not _is_alive(child), "the child to be gone")


def _is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"  # in a container nobody may collect it


def test_a_program_that_cannot_be_started_says_nothing(tmp_path: Path) -> None:
    assert ask([str(tmp_path / "none")]) == ""
