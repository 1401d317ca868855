"""What dies and comes back finds the same bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sidecar.verify.recorder import Answer

if TYPE_CHECKING:
    from .scenario import World


@pytest.mark.parametrize("victims", [("host",), ("sidecar",), ("host", "sidecar")], ids="+".join)
def test_a_kill_and_a_restart_move_no_byte(own_world: World, victims: tuple[str, ...]) -> None:
    world = own_world
    world.write_block("human", "Prefers short answers.")
    world.write_block("stack", "Written in Python.", world.project)
    session = world.session()
    world.prompt(session)
    world.write_block("human", "Prefers long answers.")
    for victim in victims:
        getattr(world, f"kill_{victim}")()
    world.delete_block("stack", world.project)
    for victim in reversed(victims):
        getattr(world, f"start_{victim}")()
    world.prompt(session)
    world.prompt(session)
    assert len(session.sent) == 3
    assert session.changes == []


def test_a_host_killed_while_it_waits_for_the_model_goes_on_where_it_was(own_world: World) -> None:
    world = own_world
    world.write_block("human", "Prefers short answers.")
    session = world.session()
    world.prompt(session)
    with world.unanswered(session):
        world.write_block("human", "Prefers long answers.")
        world.kill_host()
    world.start_host()
    world.prompt(session, Answer("Where were we?"))
    assert len(session.sent) == 3
    assert session.changes == []
