"""`opencode-memory logs`: what the sidecar in the background has logged."""

from __future__ import annotations

import argparse
import os
import sys
import time

from sidecar.cli.output import CommandError, ExitCode, Result

TYPE_CHECKING = False  # importing typing is slow
if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import NoReturn

    from sidecar.settings import Settings

_POLL_SECONDS = 0.25


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """How much of it, and for how long."""
    parser.add_argument(
        "-n",
        "--lines",
        type=_count,
        default=50,
        metavar="N",
        help="how many of its last lines (default: 50)",
    )
    parser.add_argument(
        "-f", "--follow", action="store_true", help="go on with what comes, until Ctrl-C"
    )


def run(options: argparse.Namespace, settings: Settings) -> Result:
    """Print the file's last lines, or have the service manager print its own."""
    from sidecar.service import NoServiceManagerError, installed_service
    from sidecar.settings import log_file

    if options.json and options.follow:
        raise CommandError("wrong_usage", "--follow has no --json.", ExitCode.USAGE)
    try:
        service = installed_service(settings)
    except NoServiceManagerError:
        service = None
    if service and (command := service.log_command(options.lines, follow=options.follow)):
        return _run_command(command, follow=options.follow)
    log = _Log(log_file())
    if options.follow:
        _follow(log, options.lines)
    lines = _last_lines(log.read_all(), options.lines)
    text = b"".join(lines).decode(errors="replace")
    if not text:
        return Result(f"There is no log: {log.file}", {"file": str(log.file), "lines": []})
    return Result(
        text, {"file": str(log.file), "lines": text.splitlines()}, aside=f"from {log.file}"
    )


def _run_command(command: Sequence[str], *, follow: bool) -> Result:
    import shlex
    import subprocess

    from sidecar.service import run_captured

    if follow:
        subprocess.run(command, check=False)
        return Result("")
    done = run_captured(command)
    if done.returncode != 0:
        raise CommandError("no_log", f"`{shlex.join(command)}` failed: {done.stderr.strip()}")
    lines = done.stdout.splitlines()
    return Result(
        done.stdout, {"file": None, "lines": lines}, aside=f"from `{shlex.join(command)}`"
    )


class _Log:
    """A log file and the one before it, which was put aside when it was full.

    They are open only while they are read: Windows puts no open file aside.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self._put_aside = file.with_name(f"{file.name}.1")
        self._inode = 0  # of the file that was read last
        self._offset = 0  # how far

    def read_all(self) -> bytes:
        """Return everything."""
        return _read(self._put_aside)[0] + self.read_new()

    def read_new(self) -> bytes:
        """Return what came since the last reading, wherever it is by now."""
        content, inode = _read(self.file, self._offset, self._inode)
        if inode == 0:
            return b""
        if inode == self._inode:
            self._offset += len(content)
            return content
        rest, aside = _read(self._put_aside, self._offset, self._inode)
        left = rest if aside == self._inode else b""
        self._inode, self._offset = inode, len(content)
        return left + content


def _read(file: Path, offset: int = 0, inode: int = 0) -> tuple[bytes, int]:
    """Return a file's content, from `offset` on if it is that `inode`, and its inode; 0 is none."""
    try:
        with file.open("rb") as stream:
            found = os.fstat(stream.fileno()).st_ino
            stream.seek(offset if found == inode else 0)
            return stream.read(), found
    except FileNotFoundError:
        return b"", 0


def _last_lines(content: bytes, count: int) -> list[bytes]:
    return content.splitlines(keepends=True)[-count:] if count else []


def _follow(log: _Log, count: int) -> NoReturn:
    """Print the last lines and each that comes, also when the file is put aside for a new one."""
    new = b"".join(_last_lines(log.read_all(), count))
    while True:
        sys.stdout.buffer.write(new)
        sys.stdout.flush()
        time.sleep(_POLL_SECONDS)
        new = log.read_new()


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} is no number of lines")
    return number
