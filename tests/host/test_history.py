"""Where the user goes back in a session's history, or takes a copy of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .scenario import World


def test_a_revert_and_its_undoing_extend_what_was_sent_before(world: World) -> None:
    world.write_block("human", "Prefers short answers.")
    session = world.session()
    for _ in range(3):
        world.prompt(session)
    world.write_block("human", "Prefers long answers.")
    world.revert(session, to=2)
    world.unrevert(session)
    world.prompt(session)
    world.revert(session, to=4)
    world.prompt(session)
    world.prompt(session)
    assert len(session.sent) == 6
    assert session.changes == []


def test_a_fork_extends_what_its_parent_had_sent(world: World) -> None:
    world.write_block("human", "Prefers short answers.")
    session = world.session()
    world.prompt(session)
    world.prompt(session)
    whole, early = world.fork(session), world.fork(session, before=2)
    for copy in (whole, early):
        world.prompt(copy)
        world.prompt(copy)
        assert copy.changes == []
    world.prompt(session)
    assert session.changes == []
