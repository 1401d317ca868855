"""A sidecar that answers whatever the test says, from raw sockets: it has no HTTP of its own."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MARKER = "<!-- opencode-agent-memory:snapshot:1 -->\n"
TEXT = MARKER + "Remember: crème brûlée, 記憶, 🧠.\n"
TOKEN = "0123456789abcdef"


class Request(NamedTuple):
    """One request as it came, and how many connections there had been by then."""

    raw: bytes
    connection: int

    @property
    def line(self) -> str:
        return self.raw.split(b"\r\n", 1)[0].decode()

    @property
    def headers(self) -> dict[str, str]:
        lines = self.raw.split(b"\r\n\r\n", 1)[0].decode().split("\r\n")[1:]
        return dict(line.split(": ", 1) for line in lines)

    @property
    def body(self) -> dict:
        return json.loads(self.raw.split(b"\r\n\r\n", 1)[1])

    @property
    def session(self) -> str:
        return self.body.get("session_id", "")


class Sidecar:
    """Listens, records every request, and has `answer` deal with it."""

    def __init__(self, listener: socket.socket) -> None:
        self.answer: Callable[[Sidecar, socket.socket, Request], None] = whole()
        self.requests: list[Request] = []
        self.connections = 0
        self.closed = 0
        self.changed = threading.Condition()
        self.stopped = threading.Event()
        self._listener = listener
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def stop(self) -> None:
        """As a killed process does: every socket goes at once."""
        self.stopped.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.hang_up()
        for thread in self._threads:
            thread.join(10)

    def hang_up(self) -> None:
        """Closes the connections but goes on listening."""
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def say(self, data: bytes) -> None:
        """What nobody has asked for."""
        for connection in self._open:
            connection.sendall(data)

    def wait_for_close(self) -> None:
        """Until the shim has closed every connection."""
        with self.changed:
            assert self.changed.wait_for(lambda: self.closed == self.connections, 10)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.connections += 1
                self._open.append(connection)
                thread = threading.Thread(target=self._serve, args=(connection, self.connections))
                self._threads.append(thread)
                thread.start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        with connection, contextlib.suppress(OSError):
            while raw := _read_request(connection):
                request = Request(raw, number)
                self.requests.append(request)
                self.answer(self, connection, request)
        with self.changed:
            self.closed += 1
            self.changed.notify_all()


def _read_request(connection: socket.socket) -> bytes:
    raw = b""
    while b"\r\n\r\n" not in raw:
        chunk = connection.recv(65536)
        if not chunk:
            return b""
        raw += chunk
    head, _, body = raw.partition(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    while len(body) < length:
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


def publish(home: Path, **where: object) -> None:
    """Writes the endpoint file."""
    file = home / "data" / "opencode" / "agent-memory" / "endpoint.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    facts = {"version": "0.1.0", "protocol": 1, "instance": "stub", "pid": 1, **where}
    file.write_text(json.dumps(facts))


# What a sidecar may answer. Each of these makes an `answer`.


def reply(status: str = "200 OK", body: bytes = TEXT.encode(), **headers: str | None) -> bytes:
    """A reply's bytes; a header given as None is left out."""
    fields = {
        "Memory_Protocol": "1",
        "Memory_Instance": "stub",
        "Memory_Session": "ses_1",
        "Content_Type": "text/plain; charset=utf-8",
        "ETag": '"1"',
        "Content_Length": str(len(body)),
        **headers,
    }
    lines = [f"{k.replace('_', '-')}: {v}" for k, v in fields.items() if v is not None]
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode() + body


def whole(data: bytes | None = None):
    """The reply in one piece."""
    return lambda _sidecar, connection, request: connection.sendall(
        reply(Memory_Session=request.session) if data is None else data
    )


def honest(text_of: Callable[[Request], str] = lambda _request: TEXT):
    """As the real one: the text, or 304 for who has it already."""

    def answer(_sidecar: Sidecar, connection: socket.socket, request: Request) -> None:
        text = text_of(request)
        etag = f'"{abs(hash(text))}"'
        if request.headers.get("If-None-Match") == etag:
            connection.sendall(not_modified(etag, request.session))
        else:
            connection.sendall(reply(body=text.encode(), ETag=etag, Memory_Session=request.session))

    return answer


def not_modified(etag: str = '"1"', session: str = "ses_1") -> bytes:
    absent = {"Content_Length": None, "Content_Type": None}
    return reply("304 Not Modified", b"", ETag=etag, Memory_Session=session, **absent)


def no_content() -> bytes:
    return reply("204 No Content", b"", ETag=None, Content_Length=None, Content_Type=None)


def error(status: str, message: str) -> bytes:
    body = json.dumps({"error": {"code": "some_code", "message": message}}).encode()
    return reply(status, body, ETag=None, Content_Type="application/json")


def byte_by_byte():
    """Every byte in a segment of its own."""

    def answer(_sidecar: Sidecar, connection: socket.socket, _request: Request) -> None:
        for byte in reply():
            connection.sendall(bytes([byte]))

    return answer


def then_close(data: bytes):
    """What there is, and the end of the connection."""

    def answer(_sidecar: Sidecar, connection: socket.socket, _request: Request) -> None:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_RDWR)

    return answer


def then_stall(data: bytes = b""):
    """What there is, and nothing more until the test is over."""

    def answer(sidecar: Sidecar, connection: socket.socket, _request: Request) -> None:
        connection.sendall(data)
        sidecar.stopped.wait()

    return answer


def when_asked_again(data: bytes):
    """Nothing until something more comes on this connection, or its end; then this alone."""

    def answer(sidecar: Sidecar, connection: socket.socket, request: Request) -> None:
        connection.recv(1, socket.MSG_PEEK)
        then_stall(data)(sidecar, connection, request)

    return answer


def after(seconds: float, answer: Callable[[Sidecar, socket.socket, Request], None]):
    """The answer, once the shim has had time to do something rash."""

    def answer_late(sidecar: Sidecar, connection: socket.socket, request: Request) -> None:
        sidecar.stopped.wait(seconds)
        answer(sidecar, connection, request)

    return answer_late
