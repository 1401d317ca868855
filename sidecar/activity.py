"""How much this sidecar is used, and when it was last."""

import time

import msgspec
from aiohttp import web


class Activity(msgspec.Struct, kw_only=True):
    """Requests so far, and the last one's time in seconds: on the monotonic clock, and since 1970.

    `last_at` is the start until one has come, `last_request_at` None.
    """

    last_at: float
    last_request_at: float | None = None
    requests: int = 0


ACTIVITY = web.AppKey("activity", Activity)


async def note_request(request: web.Request, _response: web.StreamResponse) -> None:
    """Note that somebody uses this sidecar."""
    activity = request.app[ACTIVITY]
    activity.last_at = time.monotonic()
    activity.last_request_at = time.time()
    activity.requests += 1
