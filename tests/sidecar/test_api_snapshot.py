from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient

from sidecar.host_package import has_stand_in, place_stand_in
from sidecar.inventory import take_inventory
from sidecar.settings import Settings
from snapshots.marker import MARKER

Ask = Callable[..., dict[str, object]]
Client = TestClient[Any, Any]


def write_block(project: Path, value: str) -> None:
    folder = project / ".opencode" / "memory"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "notes.md").write_text(f"---\nlabel: notes\n---\n{value}\n")


async def test_a_session_gets_its_text_as_plain_bytes_with_an_etag(
    client: Client, ask: Ask, project: Path, settings: Settings
) -> None:
    write_block(project, "make test")
    reply = await client.post("/v1/snapshot", json=ask())
    text = await reply.read()
    assert reply.status == 200
    assert reply.headers["Content-Type"] == "text/plain; charset=utf-8"
    names = ("Memory-Protocol", "Memory-Session", "Memory-Placement")
    assert [reply.headers[name] for name in names] == ["1", "ses_a", "message"]
    assert text.startswith(MARKER.encode())
    assert b"\nmake test\n" in text
    file = settings.snapshot_folder / "ses_a.xml"
    assert file.read_bytes().partition(b"\n")[2] == text


async def test_the_bytes_stay_when_memory_changes_and_a_new_session_has_the_change(
    client: Client, ask: Ask, project: Path
) -> None:
    write_block(project, "v1")
    first = await (await client.post("/v1/snapshot", json=ask())).read()
    write_block(project, "v2")
    assert await (await client.post("/v1/snapshot", json=ask())).read() == first
    assert b"v2" in await (await client.post("/v1/snapshot", json=ask("ses_b"))).read()
    assert b"v2" in await (await client.post("/v1/snapshot", json=ask(epoch="2"))).read()


async def test_a_fork_of_a_session_whose_first_message_was_undone_is_given_its_bytes(
    client: Client, ask: Ask, project: Path
) -> None:
    write_block(project, "v1")
    for origin in ("a" * 64, "b" * 64):
        reply = await client.post("/v1/snapshot", json={**ask(), "origin": origin})
        given = await reply.read()
    write_block(project, "v2")
    fork = await client.post("/v1/snapshot", json={**ask("ses_fork"), "origin": "b" * 64})
    assert await fork.read() == given


async def test_a_matching_etag_gets_304_and_no_body(client: Client, ask: Ask) -> None:
    etag = (await client.post("/v1/snapshot", json=ask())).headers["ETag"]
    reply = await client.post("/v1/snapshot", json=ask(), headers={"If-None-Match": etag})
    assert (reply.status, await reply.read()) == (304, b"")
    assert reply.headers["ETag"] == etag
    other = await client.post("/v1/snapshot", json=ask(), headers={"If-None-Match": '"other"'})
    assert other.status == 200


async def test_global_and_project_blocks_are_both_there(
    client: Client, ask: Ask, project: Path, settings: Settings
) -> None:
    write_block(project, "of the project")
    memory = settings.config_folders[0] / "memory"
    memory.mkdir(parents=True)
    (memory / "human.md").write_text("of the user\n")
    text = await (await client.post("/v1/snapshot", json=ask())).text()
    assert text.index("of the user") < text.index("of the project")


async def test_nothing_is_seeded_on_disk(
    client: Client, ask: Ask, project: Path, settings: Settings
) -> None:
    text = await (await client.post("/v1/snapshot", json=ask())).text()
    assert "persona" in text
    assert os.listdir(project) == []
    assert not settings.config_folders[0].exists()


async def test_fifty_first_requests_at_once_get_the_same_bytes_while_a_block_is_edited(
    client: Client, ask: Ask, project: Path
) -> None:
    write_block(project, "version 0")
    requests = [asyncio.create_task(client.post("/v1/snapshot", json=ask())) for _ in range(50)]
    edits = 0
    while not all(request.done() for request in requests):
        edits += 1
        await asyncio.to_thread(write_block, project, f"version {edits}")
    texts = {await (await request).read() for request in requests}
    assert len(texts) == 1
    assert edits > 1


@pytest.mark.parametrize(
    ("body", "status", "code", "words"),
    [
        (b"{", 400, "malformed_json", "not JSON"),
        (b'{"session_id": 1}', 400, "invalid_request", "$.session_id"),
        (b"{}", 400, "invalid_request", "required field"),
        (b"[]", 400, "invalid_request", "object"),
        (b"x" * 65_537, 413, "body_too_large", "65536 bytes"),
    ],
)
async def test_a_body_that_is_wrong_gets_a_sentence(
    client: Client, body: bytes, status: int, code: str, words: str
) -> None:
    reply = await client.post("/v1/snapshot", data=body)
    error = (await reply.json())["error"]
    assert (reply.status, error["code"]) == (status, code)
    assert words in error["message"]


