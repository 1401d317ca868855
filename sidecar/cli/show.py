"""`opencode-memory show`: exactly what a session's requests begin with."""

from __future__ import annotations

from sidecar.cli.output import CommandError, Result
from sidecar.client import NotRunningError, connect

TYPE_CHECKING = False  # importing typing is slow
if TYPE_CHECKING:
    import argparse

    from sidecar.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which session, and which part of its snapshot."""
    parser.add_argument("session", metavar="SESSION", help="the session's id")
    parser.add_argument("--meta", action="store_true", help="print the snapshot's metadata instead")


def run(options: argparse.Namespace, settings: Settings) -> Result:
    """Show through the sidecar, or from the file if none is running."""
    try:
        shown = connect(settings).call("GET", f"/v1/sessions/{options.session}")
    except NotRunningError:
        shown = _show_file(options.session, settings)
    if not options.meta:
        return Result(str(shown["text"]), shown)
    metadata: dict[str, object] = shown["metadata"]
    lines = [f"{name}: {value}" for name, value in metadata.items()]
    return Result("\n".join(lines), {"metadata": metadata})


def _show_file(session_id: str, settings: Settings) -> dict[str, object]:
    import time

    import msgspec

    from sidecar.store import open_store

    store = open_store(settings)
    snapshot = store.show(session_id, time.time())
    if snapshot is None:
        raise CommandError(
            "session_not_found",
            f"{session_id} has no snapshot. `opencode-memory list` shows those that have one.",
        )
    return {
        "metadata": msgspec.to_builtins(snapshot.metadata),
        "text": snapshot.text.decode(),
    }
