"""A purge is one scan of the folder, and nobody waits for it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from statistics import quantiles

from sidecar.sessions import Sessions
from sidecar.store import open_store
from sidecar.sweep import GRACE, Sweeper
from snapshots.expiry import MAX_AGE

from .figure import REPEATS, Figure
from .place import Place, sessions

FILES = 20_000
TICK = 0.001


def figures() -> Iterator[Figure]:
    for what, age, scan in (
        ("none is over, to a scan", 0, _scan),
        ("all are over, to a scan that removes", MAX_AGE + 1, _scan_and_remove),
    ):
        with Place() as place:
            ratios, waits = asyncio.run(_compare(place, age, scan))
        yield Figure(6, f"purge of {FILES:,} snapshots of which {what}", ratios, 1.5)
        yield Figure(6, "how long it makes others wait (99th percentile)", waits, 5.0, " ms")


async def _compare(
    place: Place, age: float, scan: Callable[[Path], None]
) -> tuple[list[float], list[float]]:
    """Of each repeat the ratio of the times, and the long waits beyond those of an idle loop."""
    ours = Sessions(open_store(place.settings))
    folder = place.settings.snapshot_folder
    folder.mkdir(parents=True, mode=0o700)
    ratios, waits = [], []
    for _ in range(REPEATS):
        _fill(folder, age)
        began = time.perf_counter()
        scan(folder)
        bare = time.perf_counter() - began
        _fill(folder, age)
        sweeper = Sweeper(ours)
        await sweeper.sweep(time.time(), 0)  # what it finds to be over, it keeps for a while
        began = time.perf_counter()
        busy = await _long_wait(asyncio.create_task(sweeper.sweep(time.time(), GRACE)))
        took = time.perf_counter() - began
        idle = await _long_wait(asyncio.create_task(asyncio.sleep(took)))
        ratios.append(took / bare)
        waits.append(busy - idle)
    return ratios, waits


async def _long_wait(work: asyncio.Task[object]) -> float:
    """By how many milliseconds the loop was late while this went on: the 99th percentile.

    The very longest is another process's doing.
    """
    late = []
    while not work.done():
        due = time.perf_counter() + TICK
        await asyncio.sleep(TICK)
        late.append(1_000 * (time.perf_counter() - due))
    await work
    return quantiles(late, n=100)[-1]


def _fill(folder: Path, age: float) -> None:
    """Snapshots last used so long ago: links to one file, since a purge looks at no content."""
    one = folder / "one"
    one.touch()
    os.utime(one, (time.time() - age,) * 2)
    for session in sessions(FILES):
        with suppress(FileExistsError):
            os.link(one, folder / f"{session}.xml")


def _scan(folder: Path) -> None:
    with os.scandir(folder) as found:
        for item in found:
            item.stat(follow_symlinks=False)


def _scan_and_remove(folder: Path) -> None:
    with os.scandir(folder) as found:
        for item in found:
            item.stat(follow_symlinks=False)
            os.unlink(item.path)  # noqa: PTH108 - the bare call is what it is compared with
