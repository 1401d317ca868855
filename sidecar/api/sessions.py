"""`/v1/sessions` and `/v1/purge`: what `list`, `show`, `clear` and `purge` do while we run."""

import asyncio
import time
from http import HTTPStatus

import msgspec
from aiohttp import web

from sidecar.body import read_body
from sidecar.errors import RequestError
from sidecar.sessions import SESSIONS
from sidecar.wire import decode_purge_request
from snapshots.expiry import purge


async def get_sessions(request: web.Request) -> web.Response:
    """Answer with every session that has a snapshot, the last used first."""
    return _json({"sessions": await request.app[SESSIONS].entries()})


async def get_session(request: web.Request) -> web.Response:
    """Answer with one session's text and its metadata."""
    session_id = request.match_info["session_id"]
    snapshot = await request.app[SESSIONS].show(session_id)
    if snapshot is None:
        raise RequestError(
            HTTPStatus.NOT_FOUND,
            "session_not_found",
            f"{session_id} has no snapshot. `opencode-memory list` shows those that have one.",
        )
    return _json({"metadata": snapshot.metadata, "text": snapshot.text.decode()})


async def delete_session(request: web.Request) -> web.Response:
    """Forget one session's snapshot."""
    session_id = request.match_info["session_id"]
    cleared = await request.app[SESSIONS].clear(session_id)
    return _json({"cleared": [session_id] if cleared else []})


async def delete_sessions(request: web.Request) -> web.Response:
    """Forget every snapshot."""
    return _json({"cleared": await request.app[SESSIONS].clear_all()})


async def post_purge(request: web.Request) -> web.Response:
    """Remove what was not used for so many days."""
    asked = decode_purge_request(await read_body(request))
    store = request.app[SESSIONS].store
    done = await asyncio.to_thread(
        purge,
        store.folder,
        time.time(),
        max_age=asked.older_than_days * 86_400,
        is_live=store.is_live,
        dry_run=asked.dry_run,
    )
    return _json({"removed": done.removed})


def _json(fields: dict[str, object]) -> web.Response:
    return web.Response(body=msgspec.json.encode(fields), content_type="application/json")
