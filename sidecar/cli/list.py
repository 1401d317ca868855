"""`opencode-memory list`: which sessions have a snapshot."""

from __future__ import annotations

import time

from sidecar.cli.output import Result
from sidecar.client import NotRunningError, connect
from snapshots.folder import SnapshotFolder, last_used_first

TYPE_CHECKING = False  # importing typing is slow
if TYPE_CHECKING:
    import argparse

    from sidecar.settings import Settings


def add_arguments(_parser: argparse.ArgumentParser) -> None:
    """Takes none."""


def run(_options: argparse.Namespace, settings: Settings) -> Result:
    """List through the sidecar, or from the folder's names and times if none is running."""
    try:
        sessions = connect(settings).call("GET", "/v1/sessions")["sessions"]
    except NotRunningError:
        entries = SnapshotFolder(settings.snapshot_folder).entries()
        sessions = [entry.fields() for entry in last_used_first(entries)]
    lines = [
        f"{session['session_id']}  {_local_time(session['last_used'])}  {session['size']:>9,} bytes"
        for session in sessions
    ]
    return Result("\n".join(lines) or "No session has a snapshot.", {"sessions": sessions})


def _local_time(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
