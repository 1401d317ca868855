"""A session's first request makes its snapshot durable, and costs little more than that."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from .figure import Figure, ratios
from .place import Place, sessions

SIZE = 5_000
IN_ONE_BLOCK = 20
IN_TURN = 12
"""Blocks of each side, more than usual: of requests that wait so often, few wait for their own."""
PAUSE = 10
"""Milliseconds before each one: sessions don't begin back to back."""
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
    name = "first request{}, to a bare aiohttp application that writes as much durably"
    for others, where in ((0, ""), (MANY, f", beside {MANY:,} others")):
        with Place() as place:
            yield Figure(5, name.format(where), _ratios(place, others), BOUND)


def _ratios(place: Place, others: int) -> list[float]:
    place.sidecar()
    driver = place.driver("hook.mjs")
    project = place.project(SIZE)
    place.load_shim(driver, "ours", project)
    text = driver.send("text", name="ours", session="ses_warm")
    folder = place.settings.snapshot_folder
    for session in sessions(others, "other_"):
        (folder / f"{session}.xml").touch()
    place.load_shim(driver, "bare", project, place.bare("bare", text, folder).data)
    numbers = count()

    def first(name: str) -> list[float]:
        asked = sessions(IN_ONE_BLOCK, f"{next(numbers)}_")
        paced = {"calls": IN_ONE_BLOCK, "pause": PAUSE}
        return driver.send("time", name=name, sessions=asked, **paced)

    return ratios(lambda: first("ours"), lambda: first("bare"), blocks=IN_TURN)
