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
    from typing import NoReturn, TextIO

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
    file = log_file()
    if options.follow:
        _follow(file, options.lines)
    lines = _last_lines(_previous(file) + _read(file), options.lines)
    text = "\n".join(lines) or f"There is no log: {file}"
    return Result(text, {"file": str(file), "lines": lines})


def _run_command(command: Sequence[str], *, follow: bool) -> Result:
    import subprocess

    from sidecar.service import run_captured

    if follow:
        subprocess.run(command, check=False)
        return Result("")
    done = run_captured(command)
    if done.returncode != 0:
        raise CommandError("no_log", f"`{' '.join(command)}` failed: {done.stderr.strip()}")
    return Result(done.stdout, {"file": None, "lines": done.stdout.splitlines()})


def _previous(file: Path) -> str:
    """Return what the file before this one says: it was put aside when it was full."""
    return _read(file.with_name(f"{file.name}.1"))


def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""


def _last_lines(text: str, count: int) -> list[str]:
    return text.splitlines()[-count:] if count else []


def _follow(file: Path, count: int) -> NoReturn:
    """Print the last lines and each that comes, also when the file is put aside for a new one."""
    stream = _open(file)
    lines = _last_lines(_previous(file) + stream.read(), count)
    _print("".join(f"{line}\n" for line in lines))
    while True:
        if text := stream.read():
            _print(text)
        elif file.exists() and not os.path.samestat(file.stat(), os.fstat(stream.fileno())):
            stream = _open(file)
        else:
            time.sleep(_POLL_SECONDS)


def _open(file: Path) -> TextIO:
    while not file.exists():
        time.sleep(_POLL_SECONDS)
    return file.open(encoding="utf-8", errors="replace")


def _print(text: str) -> None:
    sys.stdout.buffer.write(text.encode())
    sys.stdout.flush()


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} is no number of lines")
    return number
