"""Who may ask, and in which version: checked before any handler runs.

On a unix socket the file system is the authentication (0600 in a 0700 folder). On TCP every
request needs the token of the endpoint file and a loopback `Host`. A web page is refused on both.
"""

import hmac
from http import HTTPStatus

from aiohttp import web

from sidecar import INSTANCE_HEADER, PROTOCOL, PROTOCOL_HEADER, __version__
from sidecar.activity import Activity
from sidecar.connections import Connections
from sidecar.errors import Handler, RequestError, error_reply

_LOOPBACK_HOSTS = {"127.0.0.1", "localhost", "[::1]"}
# How another version finds out which one this is, and takes its place.
_ANY_VERSION = ("/v1/health", "/v1/stop")
_SPOKEN = str(PROTOCOL)


class Guard:
    """Stands before every handler, and sees to it that a reply of our protocol leaves.

    `instance` names this run; with a `token`, every request must carry it.
    """

    def __init__(
        self, instance: str, token: str | None, connections: Connections, activity: Activity
    ) -> None:
        self._instance = instance
        self._token = token
        self._connections = connections
        self._activity = activity

    def guarded(self, handler: Handler) -> Handler:
        """Return a handler that answers whatever happens, and notes that somebody has asked.

        Not a middleware: aiohttp would run two more coroutines for each request.
        """

        async def answer(request: web.Request) -> web.StreamResponse:
            response: web.StreamResponse
            try:
                self._check(request)
                response = await handler(request)
            except Exception as error:
                response = error_reply(request, error)
            self._sign(request, response)
            self._activity.note_request()
            return response

        return answer

    def _check(self, request: web.Request) -> None:
        headers = request.headers
        if "Origin" in headers:
            raise RequestError(
                HTTPStatus.FORBIDDEN, "forbidden_origin", "Web pages can't talk to the sidecar."
            )
        if self._token is not None:
            _check_tcp_caller(request, self._token)
        self._connections.welcome(request)
        protocol = headers.get(PROTOCOL_HEADER, "none")
        if protocol != _SPOKEN and request.path not in _ANY_VERSION:
            raise RequestError(
                HTTPStatus.NOT_IMPLEMENTED,
                "unsupported_protocol",
                f"The request speaks protocol {protocol[:20]}, this sidecar (version "
                f"{__version__}) speaks protocol {PROTOCOL}. Bring both to one version: "
                "opencode-memory install, then opencode-memory restart, then restart OpenCode.",
            )

    def _sign(self, request: web.Request, response: web.StreamResponse) -> None:
        # A stranger must not learn the run's name: it could answer under it once this is gone.
        response.headers[PROTOCOL_HEADER] = _SPOKEN
        if self._token is not None and _has_token(request, self._token):
            response.headers[INSTANCE_HEADER] = self._instance


def _check_tcp_caller(request: web.Request, token: str) -> None:
    host, _, _port = request.host.rpartition(":")
    if host not in _LOOPBACK_HOSTS:
        raise RequestError(
            HTTPStatus.FORBIDDEN, "forbidden_host", "The Host header must name this machine."
        )
    if not _has_token(request, token):
        raise RequestError(
            HTTPStatus.UNAUTHORIZED,
            "unauthorized",
            "The token is missing or not this sidecar's; the endpoint file has it.",
        )


def _has_token(request: web.Request, token: str) -> bool:
    given = request.headers.get("Authorization", "")
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), f"Bearer {token}".encode())
