"""Compaction is the one moment at which the prefix changes, and memory's only if it changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sidecar.verify.recorder import Answer, Refusal

from .scenario import OVER_THE_LIMIT

if TYPE_CHECKING:
    from collections.abc import Callable

    from .scenario import Session, World


def by_hand(world: World, session: Session) -> None:
    world.compact(session)


def by_itself(world: World, session: Session) -> None:
    """The host compacts after an answer that fills the context, and goes on by itself."""
    world.prompt(session, OVER_THE_LIMIT, Answer("On I go."))


def by_overflow(world: World, session: Session) -> None:
    """The host compacts because the provider refuses the prompt, and sends it again."""
    world.prompt(session, Refusal(), Answer("Now it fits."))


compactions = pytest.mark.parametrize("compact", [by_hand, by_itself, by_overflow])


@compactions
def test_compaction_changes_the_history_once_and_an_unchanged_memory_not_at_all(
    world: World, compact: Callable[[World, Session], None]
) -> None:
    world.write_block("human", "Prefers short answers.")
    session = world.session()
    world.prompt(session)
    head = session.head
    compact(world, session)
    world.prompt(session)
    world.prompt(session)
    assert [change.place for change in session.changes] == ["message 1, part 0"]
    assert session.head == head
    assert len(world.recorder.of(session.id, "compaction")) == 1


@compactions
def test_compaction_brings_a_changed_memory_once(
    world: World, compact: Callable[[World, Session], None]
) -> None:
    world.write_block("human", "Prefers short answers.")
    session = world.session()
    world.prompt(session)
    world.write_block("human", "Prefers long answers.")
    compact(world, session)
    world.prompt(session)
    world.write_block("human", "Prefers no answers.")
    world.prompt(session)
    assert [change.place for change in session.changes] == ["message 0, part 0"]
    assert b"Prefers long answers." in session.head


def test_a_second_compaction_right_after_the_first_moves_memory_only_if_it_changed(
    world: World,
) -> None:
    world.write_block("human", "Prefers short answers.")
    session = world.session()
    world.prompt(session)
    world.compact(session)
    world.compact(session)
    world.prompt(session)
    head = session.head
    world.compact(session)
    world.prompt(session)
    assert session.head == head
    world.write_block("human", "Prefers long answers.")
    world.compact(session)
    world.compact(session)
    world.prompt(session)
    assert session.head != head
