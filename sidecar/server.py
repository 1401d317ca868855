"""One run of the sidecar: bind, publish the endpoint, serve, withdraw."""

import asyncio
import logging
import os
import secrets
import signal
import time

from aiohttp import web

from sidecar import PROTOCOL, __version__
from sidecar.activity import ACTIVITY
from sidecar.api.instance import HANDING_OVER, STOPPING
from sidecar.app import make_app
from sidecar.connections import CONNECTIONS, most_connections
from sidecar.endpoint import Endpoint
from sidecar.listener import DesertedError, Listener
from sidecar.log import log_loop_error
from sidecar.notify import make_notifier, notifying
from sidecar.settings import Settings, process_variables
from sidecar.wake import pipe

_LOGGER = logging.getLogger(__name__)

MEND_SECONDS = 300.0
"""How often a sidecar that nobody nudges sees whether it can still be reached."""
SHUTDOWN_SECONDS = 2.0
"""How long a request under way may go on after a stop."""


def serve(settings: Settings, transport: str, idle_seconds: float) -> bool:
    """Serve until a signal or `stop`, on a "unix" socket or on "tcp"; the lock must be held.

    With `idle_seconds` above 0, so long without a request is the end as well. Returns whether it
    ended for another version to take its place.
    """
    # glibc maps and unmaps asyncio's receive buffer of 256 KiB on every request, a tenth of the
    # request's time, until a larger block has been freed once.
    bytes(1024 * 1024)
    return asyncio.run(_serve(settings, transport, idle_seconds))


async def _serve(settings: Settings, transport: str, idle_seconds: float) -> bool:
    asyncio.get_running_loop().set_exception_handler(log_loop_error)
    instance = secrets.token_hex(8)
    token = secrets.token_hex(32) if transport == "tcp" else None
    app = make_app(settings, instance=instance, token=token)
    _stop_on_signals(app[STOPPING])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS)
    await runner.setup()
    assert runner.server is not None
    endpoint = Endpoint(
        version=__version__, protocol=PROTOCOL, instance=instance, pid=os.getpid(), token=token
    )
    listener = Listener(
        settings, endpoint, app[CONNECTIONS].accepting(runner.server, most_connections())
    )
    try:
        with pipe(settings.wake_file) as woken:
            await listener.open()
            async with notifying(make_notifier(process_variables(), os.getpid())):
                await _until_stopped(app, idle_seconds, listener, woken)
        return app[HANDING_OVER].is_set()
    finally:
        listener.withdraw()
        listener.close()
        await runner.cleanup()
        _LOGGER.info("Sidecar %s ended", instance)


async def _until_stopped(
    app: web.Application, idle_seconds: float, listener: Listener, woken: int | None
) -> None:
    """Sleep to the next moment at which there could be something to do."""
    activity, stopping, nudged = app[ACTIVITY], app[STOPPING], asyncio.Event()
    if woken is not None:
        asyncio.get_running_loop().add_reader(woken, _take_nudge, woken, nudged)
    ends = asyncio.create_task(stopping.wait())
    while not stopping.is_set():
        left = activity.last_at + idle_seconds - time.monotonic() if idle_seconds else None
        if left is not None and left <= 0:
            _LOGGER.info("No request came for %.1f hours", idle_seconds / 3600)
            break
        nudge = asyncio.create_task(nudged.wait())
        await asyncio.wait(
            (ends, nudge),
            timeout=MEND_SECONDS if left is None else min(left, MEND_SECONDS),
            return_when=asyncio.FIRST_COMPLETED,
        )
        nudge.cancel()
        nudged.clear()
        if stopping.is_set():
            break
        try:
            await listener.mend()
        except DesertedError:
            _LOGGER.warning("The data folder was removed; there is nothing left to serve")
            break
    ends.cancel()
    if woken is not None:
        asyncio.get_running_loop().remove_reader(woken)


def _take_nudge(woken: int, nudged: asyncio.Event) -> None:
    os.read(woken, 4096)
    nudged.set()


def _stop_on_signals(stopping: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(number, stopping.set)
        except NotImplementedError:  # Windows
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(stopping.set))
