"""Beside other plugins, in both orders, the prefix breaks only where it breaks without ours."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from sidecar.verify.prefix import first_difference
from sidecar.verify.recorder import MARKER, Answer, Request

from . import product
from .opencode import ROOT

if TYPE_CHECKING:
    from .conftest import LastingWorlds
    from .scenario import World

OURS = (ROOT / "plugin-shim/opencode-memory.js").read_text()
LOOK = Answer("I look.", tool="bash", arguments={"command": "echo one", "description": "Look"})

HOOK = """export default { id: "other", server: async () => ({
  "experimental.chat.NAME.transform": async (_, output) => { CODE },
}) };"""


def hook(code: str, name: str = "messages") -> str:
    return HOOK.replace("NAME", name).replace("CODE", code)


EACH_TEXT = "for (const {info, parts} of output.messages) for (const part of parts)"
PLUGINS = {
    "prepends text to the first user message": hook(
        "const first = output.messages.find((each) => each.info.role === 'user');"
        "const part = first?.parts.find((each) => each.type === 'text');"
        "if (part) part.text = 'In this project: ' + part.text;"
    ),
    "appends ids to every part": hook(
        f"{EACH_TEXT} if (part.type === 'text') part.text += `\\n[${{info.id}} ${{part.id}}]`;"
    ),
    "prunes old tool output": hook(
        "const tools = output.messages.flatMap(({parts}) => parts)"
        ".filter((part) => part.type === 'tool');"
        "for (const part of tools.slice(0, -1)) part.state.output = '[pruned]';"
    ),
    "replaces the array": hook("output.messages = output.messages.map((each) => ({...each}));"),
    "replaces what is in the array": hook(
        "const copies = structuredClone(output.messages);"
        "output.messages.splice(0, output.messages.length, ...copies);"
    ),
    "freezes the array": hook("Object.freeze(output.messages);"),
    "is a second copy of ours": OURS,
    "writes memory into the system prompt": "import { readFileSync } from 'node:fs';\n"
    + hook("output.system.push(readFileSync(BLOCK, 'utf8'));", "system"),
}
"""The last as opencode-agent-memory does: from the same blocks, as they are at each request."""


@pytest.mark.parametrize("name", PLUGINS)
def test_no_more_breaks_than_without_ours(lasting_worlds: LastingWorlds, name: str) -> None:
    with lasting_worlds.take() as world:
        product.must(world.home, "uninstall")
        code = PLUGINS[name].replace(
            "BLOCK", json.dumps(str(world.home.config / "memory/human.md"))
        )
        alone = breaks(converse(world, code))
        for plugins in ((code, OURS), (OURS, code)):
            requests = converse(world, *plugins)
            assert breaks(requests) <= alone
            shown = {request.body.count(MARKER.encode()) for request in requests}
            # Once in each request, or in none where the array that we are handed is not the host's.
            assert shown == {1} or (shown == {0} and plugins[0] == code and "array" in name)
        product.must(world.home, "install")
        product.forget_launcher(world.home)
        world.kill_host()


def converse(world: World, *plugins: str) -> list[Request]:
    """A session in a new project that has these plugins, in this order; memory changes twice."""
    project = world.new_project()
    files = [project / f"{number}.js" for number in range(len(plugins))]
    for file, code in zip(files, plugins, strict=True):
        file.write_text(code)
    # A plugin folder has no order; this list has.
    settings = {"plugin": [file.as_uri() for file in files]}
    (project / "opencode.json").write_text(json.dumps(settings))
    world.write_block("human", "Prefers short answers.")
    session = world.session(project)
    for value in ("Prefers long answers.", "Prefers no answers."):
        world.recorder.script(session.id, LOOK, LOOK, Answer("Done."))
        world.host.prompt(session.id, project, "Look.", "stub")
        world.host.prompt(session.id, project, "Go on.", "stub")
        world.write_block("human", value)
    world.host.summarize(session.id, project, "stub")
    for _ in range(2):
        world.host.prompt(session.id, project, "And now?", "stub")
    return world.recorder.of(session.id, "main")


def breaks(requests: list[Request]) -> set[int]:
    """The requests that do not extend the one before."""
    pairs = pairwise(requests)
    return {n for n, (old, new) in enumerate(pairs, 1) if first_difference(old.body, new.body)}
