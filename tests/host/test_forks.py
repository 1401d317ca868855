"""A fork begins with the bytes that its parent was given, whatever memory says by then."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .scenario import World


def test_a_fork_keeps_its_parents_bytes_although_memory_has_changed(world: World) -> None:
    world.write_block("human", "Prefers short answers.")
    parent = world.session()
    world.prompt(parent)
    world.prompt(parent)
    world.write_block("human", "Prefers long answers.")
    fork = world.fork(parent)
    world.prompt(fork)
    early = world.fork(parent, before=2)
    world.prompt(early)
    fork_of_fork = world.fork(fork)
    world.prompt(fork_of_fork)
    for session in (fork, early, fork_of_fork):
        assert session.head == parent.head
        assert session.changes == []
    newer = world.session()
    world.prompt(newer)
    assert newer.head != parent.head


def test_a_fork_after_a_compaction_keeps_the_bytes_since_then(world: World) -> None:
    world.write_block("human", "Prefers short answers.")
    parent = world.session()
    world.prompt(parent)
    world.write_block("human", "Prefers long answers.")
    world.compact(parent)
    world.prompt(parent)
    world.write_block("human", "Prefers no answers.")
    fork = world.fork(parent)
    world.prompt(fork)
    assert fork.head == parent.head
    assert b"Prefers long answers." in fork.head
    assert fork.changes == []


def test_a_fork_finds_its_parents_bytes_after_restarts_too(own_world: World) -> None:
    world = own_world
    world.write_block("human", "Prefers short answers.")
    parent = world.session()
    world.prompt(parent)
    world.write_block("human", "Prefers long answers.")
    world.kill_sidecar()
    world.kill_host()
    world.start_sidecar()
    world.start_host()
    fork = world.fork(parent)
    world.prompt(fork)
    assert fork.head == parent.head
    assert fork.changes == []
