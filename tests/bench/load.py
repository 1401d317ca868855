"""Many clients at once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from .figure import Figure, ratios
from .place import Place

CLIENTS = 64
BURST = 256
BURSTS = 5
MILLISECONDS = 400
IN_TURN = 6


def figures() -> Iterator[Figure]:
    with Place() as place:
        place.sidecar()
        project = place.project(5_000)
        hook = place.driver("hook.mjs")
        place.load_shim(hook, "ours", project)
        text = hook.send("text", name="ours", session="ses_a")
        hook.close()
        ours, bare = place.published["socket"], place.bare("bare", text).address
        request, driver = _request(project), place.driver("load.mjs")

        def load(address: str) -> list[float]:
            options = {"clients": CLIENTS, "milliseconds": MILLISECONDS}
            return [driver.send("load", address=address, request=request, **options)]

        # Of times the other way round, so of rates.
        found = ratios(lambda: load(bare), lambda: load(ours), blocks=IN_TURN)
        name = f"requests per second of {CLIENTS} clients, to a bare aiohttp echo"
        yield Figure(8, name, found, 0.80, sign="≥")
        failed = [
            driver.send("burst", address=ours, request=request, clients=BURST)
            for _ in range(BURSTS)
        ]
        yield Figure(8, f"failures of {BURST} connections at once", [max(failed)], 0, "", "=")


def _request(project: Path) -> str:
    """What the shim sends for a session that has its snapshot, whose text it has not."""
    asked = {
        "session_id": "ses_a",
        "epoch": "initial",
        "directory": str(project),
        "config_directories": [str(project)],
    }
    body = json.dumps(asked)
    lines = [
        "POST /v1/snapshot HTTP/1.1",
        "Host: localhost",
        "Memory-Protocol: 1",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join([*lines, "", body])
