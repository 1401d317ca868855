"""A session's first request makes its snapshot durable, and costs little more than that."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from statistics import median
from typing import Any

from .figure import REPEATS, Figure
from .place import Place, sessions

SIZE = 5_000
IN_ONE_REPEAT = 40
MANY = 100_000
BOUND = 1.5


def figures() -> Iterator[Figure]:
    with Place() as place:
        sidecar = place.counted_sidecar()
        driver = place.driver("hook.mjs")
        place.load_shim(driver, "ours", place.project(SIZE))
        driver.send("time", name="ours", sessions=sessions(1), calls=1)
        counts = sidecar.counts()
    for kind in ("file", "folder"):
        yield Figure(
            5, f"fsyncs of a {kind} in a first request", [counts[f"fsync of a {kind}"]], 1, "", "="
        )
    for others, where in ((0, ""), (MANY, f", beside {MANY:,} others")):
        with Place() as place:
            yield Figure(
                5,
                f"first request{where}, to a durable write and a hot request",
                _ratios(place, others),
                BOUND,
            )


def _ratios(place: Place, others: int) -> list[float]:
    place.sidecar()
    driver = place.driver("hook.mjs")
    project = place.project(SIZE)
    place.load_shim(driver, "ours", project)
    driver.send("text", name="ours", session="ses_warm")
    folder = place.settings.snapshot_folder
    for session in sessions(others, "other_"):
        (folder / f"{session}.xml").touch()
    size = (folder / "ses_warm.xml").stat().st_size
    numbers = count()

    def repeat() -> dict[str, Any]:
        asked = sessions(IN_ONE_REPEAT, f"{next(numbers)}_")
        return driver.send("first", name="ours", sessions=asked, folder=str(folder), bytes=size)

    repeat()
    return [_ratio(repeat()) for _ in range(REPEATS)]


def _ratio(samples: dict[str, list[float]]) -> float:
    return median(samples["first"]) / (median(samples["write"]) + median(samples["hot"]))
