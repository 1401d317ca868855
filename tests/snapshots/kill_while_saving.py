"""Kills itself, round by round, at every line that saving a snapshot runs; prints what is left.

A script of its own, so that it can fork: FOLDER ROUNDS.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from snapshots.folder import SnapshotFolder
from snapshots.metadata import decode
from snapshots.origins import OriginIndex
from snapshots.sessions import SnapshotStore

SESSION = "ses_killed"
OLD, NEW = "old " * 50_000, "new " * 50_000


def open_store(folder: SnapshotFolder) -> SnapshotStore:
    return SnapshotStore(folder, OriginIndex(folder.path.parent / "origins"))


def save_until_line(store: SnapshotStore, epoch: str, text: str, last_line: int) -> None:
    """Save, and die at the given line; with 0, save and live."""
    lines = 0

    def count(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal lines
        file = Path(frame.f_code.co_filename)
        if file.parent.name != "snapshots" and "pathlib" not in str(file):
            return None
        if event == "line":
            lines += 1
            if lines == last_line:
                os.kill(os.getpid(), signal.SIGKILL)
        return count

    sys.settrace(count)
    store.obtain(SESSION, epoch, lambda _: text, now=1.0)
    sys.settrace(None)


def one_round(folder: SnapshotFolder, last_line: int, *, with_old: bool) -> str:
    """Return which snapshot is there after a child died while it saved a new one."""
    folder.path.mkdir(exist_ok=True)
    for entry in folder.path.iterdir():
        entry.unlink()
    if with_old:
        open_store(folder).obtain(SESSION, "1", lambda _: OLD, now=1.0)
    child = os.fork()
    if child == 0:
        save_until_line(open_store(folder), "2", NEW, last_line)
        os._exit(0)
    os.waitpid(child, 0)
    file = folder.file_of(SESSION)
    if not file.exists():
        return "absent"
    _, text, _ = decode(file.read_bytes())  # raises if it is torn
    return {OLD: "old", NEW: "new"}[text.decode()]


if __name__ == "__main__":
    snapshot_folder = SnapshotFolder(Path(sys.argv[1]) / "snapshots")
    rounds = int(sys.argv[2])
    # Saving runs some 270 lines with those of pathlib; half the rounds have an old file.
    outcomes = [
        one_round(snapshot_folder, number // 2, with_old=number % 2 == 0)
        for number in range(rounds)
    ]
    print(json.dumps(outcomes))