@pytest.mark.parametrize(
    ("field", "value", "code", "words"),
    [
        ("session_id", "../../etc/passwd", "invalid_session_id", "not a session id"),
        ("session_id", "", "invalid_session_id", "not a session id"),
        ("epoch", "a\nb", "invalid_request", "$.epoch"),
        ("epoch", "a\n", "invalid_request", "$.epoch"),
        ("epoch", "a b", "invalid_request", "$.epoch"),
        ("epoch", "a" * 101, "invalid_request", "$.epoch"),
        ("origin", "../../../passwd", "invalid_request", "$.origin"),
        ("origin", "0" * 65, "invalid_request", "$.origin"),
        ("origin", "0" * 64 + "\n", "invalid_request", "$.origin"),
        ("began", "x" * 101, "invalid_request", "$.began"),
        ("directory", "/" + "a" * 4096, "invalid_request", "$.directory"),
        ("directory", "relative/path", "invalid_request", "absolute"),
        ("directory", "/with\0zero", "invalid_request", "absolute"),
        ("config_directories", ["relative"], "invalid_request", "absolute"),
        ("config_directories", ["/a"] * 9, "invalid_request", "$.config_directories"),
    ],
)
async def test_a_field_that_is_wrong_gets_a_sentence_and_makes_no_file(
    client: Client, ask: Ask, settings: Settings, field: str, value: object, code: str, words: str
) -> None:
    reply = await client.post("/v1/snapshot", json={**ask(), field: value})
    error = (await reply.json())["error"]
    assert (reply.status, error["code"]) == (400, code)
    assert words in error["message"]
    assert not settings.snapshot_folder.exists()


async def test_fields_of_a_newer_shim_are_passed_over(client: Client, ask: Ask) -> None:
    reply = await client.post("/v1/snapshot", json={**ask(), "of_a_newer_shim": 1})
    assert reply.status == 200


async def test_a_failure_that_nobody_foresaw_tells_a_stranger_nothing(
    client: Client, ask: Ask, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError(f"in {project}")

    monkeypatch.setattr("sidecar.config.read_blocks", fail)
    reply = await client.post("/v1/snapshot", json=ask())
    assert (reply.status, (await reply.json())["error"]["code"]) == (500, "internal")
    assert str(project) not in json.dumps(await reply.json())


@pytest.mark.parametrize(
    ("policy", "given"),
    [("inject", ["of the user", "of the project"]), ("project-only", ["of the project"])],
)
async def test_a_subagent_is_given_what_the_settings_say(
    client: Client, ask: Ask, project: Path, settings: Settings, policy: str, given: list[str]
) -> None:
    choose(settings, policy)
    write_block(project, "of the project")
    text = await (await client.post("/v1/snapshot", json={**ask(), "parent_id": "ses_p"})).text()
    assert [words for words in ("of the user", "of the project") if words in text] == given
    assert "of the user" in await (await client.post("/v1/snapshot", json=ask("ses_p"))).text()


async def test_that_a_subagent_is_given_nothing_is_frozen_like_everything_else(
    client: Client, ask: Ask, settings: Settings
) -> None:
    choose(settings, "skip")
    child = {**ask(), "parent_id": "ses_p"}
    assert (await client.post("/v1/snapshot", json=child)).status == 204
    choose(settings, "inject")
    assert (await client.post("/v1/snapshot", json=child)).status == 204
    assert (await client.post("/v1/snapshot", json=ask())).status == 204
    await client.delete("/v1/sessions/ses_a")
    assert (await client.post("/v1/snapshot", json=child)).status == 200


def choose(settings: Settings, policy: str) -> None:
    memory = settings.config_folders[0] / "memory"
    memory.mkdir(parents=True, exist_ok=True)
    (memory / "human.md").write_text("of the user\n")
    chosen = json.dumps({"subagents": policy})
    (settings.config_folders[0] / "agent-memory.json").write_text(chosen)


async def test_a_running_session_does_not_move_when_the_users_trust_changes(
    client: Client, ask: Ask, project: Path, settings: Settings
) -> None:
    write_block(project, "from the repository")
    settings.config_folders[0].mkdir(parents=True)
    chosen = settings.config_folders[0] / "agent-memory.json"
    chosen.write_text('{"project_trust": "ask"}')
    without = await (await client.post("/v1/snapshot", json=ask("ses_before"))).read()
    assert b"from the repository" not in without
    look = partial(take_inventory, settings.config_folders, project, settings.trust_folder)
    await asyncio.to_thread(look, seen=True)
    assert await (await client.post("/v1/snapshot", json=ask("ses_before"))).read() == without
    with_it = await (await client.post("/v1/snapshot", json=ask("ses_after"))).read()
    assert b"from the repository" in with_it
    chosen.write_text('{"project_trust": "none"}')
    assert await (await client.post("/v1/snapshot", json=ask("ses_after"))).read() == with_it


async def test_what_the_agent_writes_needs_no_second_look(
    client: Client, ask: Ask, project: Path, settings: Settings
) -> None:
    settings.config_folders[0].mkdir(parents=True)
    (settings.config_folders[0] / "agent-memory.json").write_text('{"project_trust": "ask"}')
    call = {**ask(), "turn_id": "t", "arguments": {"label": "made", "value": "by the agent"}}
    assert (await client.post("/v1/tools/memory_set", json=call)).status == 200
    assert b"by the agent" in await (await client.post("/v1/snapshot", json=ask("ses_b"))).read()


async def test_the_hosts_package_gets_its_place_back_once_other_code_may_need_it(
    client: Client,
    ask: Ask,
    settings: Settings,
    left_for_later: Callable[[], Awaitable[None]],
) -> None:
    config = settings.config_folders[0]
    config.mkdir(parents=True)
    await asyncio.to_thread(place_stand_in, config)
    assert (await client.post("/v1/snapshot", json=ask("ses_a"))).status == 200
    await left_for_later()
    assert await asyncio.to_thread(has_stand_in, config)
    (config / "tool").mkdir()
    (config / "tool" / "mine.ts").write_text('import { tool } from "@opencode-ai/plugin"')
    assert (await client.post("/v1/snapshot", json=ask("ses_b"))).status == 200
    await left_for_later()
    assert sorted(file.name for file in config.iterdir()) == ["tool"]
