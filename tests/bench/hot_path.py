"""What a thousand requests in mid-session do beside answering, counted in the real sidecar."""

from __future__ import annotations

from collections.abc import Iterator

from ..process import until
from .figure import Figure
from .hook_time import MORE_THAN_THE_SHIM_HOLDS
from .place import Place, sessions

REQUESTS = 1_000
NEVER = ("open", "fsync of a file", "fsync of a folder", "encode", "hash")


def figures() -> Iterator[Figure]:
    with Place() as place:
        sidecar = place.counted_sidecar()
        project, asked = place.project(5_000), sessions(MORE_THAN_THE_SHIM_HOLDS)
        before = place.driver("hook.mjs")
        place.load_shim(before, "ours", project)
        before.send("time", name="ours", sessions=asked, calls=len(asked))
        made = sidecar.counts()
        assert all(made[name] for name in NEVER), f"the counters miss what must be there: {made}"
        until(lambda: not sidecar.counts(), "the work behind the first requests to end")

        driver = place.driver("hook.mjs")
        place.load_shim(driver, "ours", project)
        with_text = REQUESTS // 2
        driver.send("time", name="ours", sessions=asked, calls=with_text)
        driver.send("time", name="ours", sessions=asked[:1], calls=REQUESTS - with_text)
        counts = sidecar.counts()
    yield Figure(4, "connections for 1,000 requests", [counts.get("accept", 0)], 1, "", "=")
    others = sum(counts.get(name, 0) for name in NEVER)
    yield Figure(4, "opens, fsyncs, JSON encodings and hashes in them", [others], 0, "", "=")
