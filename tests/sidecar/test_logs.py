"""`opencode-memory logs`, on the file of a sidecar in the background."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sidecar.cli.logs import _Log
from sidecar.settings import log_file

from ..process import Child, until
from .test_cli import run, run_json

Follow = Callable[..., Child]


@pytest.fixture
def log(home: Path) -> Path:
    file = log_file()
    file.parent.mkdir(parents=True)
    return file


@pytest.fixture
def follow(home: Path) -> Iterator[Follow]:
    children: list[Child] = []

    def start(*arguments: str) -> Child:
        command = [sys.executable, "-P", "-m", "sidecar", "logs", "--follow", *arguments]
        children.append(Child(command, os.environ, home, home / "followed"))
        return children[-1]

    # Whoever runs the tests in a shell's background has it ignored, and so would the child.
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield start
    signal.signal(signal.SIGINT, previous)
    for child in children:
        child.end()


def test_the_last_lines_reach_back_into_the_file_that_was_put_aside(log: Path) -> None:
    log.write_text("three\nfour\n")
    log.with_name("sidecar.log.1").write_text("one\ntwo\n")
    assert run("logs", "-n", "3").stdout == "two\nthree\nfour\n"
    assert run_json("logs", "--lines", "1")["data"] == {"file": str(log), "lines": ["four"]}
    assert run("logs").stdout == "one\ntwo\nthree\nfour\n"


def test_no_log_is_said_and_a_wrong_number_is_refused(home: Path) -> None:
    assert run("logs").stdout == f"There is no log: {log_file()}\n"
    assert run("logs", "-n", "-1").returncode == 2
    assert run("logs", "--follow", "--json").returncode == 2


def test_following_goes_on_when_the_file_is_put_aside_and_ends_with_ctrl_c(
    log: Path, follow: Follow
) -> None:
    log.write_text("one\ntwo\n")
    child = follow("-n", "1")
    until(lambda: child.output() == "two\n", "the last line")
    log.rename(log.with_name("sidecar.log.1"))
    log.write_text("three\n")
    until(lambda: child.output() == "two\nthree\n", "the new file's line")
    os.kill(child.pid, signal.SIGINT)
    until(lambda: not child.alive(), "it to end")
    assert child.returncode == 130
    assert child.output() == "two\nthree\n"


def test_following_misses_nothing_that_was_written_just_before_a_file_was_put_aside(
    log: Path,
) -> None:
    def append(content: bytes) -> None:
        with log.open("ab") as stream:
            stream.write(content)

    append(b"one\n")
    followed = _Log(log)
    assert followed.read_all() == b"one\n"
    letter = "ö".encode()
    append(b"tw" + letter[:1])
    assert followed.read_new() == b"tw" + letter[:1]
    append(letter[1:] + b"\n")
    log.rename(log.with_name("sidecar.log.1"))
    assert followed.read_new() == b""
    append(b"three\n")
    assert followed.read_new() == letter[1:] + b"\nthree\n"
    assert followed.read_new() == b""


def test_where_the_lines_are_from_is_told_beside_them(log: Path) -> None:
    log.write_text("one\n")
    assert run("logs").stderr == f"from {log}\n"


def test_following_waits_for_a_log_that_is_not_there_yet(log: Path, follow: Follow) -> None:
    child = follow()
    log.write_text("one\n")
    until(lambda: child.output() == "one\n", "the first line")


def test_following_ends_when_nobody_reads_any_more(log: Path) -> None:
    log.write_text("one\n")
    command = f"{sys.executable} -P -m sidecar logs --follow | head -1"
    following = subprocess.Popen(["bash", "-c", command], stdout=subprocess.PIPE, text=True)
    try:
        assert following.stdout is not None
        assert following.stdout.readline() == "one\n"

        def ended() -> bool:
            with log.open("a") as stream:
                stream.write("more\n")
            return following.poll() is not None

        until(ended, "it to end")
    finally:
        following.kill()
        following.communicate()
