"""The sidecar in the background: start it, end it, ask how it is."""

from __future__ import annotations

import contextlib
import time

from sidecar.client import NotRunningError, SidecarError, connect

TYPE_CHECKING = False  # importing typing is slow
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

    from sidecar.settings import Settings

HEALTH_SECONDS = 2.0
"""How long a sidecar may take to say that it is there; it takes a millisecond."""
START_SECONDS = 15.0
STOP_SECONDS = 10.0
_POLL_SECONDS = 0.02


class BackgroundError(Exception):
    """A sidecar that did not start or did not end; the message says what to do."""


def running(settings: Settings) -> dict[str, Any] | None:
    """Return the running sidecar's health, or None if none answers."""
    try:
        return connect(settings, HEALTH_SECONDS).call("GET", "/v1/health")
    except (NotRunningError, SidecarError):
        return None


def start(settings: Settings) -> dict[str, Any]:
    """Start the sidecar, wait until it answers, and return its health.

    Raises BackgroundError.
    """
    from sidecar.settings import log_file

    log = log_file()
    process = _spawn(log)
    _wait_until(
        lambda: running(settings), START_SECONDS, hopeless=lambda: process.poll() not in (None, 0)
    )
    if (health := running(settings)) is None:
        raise BackgroundError(f"The sidecar did not start; its log says why: {log}")
    return health


def stop(settings: Settings, health: dict[str, Any]) -> None:
    """Ask this running instance to end, by its name, and wait until it is gone.

    Raises BackgroundError.
    """
    instance = health["instance"]
    with contextlib.suppress(NotRunningError):  # if it ended by itself meanwhile
        connect(settings).call("POST", "/v1/stop", {"instance": instance})
    if not _wait_until(lambda: _has_ended(settings, instance), STOP_SECONDS):
        raise BackgroundError(
            f"{describe(health)} was asked to stop and is still there. Try again."
        )


def make_way(settings: Settings) -> None:
    """End a sidecar that runs without the service manager: there is one at a time.

    Raises BackgroundError.
    """
    if health := running(settings):
        stop(settings, health)


def describe(health: dict[str, Any]) -> str:
    """Return one sidecar's name for people."""
    return f"sidecar {health['version']} {health['instance']} (process {health['pid']})"


def _has_ended(settings: Settings, instance: str) -> bool:
    from sidecar.lock import has_owner

    health = running(settings)
    if health is not None:
        return bool(health["instance"] != instance)
    return not has_owner(settings.lock_file)  # it stops answering before it is gone


def _spawn(log: Path) -> subprocess.Popen[bytes]:
    """Start `serve` in a session of its own, so that it outlives this terminal."""
    import os
    import subprocess

    from sidecar.launcher import background_command
    from snapshots.atomic import make_private_folder

    make_private_folder(log.parent)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        return subprocess.Popen(
            background_command(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=descriptor,
            start_new_session=True,
        )
    finally:
        os.close(descriptor)


def _wait_until(
    done: Callable[[], object], seconds: float, hopeless: Callable[[], bool] = lambda: False
) -> bool:
    deadline = time.monotonic() + seconds
    while not done():
        if hopeless() or time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True
