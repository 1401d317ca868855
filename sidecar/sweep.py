"""The one background task: purges what is over, and sleeps until the next deadline."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator

from aiohttp import web

from sidecar.api.usage import LEDGER
from sidecar.sessions import SESSIONS, Sessions
from snapshots.expiry import MAX_AGE, purge
from snapshots.ledger import Ledger

_LOGGER = logging.getLogger(__name__)

LONGEST_SLEEP = 86_400.0
"""Seconds. The loop's clock stands still while a laptop sleeps; the deadlines' does not."""
RETRY_SLEEP = 60.0
"""Seconds until the disk is tried again after it refused a snapshot."""


GRACE = 6 * 3600.0
"""Seconds for which a snapshot that is over is still kept. A clock can jump by a year, forth and
back: a session in use asks for its bytes meanwhile, and is over no more."""


async def keep_swept(app: web.Application) -> AsyncIterator[None]:
    """Sweep as long as the application runs, and settle the sessions when it ends."""
    task = asyncio.create_task(_sweep_forever(Sweeper(app[SESSIONS]), app[LEDGER]))
    yield
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    await app[SESSIONS].settle()
    await asyncio.to_thread(app[LEDGER].close)


async def _sweep_forever(sweeper: "Sweeper", ledger: Ledger) -> None:
    while True:
        try:
            delay = await sweeper.sweep(time.time(), time.monotonic())
            await asyncio.to_thread(ledger.purge, time.time(), MAX_AGE)
        except Exception:
            _LOGGER.exception("The sweep failed; the next one is in %d seconds", LONGEST_SLEEP)
            delay = LONGEST_SLEEP
        await asyncio.sleep(delay)


class Sweeper:
    """Settles the sessions and purges the snapshots that are over and stay so."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._found_over: dict[str, float] = {}  # when, on the clock that never jumps

    async def sweep(self, now: float, uptime: float) -> float:
        """Do it once; return the seconds until it should be done again.

        `now` is in seconds since 1970, `uptime` in seconds of a clock that only goes forward.
        """
        await self._sessions.settle(now)
        store = self._sessions.store
        found_before, self._found_over = self._found_over, {}

        def is_kept(session_id: str) -> bool:
            if store.is_live(session_id):
                return True
            found = self._found_over[session_id] = found_before.get(session_id, uptime)
            return uptime - found < GRACE

        done = await asyncio.to_thread(purge, store.folder, now, is_live=is_kept)
        await asyncio.to_thread(store.origins.purge, store.folder, now, MAX_AGE)
        if done.removed:
            _LOGGER.info("Removed %d snapshots that were not used for 30 days", len(done.removed))
        if store.unsaved():
            return RETRY_SLEEP
        for session_id in done.removed:
            del self._found_over[session_id]
        dues = [found + GRACE - uptime for found in self._found_over.values()]
        if done.next_due is not None:
            dues.append(done.next_due - now)
        return min([LONGEST_SLEEP, *(max(due, 1.0) for due in dues)])
