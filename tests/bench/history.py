"""The hook must cost the same however long the conversation is: the history is not sent."""

from __future__ import annotations

import socket
from collections.abc import Iterator

from ..shim.stub import Request, Sidecar, honest, publish
from .figure import Figure, ratios
from .place import Place, sessions

SHORT, LONG = 1_000, 4_000_000
CALLS = 20


def figures() -> Iterator[Figure]:
    with Place() as place:
        place.sidecar()
        driver = place.driver("hook.mjs")
        place.load_shim(driver, "ours", place.project(5_000))

        def side(size: int) -> list[float]:
            asked = sessions(1)
            return driver.send("time", name="ours", sessions=asked, calls=CALLS, bytes=size)

        name = "hook with 4 MB of history, to 1 KB"
        yield Figure(2, name, ratios(lambda: side(LONG), lambda: side(SHORT)), 1.15)
        yield Figure(
            2,
            "its request with 4 MB of history, to that with 1 KB",
            [_added(place)],
            64,
            " bytes more",
        )


def _added(place: Place) -> float:
    """By how many bytes a session's requests, the first and the next, are longer."""
    address = place.path / "stub.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(address))
        listener.listen()
        stub = Sidecar(listener)
        stub.answer = honest()
        publish(place.path / "stub", socket=str(address))
        driver = place.driver("hook.mjs")
        place.load_shim(driver, "stub", place.path, place.path / "stub/data")
        for session, size in zip(sessions(2), (SHORT, LONG), strict=True):
            driver.send("time", name="stub", sessions=[session], calls=2, bytes=size)
        stub.stop()
    short, long = stub.requests[:2], stub.requests[2:]
    return max(abs(_length(b) - _length(a)) for a, b in zip(short, long, strict=True))


def _length(request: Request) -> int:
    return len(request.raw)
