"""Anything at all on the socket: each gets an answer or is hung up on, and nobody else notices."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from sidecar.endpoint import read_endpoint
from sidecar.settings import Settings

from ..process import until
from .conftest import Sidecar

CASES = int(os.environ.get("MEMORY_FUZZ_CASES", "400"))
PATHS = ["/v1/snapshot", "/v1/tools/memory_get", "/v1/tools/memory_set", "/v1/events"]
PATHS += ["/v1/inventory", "/v1/purge", "/v1/sessions", "/v1/sessions/ses_a", "/v1/health"]
PATHS += [
    "/v1/sessions/..%2f..%2fetc",
    "/v1/sessions/%ED%A0%80",
    "/%00",
    "*",
    "//",
    "/" + "x" * 9000,
]
METHODS = [
    "POST",
    "GET",
    "DELETE",
    "PUT",
    "OPTIONS",
    "HEAD",
    "CONNECT",
    "TRACE",
    "post",
    "\0",
    "P" * 99,
]
VERSIONS = ["HTTP/1.1", "HTTP/1.0", "HTTP/2", "HTTP/9.9", "", "http/1.1"]
HEADERS = [
    b"Content-Length: -1",
    b"Content-Length: 99999999999999999999",
    b"Content-Length: 5\r\nContent-Length: 6",
    b"Transfer-Encoding: chunked",
    b"Transfer-Encoding: gzip, chunked",
    b"Content-Encoding: gzip",
    b"Content-Encoding: br",
    b"Expect: 100-continue",
    b"Upgrade: websocket\r\nConnection: upgrade",
    b"Origin: null",
    b"Memory-Protocol: \xff",
    b"If-None-Match: \xed\xa0\x80",
    b"no colon",
    b"X: a\r\n folded",
    b"X\0: y",
    b"Host: \xff",
    b"Content-Type: multipart/form-data; boundary=x",
    b"X: " + b"y" * 9000,
    b"X: y\r\n" * 200 + b"Z: z",
]
VALUES: list[object] = [None, True, -1, 1e308, 2**70, "", "\ud800", "\0", "x" * 5000, [], [[]], {}]
VALUES += ["ses_a", "../ses_a", "initial", "/tmp", "~", {"label": "a"}, [{"type": "deleted"}]]
BODIES: list[dict[str, object]] = [
    {"session_id": "ses_a", "epoch": "initial", "directory": "/p", "config_directories": ["/c"]},
    {"events": [{"type": "deleted", "session_id": "ses_b"}]},
    {"older_than_days": 90, "dry_run": True},
    {"instance": "none"},
    {"session_id": "ses_a", "turn_id": "t", "arguments": {"label": "a"}}
    | {"directory": "/p", "config_directories": []},
]


def request(rng: random.Random) -> bytes:
    """One request, well-formed in most of its parts."""
    body = dict(rng.choice(BODIES))
    for _ in range(rng.choice([0, 0, 1, 2])):
        body[rng.choice([*body, "more"])] = rng.choice(VALUES)
    content = json.dumps(body).encode()
    if rng.random() < 0.3:
        at = rng.randrange(len(content))
        content = content[:at] + rng.randbytes(rng.choice([1, 3, 70_000])) + content[at + 1 :]
    if rng.random() < 0.1:
        content = b"[" * 100_000
    said = [rng.choice([*PATHS[:4] * 3, *PATHS]), rng.choice(["HTTP/1.1"] * 12 + VERSIONS)]
    lines = [" ".join([rng.choice(["POST"] * 8 + METHODS), *said]).encode()]
    lines += [b"Host: localhost", b"Memory-Protocol: 1"]
    if rng.random() < 0.9:
        lines.append(b"Content-Length: %d" % (len(content) + rng.choice([0] * 8 + [-1, 1, 1000])))
    lines += rng.choices(HEADERS, k=rng.choice([0, 0, 0, 1, 2]))
    whole = b"\r\n".join([*lines, b"", content])
    if rng.random() < 0.1:
        at = rng.randrange(len(whole))
        whole = whole[:at] + rng.randbytes(rng.randrange(20)) + whole[at + rng.randrange(20) :]
    return whole


def converse(path: str, rng: random.Random) -> bytes:
    """Say something on a new connection, and return all that is answered until it ends."""
    said = b"".join(request(rng) for _ in range(rng.choice([1, 1, 1, 2, 5])))
    if rng.random() < 0.2:
        said = said[: rng.randrange(len(said))]
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        connection.connect(path)
        try:
            size = rng.choice([len(said), len(said), 1000]) or 1
            for at in range(0, len(said), size):
                connection.sendall(said[at : at + size])
            if rng.random() < 0.2:
                return b""  # gone before the answer
            heard = b""
            if rng.random() < 0.5:
                connection.shutdown(socket.SHUT_WR)
            else:
                connection.settimeout(0.03)  # so long without a word is the end of the answers
            with contextlib.suppress(TimeoutError):
                while chunk := connection.recv(65536):
                    heard += chunk
        except (BrokenPipeError, ConnectionResetError):
            return b""
        return heard


def test_whatever_is_said_it_answers_or_hangs_up_and_goes_on(
    start: Callable[..., Sidecar], settings: Settings
) -> None:
    sidecar = start()
    held = sidecar.ask("ses_held").text
    endpoint = read_endpoint(settings.endpoint_file)
    assert endpoint is not None
    statuses: set[str] = set()
    for number in range(CASES):
        heard = converse(str(endpoint.socket), random.Random(number))
        found = re.findall(rb"HTTP/1\.[01] (\d{3}) ", heard)
        statuses |= {status.decode() for status in found}
        assert b" 500 " not in heard, f"case {number}: {heard[:500]!r}"
        assert not heard or heard.startswith(b"HTTP/1."), f"case {number}: {heard[:80]!r}"
        assert held not in heard, f"case {number} was given another session's text"
    assert {"200", "400", "404", "405", "413", "403"} <= statuses
    assert sidecar.ask("ses_held").text == held
    assert "Traceback" not in sidecar.child.output()
    assert "did not foresee" not in sidecar.child.output()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_connections_that_were_given_up_are_given_back(
    start: Callable[..., Sidecar], settings: Settings
) -> None:
    sidecar = start()
    sidecar.ask()
    endpoint = read_endpoint(settings.endpoint_file)
    assert endpoint is not None
    folder = Path(f"/proc/{sidecar.child.pid}/fd")
    before = len(list(folder.iterdir()))
    for number in range(100):
        converse(str(endpoint.socket), random.Random(number))
    until(lambda: len(list(folder.iterdir())) <= before, "every descriptor to be given back")
