"""The agent's tools, called by the model through the real host."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sidecar.tools import definitions
from sidecar.verify.recorder import Answer

if TYPE_CHECKING:
    from pathlib import Path

    from .scenario import Session, World

DONE = Answer("Done.")


def call(world: World, session: Session, name: str, **arguments: Any) -> str:
    """Have the model call a tool, and return what the model was then shown."""
    world.prompt(session, Answer("I use a tool.", tool=name, arguments=arguments), DONE)
    *_, result = (m for m in session.sent[-1].json["messages"] if m["role"] == "tool")
    return str(result["content"])


def block(world: World, label: str) -> Path:
    return world.project / ".opencode/memory" / f"{label}.md"


def test_every_tool_changes_the_file_and_answers_with_it_and_moves_no_byte(world: World) -> None:
    world.write_block("stack", "Written in Python.", world.project)
    session = world.session()
    assert "project:stack: 18 of 5000 characters" in call(world, session, "memory_list")
    assert "Written in Python." in call(world, session, "memory_get", label="stack")

    answer = call(world, session, "memory_set", label="traps", value="none yet", limit=20)
    assert "project:traps has 8 of 20 characters" in answer
    assert block(world, "traps").read_text().endswith("---\nnone yet\n")

    edits = [{"oldText": "none", "newText": "$& one"}, {"oldText": "yet", "newText": "now"}]
    answer = call(world, session, "memory_replace", label="traps", edits=edits)
    assert "$& one now" in answer
    assert block(world, "traps").read_text().endswith("---\n$& one now\n")

    answer = call(world, session, "memory_set", label="traps", value="x" * 21)
    assert "1 over its limit of 20" in answer
    assert "$& one now" in answer
    assert "traps" not in call(world, session, "memory_oversized")

    answer = call(world, session, "memory_replace", label="stack", oldText="Python", newText="Rust")
    assert "Written in Rust." in answer
    answer = call(world, session, "memory_replace", label="stack", oldText="Python", newText="Go")
    assert "stands in the snapshot" in answer
    assert "Written in Rust." in answer

    assert "$& one now" in call(world, session, "memory_delete", label="traps")
    assert not block(world, "traps").exists()

    assert session.changes == []
    assert b"Written in Python." in session.head
    newer = world.session()
    world.prompt(newer)
    assert b"Written in Rust." in newer.head


def test_the_model_is_given_the_tools_as_they_are_defined(world: World) -> None:
    session = world.session()
    world.prompt(session)
    given = {tool["function"]["name"]: tool["function"] for tool in session.sent[0].json["tools"]}
    for name, definition in definitions().items():
        assert given[name]["description"] == definition["description"]
        parameters = given[name]["parameters"]
        assert parameters["properties"] == definition["properties"]
        assert parameters.get("required", []) == definition["required"]
        assert parameters["additionalProperties"] is False


def test_without_a_sidecar_the_tools_are_the_same_and_answer_with_what_to_do(
    own_world: World,
) -> None:
    world = own_world
    session = world.session()
    world.prompt(session)
    world.kill_sidecar()
    assert "opencode-memory start" in call(world, session, "memory_list")
    assert session.changes == []


def test_a_write_is_refused_where_the_users_permissions_deny_it(stopped_world: World) -> None:
    world = stopped_world
    configure(world, permission={"*": "allow", "memory_set": "deny"})
    settings(world, ask=True)
    world.start_sidecar()
    world.start_host()
    session = world.session()
    call(world, session, "memory_set", label="a", value="x")
    assert not block(world, "a").exists()
    assert session.changes == []


def test_a_user_who_is_asked_and_allows_it_has_it_written(stopped_world: World) -> None:
    world = stopped_world
    settings(world, ask=True)
    world.start_sidecar()
    world.start_host()
    session = world.session()
    assert "project:a has 1 of" in call(world, session, "memory_set", label="a", value="x")
    assert block(world, "a").exists()


def test_a_user_who_denies_memory_tools_to_an_agent_hides_them_from_it(
    stopped_world: World,
) -> None:
    world = stopped_world
    configure(world, permission={"*": "allow", "memory_*": "deny"})
    world.start_sidecar()
    world.start_host()
    session = world.session()
    world.prompt(session)
    names = {tool["function"]["name"] for tool in session.sent[0].json["tools"]}
    assert "bash" in names
    assert not names & definitions().keys()


def test_the_plan_agent_may_write_memory_as_the_readme_says(world: World) -> None:
    session = world.session()
    write = Answer("I note it.", tool="memory_set", arguments={"label": "a", "value": "x"})
    world.recorder.script(session.id, write, DONE)
    world.host.prompt(session.id, session.directory, "Plan.", session.provider, agent="plan")
    world.check(session)
    assert block(world, "a").exists()
    assert session.changes == []


def configure(world: World, **changes: Any) -> None:
    file = world.home.config / "opencode.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def settings(world: World, **chosen: Any) -> None:
    (world.home.config / "agent-memory.json").write_text(json.dumps(chosen))
