"""Without a sidecar that answers, the user's work goes on, and a head that was sent stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ..process import within

if TYPE_CHECKING:
    from .scenario import World

DEADLINE = 6
"""Seconds for one short turn: the two that the shim may wait, and the host's on a busy machine."""


OURS = "The memory sidecar "


def host_errors(world: World) -> list[str]:
    """What the host itself met; our own line is an error where only the user can help."""
    return [line for line in world.host.log().splitlines() if "ERROR" in line and OURS not in line]


def quiet(world: World) -> bool:
    """Whether the host met no error, and was told of the trouble once, not once per request."""
    return host_errors(world) == [] and world.host.log().count(OURS) == 1


def test_a_sidecar_down_from_the_start_costs_its_memory_and_nothing_else(
    stopped_world: World,
) -> None:
    world = stopped_world
    world.write_block("human", "Prefers short answers.")
    world.start_host()
    session = world.session()
    world.prompt(session)
    with within(DEADLINE):
        world.prompt(session)
    with within(DEADLINE):
        world.prompt(world.session())
    assert session.head is None
    assert quiet(world)

    world.start_sidecar()
    world.prompt(session)
    world.prompt(session)
    assert session.head
    assert len(session.changes) == 1
    assert "this costs one miss" in world.host.log()


def test_a_sidecar_that_goes_leaves_the_heads_where_they_are(own_world: World) -> None:
    world = own_world
    world.write_block("human", "Prefers short answers.")
    session = world.session()
    world.prompt(session)
    world.kill_sidecar()
    world.write_block("human", "Prefers long answers.")
    with within(DEADLINE):
        world.prompt(session)
    with within(DEADLINE):
        world.prompt(session)
    assert session.head
    assert session.changes == []
    assert quiet(world)


def test_a_sidecar_that_hangs_holds_up_no_prompt_and_moves_no_head(own_world: World) -> None:
    world = own_world
    world.write_block("human", "Prefers short answers.")
    session = world.session()
    world.prompt(session)
    world.pause_sidecar()
    world.write_block("human", "Prefers long answers.")
    with within(DEADLINE):
        world.prompt(session)
    newer = world.session()
    with within(DEADLINE):
        world.prompt(newer)
    assert newer.head is None
    assert quiet(world)
    world.resume_sidecar()
    world.prompt(session)
    assert session.head
    assert session.changes == []


def test_a_new_session_waits_no_longer_than_its_deadline_for_a_hung_sidecar(
    own_world: World,
) -> None:
    world = own_world
    world.prompt(world.session())
    world.pause_sidecar()
    session = world.session()
    with within(DEADLINE):
        world.prompt(session)
    assert session.head is None


@pytest.mark.parametrize(
    "reply",
    [
        b"\0\xff garbage\r\n\r\n",
        b"",
        b'HTTP/1.1 200 OK\r\nmemory-protocol: 1\r\netag: "x"\r\ncontent-length: 5\r\n\r\nhello',
        b'HTTP/1.1 200 OK\r\nmemory-protocol: 1\r\netag: "x"\r\ncontent-length: 999\r\n\r\n<!-- ',
        b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n",
    ],
    ids=["noise", "nothing", "text of someone else", "half a reply", "an error"],
)
def test_garbage_in_place_of_a_sidecar_is_never_injected(own_world: World, reply: bytes) -> None:
    world = own_world
    world.write_block("human", "Prefers short answers.")
    session = world.session()
    world.prompt(session)
    world.replace_sidecar(reply)
    world.write_block("human", "Prefers long answers.")
    with within(DEADLINE):
        world.prompt(session)
    newer = world.session()
    with within(DEADLINE):
        world.prompt(newer)
    assert session.head
    assert session.changes == []
    assert newer.head is None
    assert host_errors(world) == []
