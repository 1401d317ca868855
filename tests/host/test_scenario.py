"""The runner sees what it is there to see: each fault is put into the real host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sidecar.verify.recorder import MARKER

if TYPE_CHECKING:
    from .scenario import World

FAULTY = """
let fault = "", count = 0;
const transform = async (_, { messages }) => {
  fault = JSON.stringify(messages).match(/Fault: ([a-z]+)/)?.[1] ?? "";
  if (fault === "head") messages[0].parts[0].text += ` ${count++}`;
  if (fault === "history") messages[1].parts[0].text += ` ${count++}`;
  if (fault === "lost") messages.shift();
  if (fault === "leak" && !JSON.stringify(messages).includes("MARKER"))
    messages.unshift({ info: { role: "user" }, parts: [{ type: "text", text: "MARKER" }] });
};
const system = async (_, output) => {
  if (fault === "system") output.system.push(String(count++));
};
export default {
  id: "faulty",
  server: async () => ({
    "experimental.chat.messages.transform": transform,
    "experimental.chat.system.transform": system,
  }),
};
""".replace("MARKER", MARKER)

COMPLAINTS = {
    "head": "other bytes for the same memory",
    "lost": "no snapshot leads",
    "history": "the prompt changed at message 1, part 0",
    "system": "the prompt changed at system, message 1, part 0",
}


@pytest.fixture
def faulty_world(stopped_world: World) -> World:
    # By name behind our own plugin, so that it finds the snapshot in place.
    (stopped_world.home.plugins / "zz-faulty.js").write_text(FAULTY)
    stopped_world.start_sidecar()
    stopped_world.start_host()
    return stopped_world


def test_the_runner_finds_every_fault_at_the_request_that_has_it(faulty_world: World) -> None:
    world = faulty_world
    for fault, complaint in COMPLAINTS.items():
        session = world.session()
        world.prompt(session)
        with pytest.raises(AssertionError, match=complaint):
            world.prompt(session, text=f"Fault: {fault}")

    for remove in (world.revert, world.delete_message, world.fork):
        session = world.session()
        for _ in range(3):
            world.prompt(session)
        session = remove(session, 4) or session
        with pytest.raises(AssertionError, match="the prompt changed at message 1"):
            world.prompt(session, text="Fault: history")

    session = world.session()
    world.prompt(session)
    session.compacted = True
    with pytest.raises(AssertionError, match="no change where one was due"):
        world.prompt(session)


def test_the_runner_finds_a_snapshot_in_a_summary_request(faulty_world: World) -> None:
    world = faulty_world
    session = world.session()
    world.prompt(session, text="Hello. Fault: leak")
    with pytest.raises(AssertionError, match="a snapshot in a compaction request"):
        world.compact(session)
