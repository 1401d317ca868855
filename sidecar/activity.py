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

    def note_request(self) -> None:
        """Note that somebody uses this sidecar."""
        self.last_at = time.monotonic()

    def note_snapshot_request(self) -> None:
        """Note that the plugin is at work."""
        self.last_request_at = time.time()
        self.requests += 1


ACTIVITY = web.AppKey("activity", Activity)
