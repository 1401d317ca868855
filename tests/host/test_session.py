"""A session's prompt only ever grows, and begins with memory as it was when the session began."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sidecar.verify.recorder import MARKER, Answer

from ..process import until
from . import opencode

if TYPE_CHECKING:
    from .scenario import World

LOOK = Answer("I look.", tool="bash", arguments={"command": "echo one", "description": "Look"})
READ = Answer("I read.", tool="bash", arguments={"command": "echo two", "description": "Read"})
DONE = Answer("Done.")


def test_three_prompts_with_tool_calls_only_extend_what_was_sent(world: World) -> None:
    world.write_block("human", "Prefers short answers.")
    session = world.session()
    world.prompt(session, LOOK, READ, DONE)
    world.prompt(session, DONE)
    world.prompt(session, LOOK, DONE)
    assert len(session.sent) == 6
    assert session.changes == []
    assert world.show(session) == session.head


def test_blocks_that_change_in_mid_session_move_no_byte_and_reach_the_next_session(
    world: World,
) -> None:
    world.write_block("human", "Prefers short answers.")
    world.write_block("persona", "Speaks plainly.")
    world.write_block("stack", "Written in Python.", world.project)
    session = world.session()
    world.prompt(session, LOOK, DONE)
    world.write_block("human", "Prefers long answers.")
    world.prompt(session)
    world.write_block("stack", "Written in Rust.", world.project)
    world.write_block("traps", "The build needs a clean tree.", world.project)
    world.prompt(session, LOOK, DONE)
    world.delete_block("persona")
    world.delete_block("traps", world.project)
    world.prompt(session)
    assert session.changes == []

    newer = world.session()
    world.prompt(newer)
    assert b"Prefers long answers." in newer.head
    assert b"Written in Rust." in newer.head
    assert b"Speaks plainly." not in newer.head
    world.prompt(session)
    assert b"Prefers short answers." in session.head


def test_projects_share_the_global_blocks_and_the_same_memory_gives_the_same_bytes(
    world: World,
) -> None:
    world.write_block("human", "Prefers short answers.")
    sessions = []
    for stack in ("Python", "Rust", "Rust"):
        project = world.new_project()
        world.write_block("stack", f"Written in {stack}.", project)
        sessions.append(world.session(project))
        world.prompt(sessions[-1])
    python, rust, twin = sessions
    assert b"Written in Rust." not in python.head
    assert rust.head == twin.head


def test_opencode_run_continue_sends_the_same_first_message_each_time(
    stopped_world: World,
) -> None:
    world = stopped_world
    world.start_sidecar()
    world.write_block("human", "Prefers short answers.")
    session = world.run()
    for value in ("Prefers long answers.", "Prefers no answers."):
        world.write_block("human", value)
        world.run(session)
    assert len(session.sent) == 3
    assert session.changes == []


def test_clear_renders_memory_anew_on_the_next_request_of_a_running_host(world: World) -> None:
    world.write_block("human", "Prefers short answers.")
    session = world.session()
    world.prompt(session)
    world.write_block("human", "Prefers long answers.")
    world.prompt(session)
    world.clear(session)
    world.prompt(session)
    assert len(session.changes) == 1
    assert session.changes[0].place.startswith("message 0")
    world.clear(session)
    world.prompt(session)
    assert len(session.changes) == 1, "memory had not changed since"


def test_the_snapshot_is_in_no_stored_message_no_export_and_no_title_request(world: World) -> None:
    world.write_block("human", "Prefers short answers.")
    session = world.session(title="")
    world.prompt(session, LOOK, DONE, text="Rename the parser.")
    until(lambda: world.recorder.of(session.id, "title"), "the title request")
    world.prompt(session)

    messages = str(world.host.messages(session.id, session.directory))
    export = opencode.run(world.home, world.project, "export", session.id)
    title = world.recorder.of(session.id, "title")[0].body.decode()
    shim = (world.home.plugins / "opencode-memory.js").read_text()
    (message_id,) = re.findall(r'"(msg_\w{26})"', shim)
    for seen in (messages, export):
        assert "I look." in seen
    assert "Rename the parser." in title
    for seen in (messages, export, title):
        assert MARKER not in seen
        assert "Prefers short answers." not in seen
        assert message_id not in seen


def test_the_snapshot_of_a_deleted_session_goes(world: World) -> None:
    session = world.session()
    world.prompt(session)
    snapshot = world.home.data / f"agent-memory/snapshots/{session.id}.xml"
    assert snapshot.read_bytes().partition(b"\n")[2] == session.head
    world.host.delete(session.id, session.directory)
    until(lambda: not snapshot.exists(), "the snapshot to go")
