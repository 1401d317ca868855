"""Child processes of a test, and the one way to wait for something."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

T = TypeVar("T")

STRANGER = 65534
"""The number of another user, to whom root can give a file."""
needs_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a file away"
)


def until(condition: Callable[[], T], what: str, seconds: float = 30) -> T:
    """Poll until `condition` holds and return its value; fail by name after the deadline."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"waited {seconds} s in vain for {what}"
        time.sleep(0.02)
    return value


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fail if what is inside takes longer."""
    started = time.monotonic()
    yield
    took = time.monotonic() - started
    assert took < seconds, f"took {took:.1f} s of the {seconds} s allowed"


@contextmanager
def without_descriptors() -> Iterator[None]:
    """Have this process open nothing inside: the system says that it has too many open files."""
    resource = pytest.importorskip("resource", reason="Windows has no such limit")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Child:
    """A long-running process with its output in a file. Ends with `end`, never on its own."""

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str], directory: Path, log: Path
    ) -> None:
        self.log = log
        self._logged_before = log.stat().st_size if log.exists() else 0
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                env=env,
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """What it ended with; None while it lives."""
        return self._process.poll()

    def output(self) -> str:
        """What this process has printed; an earlier one's output in the same file is not in it."""
        return self.log.read_bytes()[self._logged_before :].decode(errors="replace")

    def alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """SIGKILL: no handler runs, nothing is flushed."""
        self._process.kill()
        self._process.wait(10)

    def pause(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def end(self) -> None:
        """Ask it to end, insist after five seconds."""
        if not self.alive():
            return
        self.resume()
        self._process.terminate()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self.kill()
