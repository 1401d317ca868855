"""The command line's own calls to the running sidecar.

A few lines of HTTP over a plain socket instead of a client library: a command like `clear` has to
start as fast as Python does, and loopback must never go to a proxy.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from sidecar import PROTOCOL, PROTOCOL_HEADER
from sidecar.endpoint import read_endpoint
from snapshots.ownership import is_own_socket

TYPE_CHECKING = False  # importing typing is slow
if TYPE_CHECKING:
    import socket
    from typing import Any

    from sidecar.endpoint import Endpoint
    from sidecar.settings import Settings

TIMEOUT = 10.0
"""Seconds for one whole request; enough to clear 100,000 snapshots."""


class SidecarError(Exception):
    """The sidecar's own refusal, in its words."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class NotRunningError(Exception):
    """No sidecar answers."""


class HangsError(Exception):
    """A sidecar is there and does not answer: stopped, or stuck."""

    def __init__(self, endpoint: Endpoint) -> None:
        kill = "taskkill /F /PID" if sys.platform == "win32" else "kill -9"
        self.mend = f"{kill} {endpoint.pid}; opencode-memory start"
        super().__init__(
            f"The sidecar (process {endpoint.pid}) holds {endpoint.address} and does not answer. "
            f"End it and start it again: {self.mend}"
        )


class Client:
    """Calls to the sidecar behind one endpoint, a connection for each.

    `lock_file` tells one that hangs from a stranger that was given its port after it had died.
    """

    def __init__(self, endpoint: Endpoint, lock_file: Path, timeout: float = TIMEOUT) -> None:
        self.endpoint = endpoint
        self.lock_file = lock_file
        self.timeout = timeout

    def call(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """Send one request and return the reply's JSON object; empty for a reply with no body.

        Raises NotRunningError, HangsError and SidecarError.
        """
        try:
            with self._connect() as connection:
                connection.sendall(self._encode(method, path, body))
                chunks = []
                while chunk := connection.recv(65536):
                    chunks.append(chunk)
        except OSError as error:
            if isinstance(error, TimeoutError) and self._is_alive():
                raise HangsError(self.endpoint) from error
            raise NotRunningError(
                f"No sidecar answers at {self.endpoint.address} ({error}). "
                "Start it: opencode-memory start"
            ) from error
        return _decode(b"".join(chunks))

    def _connect(self) -> socket.socket:
        import socket

        if self.endpoint.socket is None:
            return socket.create_connection(
                (self.endpoint.host, self.endpoint.port or 0), self.timeout
            )
        if not is_own_socket(Path(self.endpoint.socket)):
            raise OSError("no socket of this user's is there")
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(self.timeout)
        try:
            connection.connect(self.endpoint.socket)
        except OSError:
            connection.close()
            raise
        return connection

    def _is_alive(self) -> bool:
        from sidecar.lock import has_owner

        return has_owner(self.lock_file)

    def _encode(self, method: str, path: str, body: object) -> bytes:
        content = b"" if body is None else json.dumps(body).encode()
        host = "localhost" if self.endpoint.socket else self.endpoint.address
        lines = [
            f"{method} {path} HTTP/1.1",
            f"Host: {host}",
            f"{PROTOCOL_HEADER}: {PROTOCOL}",
            "Content-Type: application/json",
            f"Content-Length: {len(content)}",
            "Connection: close",
        ]
        if self.endpoint.token:
            lines.append(f"Authorization: Bearer {self.endpoint.token}")
        return "\r\n".join([*lines, "", ""]).encode() + content


def connect(settings: Settings, timeout: float = TIMEOUT) -> Client:
    """Return a client for the sidecar that owns this user's snapshots.

    Raises NotRunningError if none has published an endpoint; one that has may still not answer.
    """
    endpoint = read_endpoint(settings.endpoint_file)
    if endpoint is None:
        raise NotRunningError("The sidecar is not running. Start it: opencode-memory start")
    return Client(endpoint, settings.lock_file, timeout)


def _decode(reply: bytes) -> dict[str, Any]:
    head, _, content = reply.partition(b"\r\n\r\n")
    status = head[len(b"HTTP/1.1 ") :][:3]
    try:
        fields = json.loads(content) if content else {}
    except ValueError:
        fields = {}
    if not status.startswith(b"2"):
        error = fields.get("error") or {}
        raise SidecarError(
            str(error.get("code", "bad_reply")),
            str(
                error.get(
                    "message",
                    "The sidecar's reply makes no sense; restart it: opencode-memory restart",
                )
            ),
        )
    return dict(fields)
