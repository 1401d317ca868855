"""`opencode-memory serve`: the sidecar itself, in the foreground."""

from __future__ import annotations

import sys

from sidecar.cli.output import Result

TYPE_CHECKING = False  # importing typing is slow
if TYPE_CHECKING:
    import argparse

    from sidecar.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """How it is reached."""
    parser.add_argument(
        "--transport",
        choices=("unix", "tcp"),
        default="tcp" if sys.platform == "win32" else "unix",
        help="listen on a unix socket, or on 127.0.0.1 with a token "
        "(default: unix, and tcp on Windows)",
    )


def run(options: argparse.Namespace, settings: Settings) -> Result:
    """Serve until a signal or `stop` ends it, if no other sidecar does."""
    from sidecar.lock import AlreadyRunningError, sole_owner
    from snapshots.atomic import make_private_folder

    make_private_folder(settings.data_folder)
    try:
        with sole_owner(settings.lock_file):
            _serve(settings, options.transport)
    except AlreadyRunningError:
        return Result("The sidecar is already running.", {"already_running": True})
    return Result("", {"already_running": False})


def _serve(settings: Settings, transport: str) -> None:
    # Imported by the owner alone: of twenty started at once, nineteen must cost next to nothing.
    import logging

    from sidecar.server import serve

    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    serve(settings, transport)
