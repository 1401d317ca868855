"""Strangers get no connection for long, and nobody gets them all."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import select
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web

from sidecar import connections
from sidecar.app import make_app
from sidecar.client import connect
from sidecar.connections import CONNECTIONS
from sidecar.endpoint import read_endpoint
from sidecar.settings import Settings

from ..process import Child, until
from .conftest import SERVE

HEALTH = b"GET /v1/health HTTP/1.1\r\nHost: 127.0.0.1:1\r\nAuthorization: Bearer secret\r\n\r\n"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture
async def call(settings: Settings) -> AsyncIterator[Callable[[], Awaitable[Streams]]]:
    """Connections to an application that takes two, and gives each 0.3 seconds for its proof."""
    writers = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connections, "PROOF_SECONDS", 0.3)
        runner = web.AppRunner(make_app(settings, instance="instance", token="secret"))
        await runner.setup()
        assert runner.server
        accept = runner.app[CONNECTIONS].accepting(runner.server, 2)
        listener = await asyncio.get_running_loop().create_server(accept, "127.0.0.1", 0)

        async def make() -> Streams:
            streams = await asyncio.open_connection(*listener.sockets[0].getsockname())
            writers.append(streams[1])
            return streams

        yield make
        for writer in writers:
            writer.close()
        listener.close()
        await runner.cleanup()


@pytest.mark.parametrize("said", [b"", HEALTH[:1], HEALTH[:-1]], ids=["nothing", "G", "almost all"])
async def test_who_does_not_finish_a_first_request_is_hung_up_on(
    call: Callable[[], Awaitable[Streams]], said: bytes
) -> None:
    reader, writer = await call()
    writer.write(said)
    assert await asyncio.wait_for(reader.read(), 10) == b""


async def test_who_has_no_token_is_hung_up_on_although_it_keeps_asking(
    call: Callable[[], Awaitable[Streams]],
) -> None:
    reader, writer = await call()
    writer.write(HEALTH.replace(b"secret", b"guess"))
    assert b" 401 " in await asyncio.wait_for(reader.read(), 10)


async def test_who_has_proved_itself_stays(call: Callable[[], Awaitable[Streams]]) -> None:
    reader, writer = await call()
    stranger, _ = await call()
    for _ in range(2):
        writer.write(HEALTH)
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
        await reader.readuntil(b'"warnings":[]}')
        assert await asyncio.wait_for(stranger.read(), 10) == b""  # longer than a proof may take


async def test_one_connection_too_many_is_refused_and_the_others_go_on(
    call: Callable[[], Awaitable[Streams]],
) -> None:
    first, second = [await call(), await call()]
    for reader, writer in (first, second):
        writer.write(HEALTH)
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
    third, refused = await call()
    refused.write(HEALTH)
    with contextlib.suppress(ConnectionError):
        assert await asyncio.wait_for(third.read(), 10) == b""
    first[1].write(HEALTH)
    assert b"HTTP/1.1 200 OK\r\n" in await first[0].readuntil(b"OK\r\n")


def test_with_few_descriptors_connections_never_take_those_that_files_need(
    home: Path, settings: Settings, project: Path, ask: Callable[..., dict[str, object]]
) -> None:
    limited = ["sh", "-c", 'ulimit -n 100 && exec "$@"', "sh"]
    command = [*limited, sys.executable, "-P", "-m", "sidecar", "serve"]
    child = Child(command, os.environ, home, home / "serve.log")
    held = []
    try:
        endpoint = until(lambda: read_endpoint(settings.endpoint_file), "the endpoint")
        child.pause()  # so that all come at once
        for _ in range(300):
            held.append(socket.socket(socket.AF_UNIX))
            held[-1].connect(str(endpoint.socket))
        child.resume()
        until(lambda: len(select.select(held, [], [], 0)[0]) > 250, "all but a few to be refused")
        assert child.output().count("further ones are refused") == 1
        for connection in held[:20]:
            connection.close()
        client = connect(settings)
        until(lambda: _answers(client), "an answer")
        client.call(
            "POST", "/v1/inventory", {k: ask()[k] for k in ("directory", "config_directories")}
        )
        assert "Traceback" not in child.output()
        assert "out of system resource" not in child.output()
    finally:
        for connection in held:
            connection.close()
        child.end()


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize(
    ("limit", "most"), [("-n 64", 64), ("-S -n 100", 1024 + 64), ("-n 4000", 4000)]
)
def test_it_has_as_many_descriptors_as_it_may_and_needs(
    home: Path, settings: Settings, limit: str, most: int
) -> None:
    command = ["sh", "-c", f'ulimit {limit} && exec "$@"', "sh", *SERVE]
    child = Child(command, os.environ, home, home / "serve.log")
    try:
        until(lambda: read_endpoint(settings.endpoint_file), "the endpoint")
        assert _answers(connect(settings))
        said = Path(f"/proc/{child.pid}/limits").read_text().partition("Max open files")[2]
        assert int(said.split()[0]) == most
    finally:
        child.end()


def handlers() -> list[web.RequestHandler]:
    gc.collect()
    return [each for each in gc.get_objects() if isinstance(each, web.RequestHandler)]


async def test_who_was_hung_up_on_is_forgotten(call: Callable[[], Awaitable[Streams]]) -> None:
    of_others = handlers()
    for _ in range(3):
        reader, _ = await call()
        assert await asyncio.wait_for(reader.read(), 10) == b""
    await asyncio.sleep(0)
    assert [each for each in handlers() if each not in of_others] == []


def _answers(client: object) -> bool:
    from sidecar.client import NotRunningError, SidecarError

    try:
        client.call("GET", "/v1/health")  # type: ignore[attr-defined]
    except (NotRunningError, SidecarError):
        return False
    return True
