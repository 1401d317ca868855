from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp.test_utils import TestClient

from sidecar import body
from sidecar.client import connect
from sidecar.endpoint import read_endpoint
from sidecar.settings import Settings

from ..process import Child

HEAD = b"POST /v1/%s HTTP/1.1\r\nHost: localhost\r\nMemory-Protocol: 1\r\nContent-Length: 9\r\n\r\n"


@pytest.mark.parametrize("route", [b"snapshot", b"tools/memory_list", b"events", b"stop"])
async def test_a_body_that_does_not_arrive_in_time_is_refused_and_the_connection_ended(
    client: TestClient[Any, Any], monkeypatch: pytest.MonkeyPatch, route: bytes
) -> None:
    monkeypatch.setattr(body, "BODY_SECONDS", 0.1)
    reader, writer = await asyncio.open_connection(client.server.host, client.server.port)
    writer.write(HEAD % route + b'{"a')
    assert await reader.readline() == b"HTTP/1.1 408 Request Timeout\r\n"
    assert b"body_too_slow" in await reader.readuntil(b"}}")
    writer.close()


def test_a_caller_that_leaves_in_the_middle_of_its_body_is_nothing_for_the_log(
    serve: Callable[..., Child], settings: Settings
) -> None:
    child = serve()
    endpoint = read_endpoint(settings.endpoint_file)
    assert endpoint is not None
    head = HEAD % b"snapshot"
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(str(endpoint.socket))
        caller.sendall(head.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n"))
        assert caller.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        caller.sendall(b'{"a')
    assert connect(settings).call("GET", "/v1/health")["pid"] == child.pid
    child.end()
    assert "listens on" in child.output()
    assert "failed" not in child.output()


async def test_a_body_that_is_not_what_its_head_says_is_refused(
    client: TestClient[Any, Any], caplog: pytest.LogCaptureFixture
) -> None:
    packed = {"Content-Encoding": "gzip"}
    reply = await client.post("/v1/snapshot", data=b"not gzip", headers=packed)
    assert (reply.status, (await reply.json())["error"]["code"]) == (400, "body_broken_off")
    assert [record for record in caplog.records if record.name.startswith("sidecar")] == []
