"""What a command returns, and how `main` shows it: for people, or as one JSON envelope."""

from __future__ import annotations

import json
import re
import sys
from enum import IntEnum

TYPE_CHECKING = False  # importing typing is slow
if TYPE_CHECKING:
    from typing import TextIO

ENVELOPE_VERSION = 1
_COLOUR = re.compile(r"(\x1b\[[0-9;]*m)")


class ExitCode(IntEnum):
    """The command line's exit codes."""

    DONE = 0  # done, or already so
    FAILED = 1
    USAGE = 2
    NOT_RUNNING = 3


class Result:
    """What a command did: `text` and an aside for people, `data` for scripts."""

    __slots__ = ("aside", "code", "coloured", "data", "exit_code", "text")

    def __init__(
        self,
        text: str,
        data: dict[str, object] | None = None,
        *,
        exit_code: ExitCode = ExitCode.DONE,
        code: str | None = None,
        aside: str = "",
        coloured: bool = False,
    ) -> None:
        self.text = text
        self.coloured = coloured  # a terminal may be told colours, and nothing else
        self.aside = aside  # goes to stderr, so that stdout is the text alone
        self.data = data or {}
        self.exit_code = exit_code
        self.code = code  # the error's, when it failed


class CommandError(Exception):
    """A command that can't do what it was asked; its message says what to do."""

    def __init__(self, code: str, message: str, exit_code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.code = code
        self.exit_code = exit_code


def print_result(command: str, result: Result, *, as_json: bool) -> None:
    """Print a result: on stdout, or on stderr if it failed and is for people."""
    if as_json:
        envelope = _envelope(command, result)
        _write(sys.stdout, json.dumps(envelope, ensure_ascii=False, indent=2))
        return
    stream = sys.stderr if result.code is not None else sys.stdout
    _write(stream, result.text, coloured=result.coloured)
    _write(sys.stderr, result.aside)


def _write(stream: TextIO, text: str, *, coloured: bool = False) -> None:
    if not text:
        return
    if stream.isatty():
        # The odd pieces are colours.
        pieces = _COLOUR.split(text) if coloured else [text]
        pieces[::2] = map(_shown, pieces[::2])
        text = "".join(pieces)
    line_end = "" if text.endswith("\n") else "\n"
    # Bytes, since `show` is exact whatever the locale and the platform's line ends.
    stream.buffer.write((text + line_end).encode("utf-8", "replace"))
    stream.flush()


def _shown(text: str) -> str:
    """Return text that can't drive a terminal: a label or a path may come from a repository."""
    return "".join(
        character
        if character.isprintable() or character in "\n\t"
        else character.encode("unicode_escape").decode()
        for character in text
    )


def _envelope(command: str, result: Result) -> dict[str, object]:
    failed = result.code is not None
    return {
        "version": ENVELOPE_VERSION,
        "command": command,
        "status": "error" if failed else "ok",
        "exit_code": int(result.exit_code),
        "data": result.data,
        "errors": [{"code": result.code, "message": result.text}] if failed else [],
    }
