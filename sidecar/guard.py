"""Who may ask, and in which version: checked before any handler runs.

On a unix socket the file system is the authentication (0600 in a 0700 folder). On TCP every
request needs the token of the endpoint file and a loopback `Host`. A web page is refused on both.
"""

import hmac
from http import HTTPStatus

from aiohttp import web

from sidecar import INSTANCE_HEADER, PROTOCOL, PROTOCOL_HEADER, __version__
from sidecar.api.instance import INSTANCE
from sidecar.connections import CONNECTIONS
from sidecar.errors import RequestError

TOKEN = web.AppKey("token", str)
"""The token that TCP requests must carry; not there on a unix socket."""

_LOOPBACK_HOSTS = {"127.0.0.1", "localhost", "[::1]"}
# How another version finds out which one this is, and takes its place.
_ANY_VERSION = ("/v1/health", "/v1/stop")


def check_caller(request: web.Request) -> None:
    """Refuse pages, strangers and other protocol versions.

    Raises RequestError.
    """
    headers = request.headers
    if "Origin" in headers:
        raise RequestError(
            HTTPStatus.FORBIDDEN, "forbidden_origin", "Web pages can't talk to the sidecar."
        )
    if (token := request.app.get(TOKEN)) is not None:
        _check_tcp_caller(request, token)
    request.app[CONNECTIONS].welcome(request)
    protocol = headers.get(PROTOCOL_HEADER, "none")
    if protocol != str(PROTOCOL) and request.path not in _ANY_VERSION:
        raise RequestError(
            HTTPStatus.NOT_IMPLEMENTED,
            "unsupported_protocol",
            f"The request speaks protocol {protocol[:20]}, this sidecar (version {__version__}) "
            f"speaks protocol {PROTOCOL}. Bring both to one version: "
            "opencode-memory install, then opencode-memory restart, then restart OpenCode.",
        )


def name_ourselves(request: web.Request, response: web.StreamResponse) -> None:
    """Put the protocol version into a reply, and this run's name if the caller has the token.

    A stranger must not learn the name: it could answer under it once this sidecar is gone.
    """
    response.headers[PROTOCOL_HEADER] = str(PROTOCOL)
    if (token := request.app.get(TOKEN)) is not None and _has_token(request, token):
        response.headers[INSTANCE_HEADER] = request.app[INSTANCE].name


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
