"""The connections: how many there may be, and how soon each caller has to prove itself.

A caller has proved itself with its first request that passes the guard; until then it is a
stranger, who must not hold a connection open for nothing.
"""

import asyncio
import logging
import sys
from collections.abc import Callable

from aiohttp import web

_LOGGER = logging.getLogger(__name__)

MOST_CONNECTIONS = 1024
"""Every OpenCode process has two."""
PROOF_SECONDS = 10.0
"""How long a stranger may take to send the head of its first request."""
KEPT_DESCRIPTORS = 64
"""For files: connections must never take the last descriptor that a snapshot needs."""


class Connections:
    """Makes the protocol of each new connection, and ends those that are too many or too slow."""

    def __init__(self) -> None:
        self._strangers: dict[web.RequestHandler, asyncio.TimerHandle] = {}
        self._full = False

    def accepting(
        self, server: web.Server, most: int = MOST_CONNECTIONS
    ) -> Callable[[], asyncio.BaseProtocol]:
        """Return the factory that a listening socket is to be given."""
        loop = asyncio.get_running_loop()

        def accept() -> asyncio.BaseProtocol:
            was_full, self._full = self._full, len(server.connections) >= most
            if self._full:
                if not was_full:
                    _LOGGER.warning("There are %d connections; further ones are refused", most)
                return _Refused()
            handler = server()
            self._strangers[handler] = loop.call_later(PROOF_SECONDS, self._end, handler)
            return handler

        return accept

    def welcome(self, request: web.Request) -> None:
        """Note that the request's caller has proved itself."""
        if (timer := self._strangers.pop(request.protocol, None)) is not None:
            timer.cancel()

    def _end(self, handler: web.RequestHandler) -> None:
        del self._strangers[handler]
        handler.force_close()


class _Refused(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


def most_connections() -> int:
    """Return how many connections this process can have, and still open its files."""
    if sys.platform == "win32":
        return MOST_CONNECTIONS  # it has no such limit
    from sidecar.limits import raise_descriptors

    allowed = raise_descriptors(MOST_CONNECTIONS + KEPT_DESCRIPTORS)
    return max(1, allowed - KEPT_DESCRIPTORS)


CONNECTIONS = web.AppKey("connections", Connections)
