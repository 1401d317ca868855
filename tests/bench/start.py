"""How fast the sidecar and the commands start, beside the least that Python itself needs."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from .figure import Figure, ratios
from .place import BARE, SIDECAR, Place, listens

COMMAND = str(Path(sys.executable).with_name("opencode-memory"))
POLL = 0.001
STARTS = {"repeats": 9, "blocks": 4}
"""A start is one sample, so one repeat has as many of each side."""


def figures() -> Iterator[Figure]:
    with Place() as place:
        once = place.sidecar()
        ours, bare = Path(place.published["socket"]), place.path / "bare.sock"
        once.end()
        yield Figure(
            7,
            "start to listening, to a plain aiohttp and msgspec application",
            ratios(
                lambda: [_until_listening(place, [*SIDECAR, "serve"], ours)],
                lambda: [_until_listening(place, [*BARE, str(bare)], bare)],
                **STARTS,
            ),
            1.0,
        )
        for arguments in (("--help",), ("clear", "ses_a")):
            name = f"`opencode-memory {arguments[0]}`, to `python -c pass`"
            yield Figure(7, name, _command(place, *arguments), 3.0)


def _command(place: Place, *arguments: str) -> list[float]:
    return ratios(
        lambda: [_until_ended(place, COMMAND, *arguments)],
        lambda: [_until_ended(place, sys.executable, "-c", "pass")],
        **STARTS,
    )


def _until_listening(place: Place, command: list[str], address: Path) -> float:
    address.unlink(missing_ok=True)
    began = time.perf_counter()
    child = place.start(command)
    while not listens(address):
        time.sleep(POLL)
    took = time.perf_counter() - began
    child.end()
    return took


def _until_ended(place: Place, *command: str) -> float:
    began = time.perf_counter()
    subprocess.run(command, env=place.env, cwd=place.path, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began
