"""`GET /v1/health` and `POST /v1/stop`: which run of the sidecar this is, how it does, its end."""

import asyncio
import os
import time
from http import HTTPStatus

import msgspec
from aiohttp import web

from sidecar import PROTOCOL, __version__
from sidecar.activity import ACTIVITY
from sidecar.body import read_body
from sidecar.errors import RequestError
from sidecar.recent_warnings import RECENT_WARNINGS
from sidecar.sessions import SESSIONS
from sidecar.wire import decode_stop_request


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the sidecar: its random name, and when it began (seconds, monotonic)."""

    name: str
    began: float


INSTANCE = web.AppKey("instance", Instance)
STOPPING = web.AppKey("stopping", asyncio.Event)
"""Set when this instance was asked to end."""
HANDING_OVER = web.AppKey("handing_over", asyncio.Event)
"""Set when it was asked to end for another version's sake."""


async def get_health(request: web.Request) -> web.Response:
    """Answer with version, protocol, identity, uptime in seconds, and what is wrong."""
    instance = request.app[INSTANCE]
    unsaved = request.app[SESSIONS].store.unsaved()
    problems = [
        f"The snapshot of {session_id} can't be saved; it is kept in memory."
        for session_id in unsaved
    ]
    body = {
        "version": __version__,
        "protocol": PROTOCOL,
        "instance": instance.name,
        "pid": os.getpid(),
        "uptime": round(time.monotonic() - instance.began, 3),
        "requests": request.app[ACTIVITY].requests,
        "last_request_at": request.app[ACTIVITY].last_request_at,
        "problems": problems,
        "warnings": tuple(request.app[RECENT_WARNINGS].kept),
    }
    return web.Response(body=msgspec.json.encode(body), content_type="application/json")


async def post_stop(request: web.Request) -> web.Response:
    """End this instance, and no other that has taken its place."""
    asked = decode_stop_request(await read_body(request))
    if asked.instance != request.app[INSTANCE].name:
        raise RequestError(
            HTTPStatus.CONFLICT,
            "other_instance",
            "Another sidecar has taken that one's place; ask `opencode-memory status` again.",
        )
    if asked.hand_over:
        request.app[HANDING_OVER].set()
    request.app[STOPPING].set()
    return web.Response(status=HTTPStatus.ACCEPTED)
