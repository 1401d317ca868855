"""The hook against a bare echo of the same text, through the same client."""

from __future__ import annotations

from collections.abc import Iterator

from .figure import Figure, ratios
from .place import Place, sessions

CALLS = 40
MORE_THAN_THE_SHIM_HOLDS = 300
"""With so many sessions in turn the shim has forgotten each one's text when its turn comes."""


def figures() -> Iterator[Figure]:
    with Place() as place:
        place.sidecar()
        driver = place.driver("hook.mjs")
        many = sessions(MORE_THAN_THE_SHIM_HOLDS)

        def compare(size: int, asked: list[str]) -> list[float]:
            ours, bare = (f"{name}-{size}-{len(asked)}" for name in ("ours", "bare"))
            project = place.project(size)
            place.load_shim(driver, ours, project)
            text = driver.send("text", name=ours, session=asked[0])
            place.load_shim(driver, bare, project, place.bare(bare, text).data)
            # What is compared is sessions that go on.
            driver.send("time", name=ours, sessions=asked, calls=len(asked))
            return ratios(
                lambda: driver.send("time", name=ours, sessions=asked, calls=CALLS),
                lambda: driver.send("time", name=bare, sessions=asked, calls=CALLS),
            )

        for size, text in ((5_000, "5 KB"), (50_000, "50 KB")):
            name = f"hook with a text of {text}, to a bare aiohttp echo of it"
            yield Figure(1, name, compare(size, many), 1.25)
        name = "hook whose text is unchanged (304), to a bare aiohttp that says the same"
        yield Figure(1, name, compare(6_000, sessions(1, "one")), 1.25)
