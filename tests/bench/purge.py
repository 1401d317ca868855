"""A purge is one scan of the folder, and nobody waits for it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import suppress
from pathlib import Path
from statistics import quantiles
from typing import Any

from sidecar.sessions import Sessions
from sidecar.store import open_store
from sidecar.sweep import GRACE, Sweeper
from snapshots.expiry import MAX_AGE

from .figure import REPEATS, Figure, undisturbed
from .place import Place, sessions

FILES = 20_000
IN_TURN = 3
"""Purges of each side in one repeat."""
TICK = 0.001

Side = Callable[[], Awaitable[tuple[float, float]]]


def figures() -> Iterator[Figure]:
    for what, age, scan in (
        ("none is over, to a scan", 0, _scan),
        ("all are over, to a scan that removes", MAX_AGE + 1, _scan_and_remove),
    ):
        with Place() as place:
            ratios, waits = asyncio.run(_compare(place, age, scan))
        yield Figure(6, f"purge of {FILES:,} snapshots of which {what}", ratios, 1.5)
        name = "how much longer than that it makes others wait (99th percentile)"
        yield Figure(6, name, waits, 5.0, " ms")


async def _compare(
    place: Place, age: float, scan: Callable[[Path], None]
) -> tuple[list[float], list[float]]:
    """Of each repeat the ratio of the times, and by how much our long waits are longer."""
    sessions_of_ours = Sessions(open_store(place.settings))
    folder = place.settings.snapshot_folder
    folder.mkdir(parents=True, mode=0o700)

    async def bare() -> tuple[float, float]:
        _fill(folder, age)
        return await _timed(asyncio.to_thread(scan, folder))

    async def ours() -> tuple[float, float]:
        _fill(folder, age)
        sweeper = Sweeper(sessions_of_ours)
        await sweeper.sweep(time.time(), 0)  # what it finds to be over, it keeps for a while
        return await _timed(sweeper.sweep(time.time(), GRACE))

    ratios, waits = [], []
    for _ in range(REPEATS):
        found: dict[Side, list[tuple[float, float]]] = {ours: [], bare: []}
        for block in range(IN_TURN):
            # In turn, since what was done before may still be under way on the disk.
            for side in (ours, bare) if block % 2 == 0 else (bare, ours):
                found[side].append(await side())
        took, wait = map(undisturbed, zip(*found[ours], strict=True))
        bare_took, bare_wait = map(undisturbed, zip(*found[bare], strict=True))
        ratios.append(took / bare_took)
        waits.append(wait - bare_wait)
    return ratios, waits


async def _timed(work: Coroutine[Any, Any, object]) -> tuple[float, float]:
    """How many seconds it takes, and the loop's long wait meanwhile."""
    began = time.perf_counter()
    long_wait = await _long_wait(asyncio.create_task(work))
    return time.perf_counter() - began, long_wait


async def _long_wait(work: asyncio.Task[object]) -> float:
    """By how many milliseconds the loop was late while this went on: the 99th percentile.

    The very longest is another process's doing. Some of the rest is a thread's that was made to
    wait while it held the interpreter, which happens to a bare scan as well.
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
