"""Where this user's snapshots are, put together."""

from concurrent.futures import ThreadPoolExecutor

from sidecar.settings import Settings
from snapshots.folder import SnapshotFolder
from snapshots.origins import OriginIndex
from snapshots.sessions import SnapshotStore


def open_store(settings: Settings) -> SnapshotStore:
    """Return the store of this user's snapshots; touches no file yet."""
    # A session's first answer need not wait for a file that only a fork of it will look for.
    later = ThreadPoolExecutor(max_workers=1, thread_name_prefix="origins").submit
    return SnapshotStore(
        SnapshotFolder(settings.snapshot_folder), OriginIndex(settings.origin_folder, later)
    )
