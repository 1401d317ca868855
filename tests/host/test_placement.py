"""Memory as a part of the user's first message: no two of the user's messages stand in a row."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from sidecar.verify.recorder import MARKER, Answer, Request

from . import opencode

if TYPE_CHECKING:
    from .scenario import World

LOOK = Answer("I look.", tool="bash", arguments={"command": "echo one", "description": "Look"})


def choose(world: World, placement: str) -> None:
    file = world.home.config / "agent-memory.json"
    file.write_text(json.dumps({"placement": placement}))


def roles(request: Request) -> list[str]:
    return [m["role"] for m in request.json["messages"] if m["role"] != "system"]


def parts_of(request: Request) -> list[dict[str, Any]]:
    first = next(m for m in request.json["messages"] if m["role"] == "user")
    return list(first["content"])


@pytest.mark.parametrize("provider", opencode.PROVIDERS)
def test_as_a_part_it_is_as_stable_and_no_two_user_messages_stand_in_a_row(
    own_world: World, provider: str
) -> None:
    world = own_world
    choose(world, "part")
    world.write_block("human", "Prefers short answers.")
    session = world.session(provider=provider)
    world.prompt(session, LOOK, Answer("Done."))
    world.write_block("human", "Prefers long answers.")
    choose(world, "message")  # what has begun stays as it is
    world.prompt(session)
    world.kill_sidecar()
    world.prompt(session)
    world.start_sidecar()
    fork = world.fork(session)
    world.prompt(fork)
    assert session.changes == fork.changes == []
    world.compact(session)
    world.prompt(session)
    world.prompt(session)
    assert len(session.changes) == 1
    for request in [*session.sent, *fork.sent]:
        ours, theirs = parts_of(request)[:2]
        assert ours["text"].startswith(MARKER)
        assert theirs["text"]
        pairs = zip(roles(request), roles(request)[1:], strict=False)
        assert ("user", "user") not in pairs
    later = world.session(provider=provider)
    world.prompt(later)
    assert later.head
    if provider == "stub":
        assert roles(later.sent[0]) == ["user", "user"]


def test_as_a_part_it_is_in_no_title(own_world: World) -> None:
    world = own_world
    choose(world, "part")
    world.write_block("human", "Prefers short answers.")
    session = world.session(title="")
    world.prompt(session)
    assert any(request.kind == "title" for request in world.recorder.requests)
    for request in world.recorder.requests:
        assert request.kind == "main" or MARKER.encode() not in request.body
