"""The last warnings of this run, for `status`: what the log has, without looking for the log."""

import logging
from collections import deque
from collections.abc import AsyncIterator

import msgspec
from aiohttp import web

KEPT = 10


class Warned(msgspec.Struct, frozen=True, kw_only=True):
    """One warning or error: its time in seconds since 1970, and its message."""

    at: float
    message: str


class RecentWarnings(logging.Handler):
    """Keeps the last messages of level WARNING and above."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.kept: deque[Warned] = deque(maxlen=KEPT)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one message; of an exception its type, since its text may be anybody's."""
        message = record.getMessage()
        if record.exc_info and record.exc_info[0]:
            message += f" ({record.exc_info[0].__name__}; the log has more)"
        self.kept.append(Warned(at=record.created, message=message))


RECENT_WARNINGS = web.AppKey("recent_warnings", RecentWarnings)


async def keep_recent_warnings(app: web.Application) -> AsyncIterator[None]:
    """Listen to every logger while the application runs."""
    logging.getLogger().addHandler(app[RECENT_WARNINGS])
    yield
    logging.getLogger().removeHandler(app[RECENT_WARNINGS])
