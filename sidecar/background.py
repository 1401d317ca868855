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
    except (NotRunningError, SidecarError):
        return None


def start(settings: Settings) -> dict[str, Any]:
    """Start the sidecar, wait until it answers, and return its health.

    By its service where there is one, which ends one that hangs or runs first. Raises HangsError
    where there is none, and BackgroundError.
    """
    from sidecar.settings import log_file

    service = _installed_service(settings)
    before = answer(settings) if service else running(settings)
    if service:
        _have_manager(service.restart)
        hopeless, why = (lambda: False), "opencode-memory logs"
    else:
        hopeless, why = _spawn(log := log_file()), str(log)

    def started() -> dict[str, Any] | None:
        health = answer(settings)
        return None if health and before and health["instance"] == before["instance"] else health

    _wait_until(started, START_SECONDS, hopeless)
    if (health := started()) is None:
        raise BackgroundError(f"The sidecar did not start; its log says why: {why}")
    return health


def restart(settings: Settings) -> dict[str, Any]:
    """End the sidecar if it runs, start it, and return its health.

    Raises HangsError where no service can end it, and BackgroundError.
    """
    if not _installed_service(settings):
        make_way(settings)
    return start(settings)


def stop(settings: Settings) -> dict[str, Any] | None:
    """End the sidecar and return the health it had: None if none was there, {} if it hung.

    By its service where there is one. Raises HangsError where there is none, and BackgroundError.
    """
    try:
        found = running(settings)
    except HangsError:
        found = {}
    if service := _installed_service(settings):
        _have_manager(service.stop)
    make_way(settings)  # one that the service does not know, or there is none
    return found


def make_way(settings: Settings) -> None:
    """End a sidecar that runs without the service manager: there is one at a time.

    Raises HangsError and BackgroundError.
    """
    if health := running(settings):
        _end(settings, health)


def answer(settings: Settings) -> dict[str, Any] | None:
    """Return the running sidecar's health; None also if it hangs."""
    try:
        return running(settings)
    except HangsError:
        return None


def describe(health: dict[str, Any]) -> str:
    """Return one sidecar's name for people."""
    return f"sidecar {health['version']} {health['instance']} (process {health['pid']})"


def _end(settings: Settings, health: dict[str, Any]) -> None:
    """Ask this running instance to end, by its name, and wait until it is gone."""
    instance = health["instance"]
    with contextlib.suppress(NotRunningError):  # if it ended by itself meanwhile
        connect(settings).call("POST", "/v1/stop", {"instance": instance})
    if not _wait_until(lambda: _has_ended(settings, instance), STOP_SECONDS):
        raise BackgroundError(
            f"{describe(health)} was asked to stop and is still there. Try again."
        )


def _has_ended(settings: Settings, instance: str) -> bool:
    from sidecar.lock import has_owner

    health = answer(settings)
    if health is not None:
        return bool(health["instance"] != instance)
    return not has_owner(settings.lock_file)  # it stops answering before it is gone


def _installed_service(settings: Settings) -> Service | None:
    from sidecar.service import NoServiceManagerError, installed_service

    try:
        return installed_service(settings)
    except NoServiceManagerError:
        return None  # a home that was made elsewhere and is mounted in a container


def _have_manager(act: Callable[[], None]) -> None:
    from sidecar.service import ServiceError

    try:
        act()
    except ServiceError as error:
        raise BackgroundError(f"The service manager refused: {error}") from error


def _spawn(log: Path) -> Callable[[], bool]:
    """Start `serve` in a session of its own, so that it outlives this terminal.

    Returns whether it has failed by now.
    """
    import os
    import subprocess

    from sidecar.launcher import background_command
    from snapshots.ownership import make_private_folder

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
