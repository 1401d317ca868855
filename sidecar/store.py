"""Where this user's snapshots are, put together."""

from sidecar.settings import Settings
from snapshots.folder import SnapshotFolder
from snapshots.origins import OriginIndex
from snapshots.sessions import SnapshotStore


def open_store(settings: Settings) -> SnapshotStore:
    """Return the store of this user's snapshots; touches no file yet."""
    return SnapshotStore(
        SnapshotFolder(settings.snapshot_folder), OriginIndex(settings.origin_folder)
    )
