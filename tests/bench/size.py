"""How the hook's time grows with the text: little; and not at all once the shim has it."""

from __future__ import annotations

from collections.abc import Iterator

from .figure import Figure, Sampler, ratios
from .hook_time import MORE_THAN_THE_SHIM_HOLDS
from .place import Place, sessions

CALLS = 40


def figures() -> Iterator[Figure]:
    with Place() as place:
        place.sidecar()
        driver = place.driver("hook.mjs")

        def side(size: int, count: int) -> Sampler:
            name = str(size)
            place.load_shim(driver, name, place.project(size))
            asked = sessions(count, f"{size}_")
            driver.send("time", name=name, sessions=asked, calls=count)
            return lambda: driver.send("time", name=name, sessions=asked, calls=CALLS)

        large, none = side(50_000, MORE_THAN_THE_SHIM_HOLDS), side(0, MORE_THAN_THE_SHIM_HOLDS)
        yield Figure(3, "hook with 50 KB, to one without a block", ratios(large, none), 1.6)
        largest, small = side(990_000, 1), side(5_000, 1)
        name = "hook whose text is unchanged (304), 1 MB to 5 KB"
        yield Figure(3, name, ratios(largest, small), 1.15)
