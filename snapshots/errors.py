"""What can go wrong with blocks and snapshots, each with a code that stays the same."""

from errno import EMFILE, ENFILE, ENOMEM


class SnapshotError(Exception):
    """Root of this package's errors. The message says what, where, and what to do."""

    code = "snapshot_error"


class InvalidSessionIdError(SnapshotError):
    """A session id that OpenCode can't have made; it never becomes a file name."""

    code = "invalid_session_id"


class ExhaustedError(SnapshotError):
    """The system has nothing left to open a file with: it says nothing of the file, and passes."""

    code = "exhausted"


def raise_if_exhausted(error: OSError) -> None:
    """Keep what will pass from being frozen as what is. Raises ExhaustedError."""
    if error.errno in (EMFILE, ENFILE, ENOMEM):
        raise ExhaustedError(
            "The system has no file descriptors or memory left for the sidecar. Nothing was "
            "decided; the next request tries again."
        ) from error
