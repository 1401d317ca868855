"""`GET /v1/health`: which sidecar this is and how it does; answered in every protocol version."""

import os
import time

import msgspec
from aiohttp import web

from sidecar import PROTOCOL, __version__
from sidecar.sessions import SESSIONS


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the sidecar: its random name, and when it began (seconds, monotonic)."""

    name: str
    began: float


INSTANCE = web.AppKey("instance", Instance)


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
        "problems": problems,
    }
    return web.Response(body=msgspec.json.encode(body), content_type="application/json")
