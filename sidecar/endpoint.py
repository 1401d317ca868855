"""The endpoint file: how the shim and the command line find the running sidecar.

JSON, 0600, written after the bind: `version`, `protocol`, `instance` (a random name of this run),
`pid` (for people; nothing is decided by it), and either `socket` (a path) or `host`, `port` and
`token`.
"""

from __future__ import annotations

import json
from pathlib import Path

from snapshots.atomic import write_atomic
from snapshots.ownership import read_own


class Endpoint:
    """What one endpoint file says."""

    __slots__ = ("host", "instance", "pid", "port", "protocol", "socket", "token", "version")

    def __init__(
        self,
        *,
        version: str,
        protocol: int,
        instance: str,
        pid: int,
        socket: str | None = None,
        host: str | None = None,
        port: int | None = None,
        token: str | None = None,
    ) -> None:
        self.version = version
        self.protocol = protocol
        self.instance = instance
        self.pid = pid
        self.socket = socket
        self.host = host
        self.port = port
        self.token = token

    @property
    def address(self) -> str:
        """The socket's path, or host and port; for people."""
        return self.socket or f"{self.host}:{self.port}"


def publish(file: Path, endpoint: Endpoint) -> None:
    """Write the endpoint file."""
    fields = {name: getattr(endpoint, name) for name in Endpoint.__slots__}
    said = {name: value for name, value in fields.items() if value is not None}
    write_atomic(file, json.dumps(said).encode())


def read_endpoint(file: Path) -> Endpoint | None:
    """Return what the file says; None if it is absent, another user's, or no endpoint file."""
    try:
        fields = json.loads(read_own(file))
        return Endpoint(**{name: fields[name] for name in Endpoint.__slots__ if name in fields})
    except (OSError, ValueError, TypeError):
        return None


def withdraw(file: Path, instance: str) -> None:
    """Remove the endpoint file, and its socket, if they are still this instance's."""
    endpoint = read_endpoint(file)
    if endpoint is None or endpoint.instance != instance:
        return
    file.unlink(missing_ok=True)
    if endpoint.socket:
        Path(endpoint.socket).unlink(missing_ok=True)
