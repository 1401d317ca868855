from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from aiohttp.test_utils import TestClient

from sidecar.settings import Settings

Ask = Callable[..., dict[str, object]]
Client = TestClient[Any, Any]


async def test_a_session_is_shown_with_its_exact_text(client: Client, ask: Ask) -> None:
    text = await (await client.post("/v1/snapshot", json=ask())).text()
    shown = await (await client.get("/v1/sessions/ses_a")).json()
    assert shown["text"] == text
    assert shown["metadata"]["epoch"] == "initial"


async def test_a_session_without_a_snapshot_is_not_found(client: Client) -> None:
    reply = await client.get("/v1/sessions/ses_a")
    assert (reply.status, (await reply.json())["error"]["code"]) == (404, "session_not_found")


async def test_a_cleared_session_is_rendered_anew(
    client: Client, ask: Ask, settings: Settings
) -> None:
    await client.post("/v1/snapshot", json=ask())
    memory = settings.config_folders[0] / "memory"
    memory.mkdir(parents=True)
    (memory / "human.md").write_text("since then")
    assert await (await client.delete("/v1/sessions/ses_a")).json() == {"cleared": ["ses_a"]}
    assert await (await client.delete("/v1/sessions/ses_a")).json() == {"cleared": []}
    assert "since then" in await (await client.post("/v1/snapshot", json=ask())).text()


async def test_all_sessions_are_cleared_in_memory_and_on_disk(
    client: Client, ask: Ask, settings: Settings
) -> None:
    for session_id in ("ses_b", "ses_a"):
        await client.post("/v1/snapshot", json=ask(session_id))
    os.link(settings.snapshot_folder / "ses_a.xml", settings.snapshot_folder / "ses_disk.xml")
    reply = await client.delete("/v1/sessions")
    assert await reply.json() == {"cleared": ["ses_a", "ses_b", "ses_disk"]}
    assert list(settings.snapshot_folder.iterdir()) == []


async def test_a_purge_of_what_is_to_come_is_refused(client: Client, ask: Ask) -> None:
    await client.post("/v1/snapshot", json=ask())
    reply = await client.post("/v1/purge", json={"older_than_days": -1, "dry_run": False})
    assert reply.status == 400
    assert (await client.get("/v1/sessions/ses_a")).status == 200


async def test_a_purge_spares_what_is_in_use(client: Client, ask: Ask, settings: Settings) -> None:
    for session_id in ("ses_live", "ses_old"):
        await client.post("/v1/snapshot", json=ask(session_id))
    live, old = (settings.snapshot_folder / f"ses_{name}.xml" for name in ("live", "old"))
    old.rename(settings.snapshot_folder / "ses_unused.xml")
    for file in (live, settings.snapshot_folder / "ses_unused.xml"):
        os.utime(file, (0, 0))
    await client.post("/v1/snapshot", json=ask("ses_b"))
    young = (settings.snapshot_folder / "ses_b.xml").rename(
        settings.snapshot_folder / "ses_young.xml"
    )
    then = time.time() - 29 * 86_400
    os.utime(young, (then, then))
    asked = {"older_than_days": 30, "dry_run": True}
    assert await (await client.post("/v1/purge", json=asked)).json() == {"removed": ["ses_unused"]}
    asked["dry_run"] = False
    assert await (await client.post("/v1/purge", json=asked)).json() == {"removed": ["ses_unused"]}
    left = sorted(file.name for file in settings.snapshot_folder.iterdir())
    assert left == ["ses_live.xml", "ses_young.xml"]
