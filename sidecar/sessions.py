"""The snapshots as the event loop uses them: blocking work in threads, one task per session."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar
from weakref import WeakValueDictionary

from aiohttp import web

from snapshots.metadata import Terms
from snapshots.sessions import Snapshot, SnapshotStore

_Result = TypeVar("_Result")


class Sessions:
    """A snapshot store with a lock per session, so that first requests never race.

    Its threads are its own: a prompt can't be behind tools that wait for a block's lock.
    """

    def __init__(self, store: SnapshotStore) -> None:
        self.store = store
        self._threads = ThreadPoolExecutor(thread_name_prefix="sessions")
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def recall(self, session_id: str, epoch: str | None, origin: str | None) -> Snapshot | None:
        """Return the session's frozen text if it is in memory; never waits."""
        return self.store.recall(session_id, epoch, time.time(), origin)

    async def obtain(
        self,
        session_id: str,
        epoch: str | None,
        render: Callable[[Terms], str],
        origin: str | None = None,
        choose: Callable[[], Terms] = Terms,
        began: str | None = None,
    ) -> Snapshot:
        """Return the session's frozen text; one render for however many ask at once."""
        async with self._alone(session_id):
            return await self._in_thread(
                self.store.obtain, session_id, epoch, render, time.time(), origin, choose, began
            )

    async def entries(self) -> list[dict[str, object]]:
        """Return each session's id, its file's size in bytes, and its last use."""
        return [entry.fields() for entry in await self._in_thread(self.store.entries)]

    async def show(self, session_id: str) -> Snapshot | None:
        """Return what the session is being given; None if nothing."""
        async with self._alone(session_id):
            return await self._in_thread(self.store.show, session_id, time.time())

    async def clear(self, session_id: str) -> bool:
        """Forget one session's snapshot; False if there was none."""
        async with self._alone(session_id):
            return await self._in_thread(self.store.clear, session_id)

    async def clear_all(self) -> list[str]:
        """Forget every snapshot; returns the sessions that had one."""
        entries = await self._in_thread(self.store.entries)
        session_ids = sorted(entry.session_id for entry in entries if entry.session_id)
        return [session_id for session_id in session_ids if await self.clear(session_id)]

    async def mark_compacted(self, session_id: str) -> None:
        """Note that the host says it compacted this session."""
        async with self._alone(session_id):
            await self._in_thread(self.store.mark_compacted, session_id, time.time())

    async def settle(self, now: float | None = None) -> None:
        """Save, record and forget what is due, session by session."""
        now = time.time() if now is None else now
        for session_id in self.store.unsettled(now):
            async with self._alone(session_id):
                await self._in_thread(self.store.settle, session_id, now)

    def _in_thread(
        self, work: Callable[..., _Result], *arguments: object
    ) -> asyncio.Future[_Result]:
        return asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)

    def _alone(self, session_id: str) -> asyncio.Lock:
        # It lives as long as somebody holds or awaits it.
        return self._locks.setdefault(session_id, asyncio.Lock())


SESSIONS = web.AppKey("sessions", Sessions)
