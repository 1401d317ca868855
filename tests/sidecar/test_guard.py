from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp.test_utils import TestClient

from sidecar import PROTOCOL, __version__
from sidecar.activity import ACTIVITY
from sidecar.app import ROUTES, make_app
from sidecar.settings import Settings

Client = TestClient[Any, Any]


@pytest.fixture
async def tcp_client(
    settings: Settings, aiohttp_client: Callable[..., Awaitable[Client]]
) -> Client:
    """A client of an application that wants a token."""
    app = make_app(settings, instance="instance", token="secret")
    return await aiohttp_client(app, headers={"Memory-Protocol": "1"})


async def refusal(reply: Any) -> tuple[int, str]:
    return reply.status, (await reply.json())["error"]["code"]


@pytest.mark.parametrize("protocol", ["2", "0", "", "1.0", "x" * 1000])
async def test_another_protocol_is_told_both_versions_and_the_command_that_mends_it(
    client: Client, protocol: str
) -> None:
    reply = await client.post("/v1/snapshot", headers={"Memory-Protocol": protocol}, json={})
    message = (await reply.json())["error"]["message"]
    assert await refusal(reply) == (501, "unsupported_protocol")
    assert f"protocol {protocol[:20]}, " in message
    assert f"{__version__}) speaks protocol {PROTOCOL}." in message
    assert "opencode-memory install" in message


async def test_a_protocol_that_is_no_text_is_told_too(client: Client) -> None:
    reader, writer = await asyncio.open_connection(client.server.host, client.server.port)
    writer.write(b"GET /v1/sessions HTTP/1.1\r\nHost: a\r\nMemory-Protocol: \xff\r\n\r\n")
    assert await reader.readline() == b"HTTP/1.1 501 Not Implemented\r\n"
    assert b"The request speaks protocol ?, this sidecar" in await reader.readuntil(b"}}")
    writer.close()


async def test_health_is_answered_in_any_protocol(client: Client) -> None:
    reply = await client.get("/v1/health", headers={"Memory-Protocol": "99"})
    health = await reply.json()
    assert (health["protocol"], health["version"]) == (PROTOCOL, __version__)
    assert health["instance"] == "instance"


@pytest.mark.parametrize("path", ["/v1/health", "/v1/snapshot", "/nowhere"])
async def test_a_web_page_is_refused_everywhere_and_gets_no_cors_header(
    client: Client, path: str
) -> None:
    reply = await client.post(path, headers={"Origin": "https://example.com"})
    assert await refusal(reply) == (403, "forbidden_origin")
    assert not [name for name in reply.headers if name.startswith("Access-Control")]


@pytest.mark.parametrize("origin", [{}, {"Origin": "null"}, {"Origin": "http://127.0.0.1"}])
async def test_no_route_ever_sends_a_cors_header(
    client: Client, ask: Callable[..., dict[str, object]], origin: dict[str, str]
) -> None:
    statuses = set()
    for route in ROUTES:
        path = route.path.format(name="memory_list", session_id="ses_a")
        for method in (route.method, "OPTIONS"):
            reply = await client.request(method, path, json=ask(), headers=origin)
            statuses.add(reply.status)
            assert not [name for name in reply.headers if name.startswith("Access-Control")]
    assert statuses == ({403} if origin else {200, 204, 400, 405} & statuses)


async def test_a_preflight_gets_no_cors_header(client: Client) -> None:
    reply = await client.options("/v1/snapshot")
    assert reply.status == 405
    assert not [name for name in reply.headers if name.startswith("Access-Control")]


@pytest.mark.parametrize(
    "token", ["", "Bearer", "Bearer no", "secret", "Bearer secret2", "Bearer s\u00e9cret"]
)
async def test_over_tcp_the_token_is_needed(tcp_client: Client, token: str) -> None:
    reply = await tcp_client.get("/v1/health", headers={"Authorization": token})
    assert await refusal(reply) == (401, "unauthorized")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example:1"])
async def test_over_tcp_the_host_must_be_this_machine(tcp_client: Client, host: str) -> None:
    headers = {"Authorization": "Bearer secret", "Host": host}
    assert await refusal(await tcp_client.get("/v1/health", headers=headers)) == (
        403,
        "forbidden_host",
    )


async def test_over_tcp_the_right_token_and_host_get_through(tcp_client: Client) -> None:
    reply = await tcp_client.get("/v1/health", headers={"Authorization": "Bearer secret"})
    assert reply.status == 200


async def test_over_tcp_the_runs_name_is_told_to_who_has_the_token_and_to_nobody_else(
    tcp_client: Client, client: Client
) -> None:
    token = {"Authorization": "Bearer secret"}
    for path in ("/v1/health", "/v1/nowhere"):
        assert (await tcp_client.get(path, headers=token)).headers["Memory-Instance"] == "instance"
        assert "Memory-Instance" not in (await tcp_client.get(path)).headers
        assert "Memory-Instance" not in (await client.get(path)).headers


@pytest.mark.parametrize(("size", "status"), [(8_000, 200), (9_000, 400)])
async def test_a_header_longer_than_8_kib_is_refused(
    client: Client, size: int, status: int
) -> None:
    assert (await client.get("/v1/health", headers={"X": "y" * size})).status == status


async def test_a_route_that_does_not_exist_is_named(client: Client) -> None:
    reply = await client.get("/v1/nowhere")
    assert await refusal(reply) == (404, "not_found")
    assert "/v1/nowhere" in (await reply.json())["error"]["message"]
    assert reply.headers["Memory-Protocol"] == "1"


async def test_a_request_shows_that_the_sidecar_is_in_use(client: Client) -> None:
    assert client.app is not None
    activity = client.app[ACTIVITY]
    activity.last_at = 0
    assert (await client.get("/v1/health")).status == 200
    assert activity.last_at > 0


async def test_health_has_the_last_ten_warnings_and_of_an_exception_its_type(
    client: Client,
) -> None:
    for number in range(11):
        logging.getLogger("sidecar").warning("warning %d", number)
    try:
        raise ValueError("words of the user's")
    except ValueError:
        logging.getLogger("sidecar").exception("It failed")
    logging.getLogger("sidecar").info("all is well")
    health = await (await client.get("/v1/health")).json()
    messages = [warned["message"] for warned in health["warnings"]]
    failed = "It failed (ValueError; the log has more)"
    assert messages == [*(f"warning {number}" for number in range(2, 11)), failed]


async def test_another_instances_stop_does_not_stop_this_one(client: Client) -> None:
    reply = await client.post("/v1/stop", json={"instance": "another"})
    assert await refusal(reply) == (409, "other_instance")
