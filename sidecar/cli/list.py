"""`opencode-memory list`: which sessions have a snapshot."""

from __future__ import annotations

import time

from sidecar.cli.output import Result
from snapshots.folder import SnapshotFolder

TYPE_CHECKING = False  # importing typing is slow
if TYPE_CHECKING:
    import argparse

    from sidecar.settings import Settings


def add_arguments(_parser: argparse.ArgumentParser) -> None:
    """Takes none."""


def run(_options: argparse.Namespace, settings: Settings) -> Result:
    """List from the folder's names and times."""
    entries = [
        entry for entry in SnapshotFolder(settings.snapshot_folder).entries() if entry.session_id
    ]
    entries.sort(key=lambda entry: (-entry.last_used, entry.session_id))
    data = [
        {"session_id": entry.session_id, "size": entry.size, "last_used": entry.last_used}
        for entry in entries
    ]
    lines = [
        f"{entry.session_id}  {_local_time(entry.last_used)}  {entry.size:>9,} bytes"
        for entry in entries
    ]
    return Result("\n".join(lines) or "No session has a snapshot.", {"sessions": data})


def _local_time(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
