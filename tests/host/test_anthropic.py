"""The same in Anthropic's wire form, where the host marks what is to be cached."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sidecar.verify.recorder import ANTHROPIC_PATH, MARKER, Answer, Request

if TYPE_CHECKING:
    from .scenario import World

LOOK = Answer("I look.", tool="bash", arguments={"command": "echo one", "description": "Look"})


def test_the_snapshot_leads_the_first_user_message_and_takes_no_cache_mark(world: World) -> None:
    world.write_block("human", "Prefers short answers.")
    session = world.session(provider="stub-anthropic")
    world.prompt(session, LOOK, Answer("Done."))
    world.write_block("human", "Prefers long answers.")
    world.prompt(session)
    world.compact(session)
    world.prompt(session)
    world.prompt(session)
    assert {request.path for request in session.sent} == {ANTHROPIC_PATH}
    assert len(session.changes) == 1
    for request in session.sent:
        first = request.json["messages"][0]
        assert first["role"] == "user"
        assert first["content"][0]["text"].startswith(MARKER)
        assert len(first["content"]) == 2, "the snapshot, then what the host has there"
        assert 2 <= len(marked(request)) <= 4

    # The host marks the last two messages that it has. On a first request ours is one of them.
    opening, *later = session.sent
    assert opening.json["messages"][0]["content"][0] in marked(opening)
    for request in later:
        assert request.json["messages"][0]["content"][0] not in marked(request)


def marked(request: Request) -> list[dict[str, Any]]:
    """The parts that carry the host's cache marks."""
    contents = [message["content"] for message in request.json["messages"]]
    parts = [*request.json["tools"], *request.json["system"]]
    parts += [part for content in contents if isinstance(content, list) for part in content]
    return [part for part in parts if "cache_control" in part]
