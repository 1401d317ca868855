"""The real sidecar with its calls counted: `python -m tests.bench.counted FILE serve`.

On SIGUSR1 it writes the counts since the last time into FILE, as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

counts: Counter[str] = Counter()


def count_opens(event: str, _arguments: object) -> None:
    if event == "open":
        counts["open"] += 1


def count_calls(frame: FrameType, event: str, called: Any) -> None:
    if event == "call" and frame.f_code.co_filename == json.encoder.__file__:
        counts["encode"] += 1
    elif event == "c_return" and called.__name__ == "_accept":
        counts["accept"] += 1
    elif event == "c_call":
        module = called.__module__ or type(called.__self__).__module__
        if module.startswith("msgspec") and "encode" in called.__name__:
            counts["encode"] += 1
        elif module.startswith(("_hashlib", "_sha", "_blake", "_md5")):
            counts["hash"] += 1


def counting_fsync(descriptor: int, fsync: Any = os.fsync) -> None:
    is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
    counts["fsync of a folder" if is_folder else "fsync of a file"] += 1
    fsync(descriptor)


def report(file: Path) -> None:
    so_far = dict(counts)  # before this report counts itself
    temporary = file.with_suffix(".tmp")
    temporary.write_text(json.dumps(so_far))
    temporary.replace(file)
    counts.clear()


def main(file: str, *arguments: str) -> int:
    signal.signal(signal.SIGUSR1, lambda *_: report(Path(file)))
    os.fsync = counting_fsync
    sys.addaudithook(count_opens)
    threading.setprofile(count_calls)
    sys.setprofile(count_calls)
    from sidecar.cli import main as sidecar

    return sidecar(list(arguments))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
