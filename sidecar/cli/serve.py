"""`opencode-memory serve`: the sidecar itself, in the foreground."""

from __future__ import annotations

import gc
import sys
import time

from sidecar.cli.output import CommandError, Result

TYPE_CHECKING = False  # importing typing is slow
if TYPE_CHECKING:
    import argparse
    import logging
    from io import TextIOWrapper

    from sidecar.settings import Settings


MAX_LOG = 1024 * 1024
"""Bytes of a log file before it is put aside as the one before; two are kept."""

TAKEOVER_SECONDS = 5.0
"""How long the next one waits for one that is ending: its last requests have two seconds."""
_POLL_SECONDS = 0.05


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """How it is reached."""
    parser.add_argument(
        "--transport",
        choices=("unix", "tcp"),
        default="tcp" if sys.platform == "win32" else "unix",
        help="listen on a unix socket, or on 127.0.0.1 with a token "
        "(default: unix, and tcp on Windows)",
    )
    parser.add_argument(
        "--background",
        action="store_true",
        help="log to a file, and end after idle_hours without a request (as `start` does)",
    )
    parser.add_argument(
        "--service",
        action="store_true",
        help="as a service manager runs it: end a sidecar that runs without, and stay however idle",
    )


def run(options: argparse.Namespace, settings: Settings) -> Result:
    """Serve until a signal or `stop` ends it, if no other sidecar does."""
    gc.disable()  # modules are no garbage, and looking for some takes a seventh of the start

    from sidecar.endpoint import read_endpoint
    from sidecar.lock import AlreadyRunningError, sole_owner
    from sidecar.wake import nudge
    from snapshots.ownership import make_private_folder

    make_private_folder(settings.data_folder)
    if options.service:
        from sidecar.background import make_way

        make_way(settings)
    give_up_at = time.monotonic() + TAKEOVER_SECONDS
    while True:
        try:
            with sole_owner(settings.lock_file):
                handed_over = _serve(settings, options.transport, background=options.background)
            break
        except AlreadyRunningError:
            nudge(settings.wake_file)  # whoever started this one may not have found that one
            # Without an endpoint, it is just starting or ending.
            if not read_endpoint(settings.endpoint_file) and time.monotonic() < give_up_at:
                time.sleep(_POLL_SECONDS)
                continue
            if options.service:  # another was faster; the manager is to try again
                raise CommandError("already_running", "Another sidecar has just started.") from None
            return Result("The sidecar is already running.", {"already_running": True})
    if handed_over and options.service:
        # A failure in the manager's eyes, which starts what is installed now.
        raise CommandError("handed_over", "Ended, for another version to take over.")
    return Result("", {"already_running": False})


def _serve(settings: Settings, transport: str, *, background: bool) -> bool:
    # Imported by the owner alone: of twenty started at once, nineteen must cost next to nothing.
    import logging

    from sidecar.config import load_config
    from sidecar.log import Formatter
    from sidecar.settings import leave_certificates_unread

    read_again = leave_certificates_unread()
    from sidecar.server import serve

    read_again()
    gc.freeze()
    gc.enable()
    to_file = background or sys.stderr is None  # as for a task of Windows
    handler = _rotating_file() if to_file else logging.StreamHandler()
    handler.setFormatter(Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    # What isn't HTTP is refused; a stranger must not fill the log with it.
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)
    if sys.platform != "win32":
        from sidecar.limits import forbid_core_dumps

        forbid_core_dumps()
    idle_hours = load_config(settings.config_folders).config.idle_hours
    return serve(settings, transport, idle_seconds=idle_hours * 3600 if background else 0)


def _rotating_file() -> logging.Handler:
    import os
    from logging.handlers import RotatingFileHandler

    from sidecar.settings import log_file
    from snapshots.ownership import make_private_folder

    class PrivateFile(RotatingFileHandler):
        def _open(self) -> TextIOWrapper:
            return open(
                self.baseFilename,
                "a",
                encoding=self.encoding,
                opener=lambda path, flags: os.open(path, flags, 0o600),
            )

    file = log_file()
    make_private_folder(file.parent)
    return PrivateFile(file, maxBytes=MAX_LOG, backupCount=1, encoding="utf-8")
