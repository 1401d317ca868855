"""Which snapshots are over, and when the next one will be."""

import os
from collections.abc import Callable

import msgspec

from snapshots.folder import Entry, SnapshotFolder

MAX_AGE = 30 * 86_400
"""Seconds since the last use after which a snapshot is over."""


class Purge(msgspec.Struct, frozen=True, kw_only=True):
    """What a purge removed (or would have), and when the next file will be due.

    `removed` are session ids, sorted. `next_due` is in seconds since 1970, None with no file left.
    """

    removed: tuple[str, ...]
    next_due: float | None


def purge(
    folder: SnapshotFolder,
    now: float,
    *,
    max_age: float = MAX_AGE,
    is_live: Callable[[str], bool] = lambda _session_id: False,
    dry_run: bool = False,
) -> Purge:
    """Remove what was not used for `max_age` seconds, and debris of that age; never what is live.

    `is_live` is asked only of what would go. Looks at names and times only: costs one scan of the
    folder. A file that can't be removed is left for the next time.
    """
    over, next_used = folder.used_before(now - max_age)
    dues = [] if next_used is None else [next_used + max_age]
    removed = []
    for entry in over:
        if entry.session_id is not None and is_live(entry.session_id):
            dues.append(now + max_age)
        elif dry_run or _remove(entry):
            removed += [entry.session_id] if entry.session_id else []
    return Purge(removed=tuple(sorted(removed)), next_due=min(dues, default=None))


def _remove(entry: Entry) -> bool:
    try:
        os.unlink(entry.path)  # noqa: PTH108 - a string
    except OSError:
        return False
    return True
