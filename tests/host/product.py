"""Drives the product as a user does: its command line, its files, its process."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

from ..process import Child, until

if TYPE_CHECKING:
    from .opencode import Home

COMMAND = [sys.executable, "-P", "-m", "sidecar"]
NOT_RUNNING = 3


def command(home: Home, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """One command, as `opencode-memory ARGUMENTS` in this home."""
    return subprocess.run(
        [*COMMAND, *arguments],
        env=home.env,
        cwd=home.path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=30,
        check=False,
    )


def must(home: Home, *arguments: str) -> bytes:
    """The output of a command that has to succeed."""
    done = command(home, *arguments)
    assert done.returncode == 0, f"{arguments} gave {done.returncode}: {done.stdout} {done.stderr}"
    return done.stdout


def serve(home: Home) -> Child:
    """`opencode-memory serve`, ready for requests."""
    child = Child([*COMMAND, "serve"], home.env, home.path, home.path / "sidecar.log")

    def published() -> bool:
        assert child.alive(), f"the sidecar ended: {child.output()}"
        return endpoint(home).get("pid") == child.pid

    until(published, "the sidecar to publish its endpoint")
    return child


def tell(home: Home, event: str, session: str) -> None:
    """Tell the sidecar of an event, as the plugin does when the host says so."""
    told = json.dumps({"events": [{"type": event, "session_id": session}]}).encode()
    head = f"Host: localhost\r\nMemory-Protocol: 1\r\nContent-Length: {len(told)}"
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10)
        connection.connect(endpoint(home)["socket"])
        connection.sendall(f"POST /v1/events HTTP/1.1\r\n{head}\r\n\r\n".encode() + told)
        assert connection.recv(4096).startswith(b"HTTP/1.1 204")


def forget_launcher(home: Home) -> None:
    """From now on the shim can't start a sidecar."""
    (home.data / "agent-memory/launcher.json").unlink()


def end_strays(home: Home) -> None:
    """End a sidecar that the shim has started in this home."""
    stopped, status = command(home, "stop"), command(home, "status")
    said = (stopped.stdout + stopped.stderr + status.stdout + status.stderr).decode()
    assert status.returncode == NOT_RUNNING, f"a sidecar outlived its test: {said}"


def endpoint(home: Home) -> dict[str, Any]:
    """What the running sidecar has published; empty if none has."""
    file = home.data / "agent-memory/endpoint.json"
    return json.loads(file.read_bytes()) if file.exists() else {}


class Impostor:
    """Stands where the published sidecar stood, and gives every caller the same raw bytes."""

    def __init__(self, home: Home, reply: bytes) -> None:
        self._reply = reply
        path = home.runtime / "impostor"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        published = {**endpoint(home), "socket": str(path), "instance": "impostor"}
        (home.data / "agent-memory/endpoint.json").write_text(json.dumps(published))

    def _serve(self) -> None:
        while True:
            try:
                caller, _ = self._listener.accept()
            except OSError:  # closed
                return
            with caller:
                if caller.recv(65536):
                    caller.sendall(self._reply)

    def close(self) -> None:
        # Closing alone does not wake the thread that waits in accept().
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)
