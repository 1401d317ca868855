"""The one background task: purges what is over, and sleeps until the next deadline."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator

from aiohttp import web

from sidecar.sessions import SESSIONS, Sessions
from snapshots.expiry import MAX_AGE, purge

_LOGGER = logging.getLogger(__name__)

LONGEST_SLEEP = 86_400.0
"""Seconds. The loop's clock stands still while a laptop sleeps; the deadlines' does not."""
RETRY_SLEEP = 60.0
"""Seconds until the disk is tried again after it refused a snapshot."""


async def keep_swept(app: web.Application) -> AsyncIterator[None]:
    """Sweep as long as the application runs, and settle the sessions when it ends."""
    task = asyncio.create_task(_sweep_forever(app[SESSIONS]))
    yield
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    await app[SESSIONS].settle()


async def _sweep_forever(sessions: Sessions) -> None:
    while True:
        try:
            delay = await sweep(sessions)
        except Exception:
            _LOGGER.exception("The sweep failed; the next one is in %d seconds", LONGEST_SLEEP)
            delay = LONGEST_SLEEP
        await asyncio.sleep(delay)


async def sweep(sessions: Sessions) -> float:
    """Settle and purge once; return the seconds until it should be done again."""
    await sessions.settle()
    store = sessions.store
    now = time.time()
    done = await asyncio.to_thread(purge, store.folder, now, is_live=store.is_live)
    await asyncio.to_thread(store.origins.purge, store.folder, now, MAX_AGE)
    if done.removed:
        _LOGGER.info("Removed %d snapshots that were not used for 30 days", len(done.removed))
    if store.unsaved():
        return RETRY_SLEEP
    due = LONGEST_SLEEP if done.next_due is None else done.next_due - now
    return min(max(due, 1.0), LONGEST_SLEEP)
