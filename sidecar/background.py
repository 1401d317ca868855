"""The sidecar in the background: start it, end it, ask how it is."""

from __future__ import annotations

import contextlib
import time

from sidecar.client import HangsError, NotRunningError, SidecarError, connect

TYPE_CHECKING = False  # importing typing is slow
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

    from sidecar.service import Service
    from sidecar.settings import Settings

HEALTH_SECONDS = 2.0
"""How long a sidecar may take to say that it is there; it takes a millisecond."""
START_SECONDS = 15.0
STOP_SECONDS = 10.0
_POLL_SECONDS = 0.02


class BackgroundError(Exception):
    """A sidecar that did not start or did not end; the message says what to do."""


def running(settings: Settings) -> dict[str, Any] | None:
    """Return the running sidecar's health, or None if none is there.

    Raises HangsError for one that is there and does not answer.
    """
    try:
        return connect(settings, HEALTH_SECONDS).call("GET", "/v1/health")
    except HangsError:
        raise
    except (NotRunningError, SidecarError):
        return None


def start(settings: Settings) -> dict[str, Any]:
    """Start the sidecar, wait until it answers, and return its health.

    By its service where there is one; that starts it again if it runs. Raises BackgroundError.
    """
    from sidecar.settings import log_file

    before = _answer(settings)
    if service := _installed_service(settings):
        hopeless, why = _restart(service), "opencode-memory logs"
    else:
        hopeless, why = _spawn(log := log_file()), str(log)

    def started() -> dict[str, Any] | None:
        health = _answer(settings)
        return None if health and before and health["instance"] == before["instance"] else health

    _wait_until(started, START_SECONDS, hopeless)
    if (health := started()) is None:
        raise BackgroundError(f"The sidecar did not start; its log says why: {why}")
    return health


def restart(settings: Settings) -> dict[str, Any]:
    """End the sidecar if it runs, start it, and return its health.

    Raises BackgroundError.
    """
    if not _installed_service(settings):
        make_way(settings)
    return start(settings)


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

    health = _answer(settings)
    if health is not None:
        return bool(health["instance"] != instance)
    return not has_owner(settings.lock_file)  # it stops answering before it is gone


def _answer(settings: Settings) -> dict[str, Any] | None:
    try:
        return running(settings)
    except HangsError:
        return None  # it may be a busy machine; the caller asks again


def _installed_service(settings: Settings) -> Service | None:
    from sidecar.service import NoServiceManagerError, installed_service

    try:
        return installed_service(settings)
    except NoServiceManagerError:
        return None  # a home that was made elsewhere and is mounted in a container


def _restart(service: Service) -> Callable[[], bool]:
    """Have the service manager start it, and return whether all is lost: if so, that was raised."""
    from sidecar.service import ServiceError

    try:
        service.restart()
    except ServiceError as error:
        raise BackgroundError(f"The service did not start: {error}") from error
    return lambda: False


def _spawn(log: Path) -> Callable[[], bool]:
    """Start `serve` in a session of its own, so that it outlives this terminal.

    Returns whether it has failed by now.
    """
    import os
    import subprocess

    from sidecar.launcher import background_command
    from snapshots.atomic import make_private_folder

    make_private_folder(log.parent)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        process = subprocess.Popen(
            background_command(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=descriptor,
            start_new_session=True,
        )
    finally:
        os.close(descriptor)
    return lambda: process.poll() not in (None, 0)


def _wait_until(
    done: Callable[[], object], seconds: float, hopeless: Callable[[], bool] = lambda: False
) -> bool:
    deadline = time.monotonic() + seconds
    while not done():
        if hopeless() or time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True
