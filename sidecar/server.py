"""One run of the sidecar: bind, publish the endpoint, serve, withdraw."""

import asyncio
import contextlib
import hashlib
import logging
import os
import secrets
import signal
import stat
import tempfile
import time
from pathlib import Path

from aiohttp import web

from sidecar import PROTOCOL, __version__
from sidecar.activity import ACTIVITY
from sidecar.api.instance import HANDING_OVER, STOPPING
from sidecar.app import make_app
from sidecar.endpoint import Endpoint, publish, withdraw
from sidecar.notify import make_notifier, notifying
from sidecar.settings import Settings, process_variables, runtime_folder
from snapshots.atomic import make_private_folder

_LOGGER = logging.getLogger(__name__)

BACKLOG = 1024
"""Connections waiting to be accepted; a full unix backlog refuses at once, TCP tries again."""
LONGEST_SOCKET_PATH = 100
"""Bytes; macOS allows 104 and Linux 108, with the closing zero."""
SHUTDOWN_SECONDS = 2.0
"""How long a request under way may go on after a stop."""


def serve(settings: Settings, transport: str, idle_seconds: float) -> bool:
    """Serve until a signal or `stop`, on a "unix" socket or on "tcp"; the lock must be held.

    With `idle_seconds` above 0, so long without a request is the end as well. Returns whether it
    ended for another version to take its place.
    """
    return asyncio.run(_serve(settings, transport, idle_seconds))


async def _serve(settings: Settings, transport: str, idle_seconds: float) -> bool:
    instance = secrets.token_hex(8)
    token = secrets.token_hex(32) if transport == "tcp" else None
    app = make_app(settings, instance=instance, token=token)
    _stop_on_signals(app[STOPPING])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        endpoint = Endpoint(
            version=__version__, protocol=PROTOCOL, instance=instance, pid=os.getpid(), token=token
        )
        if token is None:
            endpoint.socket = await _listen_on_unix(runner, _socket_path(settings))
        else:
            endpoint.host, endpoint.port = await _listen_on_tcp(runner)
        publish(settings.endpoint_file, endpoint)
        _LOGGER.info("Sidecar %s %s listens on %s", __version__, instance, endpoint.address)
        async with notifying(make_notifier(process_variables(), os.getpid())):
            await _until_stopped(app, idle_seconds)
        return app[HANDING_OVER].is_set()
    finally:
        withdraw(settings.endpoint_file, instance)
        await runner.cleanup()
        _LOGGER.info("Sidecar %s ended", instance)


async def _listen_on_unix(runner: web.AppRunner, path: str) -> str:
    previous = os.umask(0o177)  # from its first moment on, the socket is this user's alone
    try:
        await web.UnixSite(runner, path, backlog=BACKLOG).start()
    finally:
        os.umask(previous)
    return path


async def _listen_on_tcp(runner: web.AppRunner) -> tuple[str, int]:
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=BACKLOG).start()
    host, port = runner.addresses[0]
    return host, port


async def _until_stopped(app: web.Application, idle_seconds: float) -> None:
    """Sleep to the next moment at which it could be over: there is no timer that ticks."""
    activity = app[ACTIVITY]
    while not app[STOPPING].is_set():
        left = activity.last_at + idle_seconds - time.monotonic() if idle_seconds else None
        if left is not None and left <= 0:
            _LOGGER.info("No request came for %.1f hours", idle_seconds / 3600)
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(app[STOPPING].wait(), left)


def _stop_on_signals(stopping: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(number, stopping.set)
        except NotImplementedError:  # Windows
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(stopping.set))


def _socket_path(settings: Settings) -> str:
    """Return a path that only the holder of this data folder's lock uses.

    Raises OSError if its folder belongs to somebody else.
    """
    name = hashlib.sha256(os.fsencode(settings.data_folder)).hexdigest()[:16] + ".sock"
    folder = runtime_folder()
    if len(os.fsencode(folder / name)) > LONGEST_SOCKET_PATH:
        folder = Path(tempfile.gettempdir()) / f"opencode-memory-{os.geteuid()}"
    make_private_folder(folder)
    status = folder.lstat()
    if status.st_uid != os.geteuid() or not stat.S_ISDIR(status.st_mode):
        raise PermissionError(f"{folder} is not this user's own folder; remove it.")
    folder.chmod(0o700)
    return str(folder / name)
