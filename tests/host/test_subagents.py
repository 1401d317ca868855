"""What a subagent's session is given: the settings say, once and for all."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from sidecar.verify.recorder import Answer

if TYPE_CHECKING:
    from sidecar.verify.recorder import Request

    from .scenario import Session, World

TASK = Answer(
    "I ask a subagent.",
    tool="task",
    arguments={"description": "Look", "prompt": "Look around.", "subagent_type": "general"},
)


def delegate(world: World, session: Session) -> list[Request]:
    """Have the agent start a subagent, and return the requests that the subagent made."""
    known = {request.session for request in world.recorder.requests}
    world.prompt(session, TASK, Answer("Done."))
    return [
        request
        for request in world.recorder.requests
        if request.kind == "main" and request.session not in known | {session.id}
    ]


@pytest.mark.parametrize(
    ("policy", "given"),
    [
        ("inject", {"Prefers short answers.", "Written in Python."}),
        ("project-only", {"Written in Python."}),
        ("skip", set()),
    ],
)
def test_a_subagent_is_given_what_the_settings_say_and_its_parent_keeps_its_bytes(
    own_world: World, policy: str, given: set[str]
) -> None:
    world = own_world
    (world.home.config / "agent-memory.json").write_text(json.dumps({"subagents": policy}))
    world.write_block("human", "Prefers short answers.")
    world.write_block("stack", "Written in Python.", world.project)
    session = world.session()
    (request,) = delegate(world, session)
    head = (request.head or b"").decode()
    values = {"Prefers short answers.", "Written in Python."}
    assert {value for value in values if value in head} == given
    assert bool(head) == bool(given)
    assert session.changes == []
    assert b"Prefers short answers." in session.head
