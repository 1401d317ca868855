"""`opencode-memory stats`: what the sessions have cost, and what became of the prompt cache."""

from __future__ import annotations

import argparse
import re
import time
from datetime import datetime

from sidecar.cli.output import CommandError, Result

TYPE_CHECKING = False  # importing typing is slow
if TYPE_CHECKING:
    from sidecar.settings import Settings
    from sidecar.usage import SessionUsage, Sum

_SECONDS = {"m": 60, "h": 3_600, "d": 86_400, "w": 7 * 86_400}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of what."""
    parser.add_argument(
        "session", nargs="?", metavar="SESSION", help="this session only (default: all)"
    )
    add_since_argument(parser)


def add_since_argument(parser: argparse.ArgumentParser) -> None:
    """Add `--since`, which `report` has too."""
    parser.add_argument(
        "--since",
        type=_moment,
        metavar="WHEN",
        help="requests begun since then: 90m, 12h, 7d, 2w, or a date such as 2026-12-01",
    )


def run(options: argparse.Namespace, settings: Settings) -> Result:
    """Read the ledger, whether or not a sidecar runs, and add it up."""
    import shutil
    import sys

    from sidecar.usage import add_up
    from sidecar.usage_text import describe_usage

    usage = read_usage(settings, options.session, options.since)
    if options.session and not usage:
        raise CommandError(
            "no_usage",
            f"Nothing is known of {options.session}. `opencode-memory stats` shows all there is.",
        )
    total = add_up([each for session in usage for each in session.judged])
    text = describe_usage(
        usage,
        total,
        width=shutil.get_terminal_size().columns,
        colour=_uses_colour(),
        unicode=(sys.stdout.encoding or "").lower().startswith("utf"),
    )
    return Result(text, _as_data(usage, total), coloured=True)


def read_usage(
    settings: Settings, session: str | None = None, since: float | None = None
) -> list[SessionUsage]:
    """Return the usage of one session or of all, begun since then.

    Raises SnapshotError and CommandError.
    """
    import sqlite3

    from sidecar.config import load_config
    from sidecar.usage import begun_since, judge_sessions
    from snapshots.ledger import read_steps

    file = settings.ledger_file
    try:
        everything = read_steps(file)
    except sqlite3.Error as error:
        raise CommandError(
            "unreadable_ledger",
            f"The usage ledger {file} can't be read ({error}). Move it away to begin a new one.",
        ) from error
    minutes = load_config(settings.config_folders).config.cache_minutes
    usage = begun_since(judge_sessions(everything, minutes * 60), since or 0)
    return [each for each in usage if session in (None, each.session_id)]


def _as_data(usage: list[SessionUsage], total: Sum) -> dict[str, object]:
    import msgspec

    return {
        "sessions": [
            {
                "session_id": session.session_id,
                "parent_id": session.parent_id,
                "began_at": session.began_at,
                **msgspec.to_builtins(session.sum),
                "steps": [
                    {**msgspec.to_builtins(each.step), "verdict": each.verdict}
                    for each in session.judged
                ],
            }
            for session in usage
        ],
        "total": msgspec.to_builtins(total),
    }


def _moment(text: str) -> float:
    """Return seconds since 1970."""
    if ago := re.fullmatch(r"(\d{1,6})([mhdw])", text):
        return time.time() - int(ago[1]) * _SECONDS[ago[2]]
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither an age such as 7d nor a date such as 2026-12-01"
        ) from None


def _uses_colour() -> bool:
    """Whether stdout is a terminal whose user wants colour (no-color.org)."""
    import sys

    from sidecar.settings import process_variables

    variables = process_variables()
    return sys.stdout.isatty() and not variables.get("NO_COLOR") and variables.get("TERM") != "dumb"
