"""What a sidecar takes that nobody uses, and what many sessions take. Only Linux tells exactly."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from .figure import Figure
from .place import Place, sessions

REPEATS = 5
SETTLING = 2.0
"""Seconds, for what goes on behind a session's first answer."""
WINDOW = 8.0
WARM, SESSIONS = 100, 1_000
TEXT = 20_000


def figures() -> Iterator[Figure]:
    if sys.platform != "linux":
        return
    wakeups, idle, added = [], [], []
    for repeat in range(REPEATS):
        with Place() as place:
            sidecar = place.sidecar()
            bare = place.bare("bare", "text").child
            idle.append(_memory(sidecar.pid) / _memory(bare.pid))
            driver = place.driver("hook.mjs")
            place.load_shim(driver, "ours", place.project(TEXT))
            text = driver.send("text", name="ours", session="ses_a")
            if repeat == 0:
                time.sleep(SETTLING)
                before = _switches(sidecar.pid)
                time.sleep(WINDOW)  # what is counted is that nothing happens
                wakeups.append(_switches(sidecar.pid) - before)
            # The first hundred make the threads and fill the interpreter's own caches.
            driver.send("time", name="ours", sessions=sessions(WARM, "warm_"), calls=WARM)
            before = _memory(sidecar.pid)
            driver.send("time", name="ours", sessions=sessions(SESSIONS), calls=SESSIONS)
            payload = SESSIONS * len(text.encode())
            added.append((_memory(sidecar.pid) - before) / payload)
    yield Figure(7, f"wake-ups in {WINDOW:.0f} idle seconds, connected", wakeups, 0, "", "=")
    yield Figure(7, "memory when idle, to the plain application", idle, 1.15)
    name = f"memory for {SESSIONS:,} more sessions of 20 KB, to the size of their texts"
    yield Figure(7, name, added, 1.15)


def _memory(pid: int) -> int:
    """Resident bytes."""
    return 1_024 * int(re.search(r"VmRSS:\s+(\d+) kB", _status(Path(f"/proc/{pid}")))[1])


def _switches(pid: int) -> int:
    """How often its threads have waited for something."""
    pattern = r"^voluntary_ctxt_switches:\s+(\d+)"
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int(re.search(pattern, _status(thread), re.M)[1]) for thread in threads)


def _status(process: Path) -> str:
    return (process / "status").read_text()
