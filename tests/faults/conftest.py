"""A real sidecar process that the test hurts by the system's own means."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from sidecar.endpoint import read_endpoint
from sidecar.settings import Settings

from ..process import Child, until

SERVE = [sys.executable, "-P", "-m", "sidecar", "serve"]


class Reply(NamedTuple):
    """A status and a body."""

    status: int
    text: bytes


class Sidecar:
    """One sidecar, and one connection to it that stays open."""

    def __init__(self, child: Child, settings: Settings, project: Path) -> None:
        self.child = child
        self._settings = settings
        self._project = project
        self._connection: http.client.HTTPConnection | None = None

    def address(self) -> str:
        """Where it listens."""
        endpoint = read_endpoint(self._settings.endpoint_file)
        assert endpoint is not None
        return str(endpoint.socket)

    def connect(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = self._connected()

    def ask(self, session_id: str = "ses_a", epoch: str | None = "initial") -> Reply:
        """Ask for a session's text as the plugin does."""
        body = {"session_id": session_id, "epoch": epoch, **self._folders()}
        return self.call("POST", "/v1/snapshot", body)

    def begin_tool(self, name: str, arguments: dict[str, str]) -> http.client.HTTPConnection:
        """Call a tool as the plugin does, and leave its answer to the caller."""
        connection = self._connected()
        asked = {"session_id": "ses_a", "turn_id": "msg_a", "arguments": arguments}
        _send(connection, "POST", f"/v1/tools/{name}", asked | self._folders())
        return connection

    def call(self, method: str, path: str, body: object = None) -> Reply:
        if self._connection is None:
            self.connect()
        assert self._connection is not None
        _send(self._connection, method, path, body)
        reply = self._connection.getresponse()
        return Reply(reply.status, reply.read())

    def _connected(self) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("localhost", timeout=20)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(20)
        connection.sock.connect(self.address())
        return connection

    def _folders(self) -> dict[str, object]:
        configs = [str(folder) for folder in self._settings.config_folders]
        return {"directory": str(self._project), "config_directories": configs}

    def problems(self) -> list[str]:
        """What `status` calls a problem."""
        problems: list[str] = json.loads(self.call("GET", "/v1/health").text)["problems"]
        return problems

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self.child.end()


def _send(connection: http.client.HTTPConnection, method: str, path: str, body: object) -> None:
    content = b"" if body is None else json.dumps(body).encode()
    connection.request(method, path, content, {"Memory-Protocol": "1"})


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".opencode" / "memory").mkdir(parents=True)
    return folder


@pytest.fixture
def remember(project: Path) -> Callable[[str], None]:
    """Give the project's only block this value."""

    def write(value: str) -> None:
        (project / ".opencode" / "memory" / "notes.md").write_text(f"{value}\n")

    write("v1")
    return write


@pytest.fixture
def start(
    home: Path, settings: Settings, project: Path, remember: Callable[[str], None]
) -> Iterator[Callable[..., Sidecar]]:
    """Start a sidecar behind the words of another command, as `strace` or `prlimit`."""
    started: list[Sidecar] = []

    def begin(*before: str) -> Sidecar:
        settings.endpoint_file.unlink(missing_ok=True)
        child = Child([*before, *SERVE], os.environ, home, home / "serve.log")
        started.append(Sidecar(child, settings, project))
        until(lambda: read_endpoint(settings.endpoint_file) or not child.alive(), "the endpoint")
        assert child.alive(), child.output()
        return started[-1]

    yield begin
    for sidecar in started:
        sidecar.close()


def can(*command: str) -> bool:
    """Whether this machine lets us do that."""
    try:
        return subprocess.run(command, capture_output=True, timeout=20, check=False).returncode == 0
    except OSError:
        return False
