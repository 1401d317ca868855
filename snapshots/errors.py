"""What can go wrong with blocks and snapshots, each with a code that stays the same."""


class SnapshotError(Exception):
    """Root of this package's errors. The message says what, where, and what to do."""

    code = "snapshot_error"


class InvalidSessionIdError(SnapshotError):
    """A session id that OpenCode can't have made; it never becomes a file name."""

    code = "invalid_session_id"
