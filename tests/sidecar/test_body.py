from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp.test_utils import TestClient

from sidecar import body

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


async def test_a_caller_that_leaves_in_the_middle_of_its_body_is_nothing_for_the_log(
    client: TestClient[Any, Any], caplog: pytest.LogCaptureFixture
) -> None:
    reader, writer = await asyncio.open_connection(client.server.host, client.server.port)
    writer.write(HEAD % b"snapshot" + b'{"a')
    writer.write_eof()
    await reader.read()
    writer.close()
    assert (await client.get("/v1/health")).status == 200
    assert caplog.records == []
