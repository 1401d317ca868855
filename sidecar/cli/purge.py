"""`opencode-memory purge`: remove snapshots that were not used for some time."""

from __future__ import annotations

from sidecar.cli.output import CommandError, ExitCode, Result
from sidecar.client import NotRunningError, connect

TYPE_CHECKING = False  # importing typing is slow
if TYPE_CHECKING:
    import argparse

    from sidecar.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """How old, and whether in earnest."""
    parser.add_argument(
        "--older-than",
        type=float,
        default=30.0,
        metavar="DAYS",
        help="days since the last use (default: 30)",
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would be removed")


def run(options: argparse.Namespace, settings: Settings) -> Result:
    """Purge through the sidecar, or on the files if none is running."""
    if not 0 <= options.older_than < float("inf"):
        raise CommandError(
            "usage", "--older-than takes a number of days from 0 on.", exit_code=ExitCode.USAGE
        )
    asked = {"older_than_days": options.older_than, "dry_run": options.dry_run}
    try:
        removed = connect(settings).call("POST", "/v1/purge", asked)["removed"]
    except NotRunningError:
        removed = _purge_files(options, settings)
    verb = "Would remove" if options.dry_run else "Removed"
    count = len(removed)
    return Result(
        f"{verb} {count} snapshot{'' if count == 1 else 's'}.",
        {"removed": removed, "dry_run": options.dry_run},
    )


def _purge_files(options: argparse.Namespace, settings: Settings) -> list[str]:
    import time

    from snapshots.expiry import purge
    from snapshots.folder import SnapshotFolder

    done = purge(
        SnapshotFolder(settings.snapshot_folder),
        time.time(),
        max_age=options.older_than * 86_400,
        dry_run=options.dry_run,
    )
    return list(done.removed)
