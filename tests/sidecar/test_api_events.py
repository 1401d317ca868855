from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiohttp.test_utils import TestClient

from sidecar.settings import Settings

Ask = Callable[..., dict[str, object]]
Client = TestClient[Any, Any]


def an_event(kind: str, session_id: str = "ses_a") -> dict[str, object]:
    return {"events": [{"type": kind, "session_id": session_id}]}


async def test_a_deleted_session_loses_its_snapshot(
    client: Client, ask: Ask, settings: Settings
) -> None:
    await client.post("/v1/snapshot", json=ask())
    await client.post("/v1/snapshot", json=ask("ses_b"))
    assert (await client.post("/v1/events", json=an_event("deleted"))).status == 204
    assert [file.name for file in settings.snapshot_folder.iterdir()] == ["ses_b.xml"]


async def test_a_compacted_session_is_marked_on_the_disk_and_keeps_its_bytes(
    client: Client, ask: Ask, settings: Settings
) -> None:
    first = await (await client.post("/v1/snapshot", json=ask())).read()
    assert (await client.post("/v1/events", json=an_event("compacted"))).status == 204
    file = settings.snapshot_folder / "ses_a.xml"
    assert b'"compacted":true' in file.read_bytes().partition(b"\n")[0]
    assert await (await client.post("/v1/snapshot", json=ask())).read() == first


async def test_an_event_for_something_that_is_no_session_is_refused(client: Client) -> None:
    reply = await client.post("/v1/events", json=an_event("deleted", "../a"))
    assert (reply.status, (await reply.json())["error"]["code"]) == (400, "invalid_session_id")


async def test_more_than_a_hundred_events_at_once_are_refused(client: Client) -> None:
    for count, status in ((100, 204), (101, 400)):
        events = an_event("deleted")["events"] * count  # type: ignore[operator]
        assert (await client.post("/v1/events", json={"events": events})).status == status


async def test_an_event_of_an_unknown_type_is_refused_by_name(client: Client) -> None:
    reply = await client.post("/v1/events", json=an_event("renamed"))
    assert reply.status == 400
    assert "renamed" in (await reply.json())["error"]["message"]
