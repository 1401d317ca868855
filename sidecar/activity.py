"""How much this sidecar is used, and when it was last."""

import time

import msgspec
from aiohttp import web


class Activity(msgspec.Struct, kw_only=True):
    """When it was last used, and the requests for a snapshot: the plugin at work.

    `last_at` is the last request's time of any kind on the monotonic clock, the start's until one
    has come. `last_request_at` is the last snapshot request's, in seconds since 1970.
    """

    last_at: float
    last_request_at: float | None = None
    requests: int = 0


ACTIVITY = web.AppKey("activity", Activity)


def note_request(request: web.Request) -> None:
    """Note that somebody uses this sidecar."""
    activity = request.app[ACTIVITY]
    activity.last_at = time.monotonic()
    if request.path == "/v1/snapshot":
        activity.last_request_at = time.time()
        activity.requests += 1
