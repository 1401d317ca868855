"""`opencode-memory clear`: forget snapshots, so that the next request renders anew."""

from __future__ import annotations

from sidecar.cli.output import CommandError, ExitCode, Result
from sidecar.client import NotRunningError, connect
from snapshots.folder import SnapshotFolder

TYPE_CHECKING = False  # importing typing is slow
if TYPE_CHECKING:
    import argparse

    from sidecar.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which sessions."""
    parser.add_argument("sessions", nargs="*", metavar="SESSION", help="a session's id")
    parser.add_argument("--all", action="store_true", help="every session")


def run(options: argparse.Namespace, settings: Settings) -> Result:
    """Clear through the sidecar, or on the files if none is running."""
    if bool(options.sessions) == options.all:
        raise CommandError(
            "usage", "Name the sessions to clear, or say --all.", exit_code=ExitCode.USAGE
        )
    folder = SnapshotFolder(settings.snapshot_folder)
    for session_id in options.sessions:
        folder.file_of(session_id)  # before anything is cleared, all of them have to be ids
    try:
        cleared = _clear_through_sidecar(options.sessions, settings)
    except NotRunningError:
        cleared = _clear_files(options.sessions, folder)
    without = [session_id for session_id in options.sessions if session_id not in cleared]
    lines = [f"Cleared {session_id}." for session_id in cleared]
    lines += [f"{session_id} had no snapshot." for session_id in without]
    return Result(
        "\n".join(lines) or "There was no snapshot to clear.",
        {"cleared": cleared, "without_snapshot": without},
    )


def _clear_through_sidecar(session_ids: list[str], settings: Settings) -> list[str]:
    client = connect(settings)
    paths = [f"/v1/sessions/{session_id}" for session_id in session_ids] or ["/v1/sessions"]
    cleared: list[str] = []
    for path in paths:
        cleared += client.call("DELETE", path)["cleared"]
    return cleared


def _clear_files(session_ids: list[str], folder: SnapshotFolder) -> list[str]:
    if not session_ids:
        session_ids = sorted(entry.session_id for entry in folder.entries() if entry.session_id)
    return [session_id for session_id in session_ids if folder.remove(session_id)]
