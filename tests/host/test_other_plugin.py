"""opencode-agent-memory left installed beside us: said once, and shown in the terminal UI."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING
from urllib.request import urlopen

import pytest

from ..process import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .scenario import World

SAID = "opencode-agent-memory is loaded beside this plugin"


@pytest.fixture
def world_with_both(stopped_world: World) -> World:
    world = stopped_world
    plugin = world.home.plugins / "opencode-agent-memory.js"
    plugin.write_text("export const OtherMemory = async () => ({});\n")
    world.start_sidecar()
    world.start_host()
    return world


@pytest.fixture
def shown(world_with_both: World) -> Iterator[list[bytes]]:
    """What the host tells its user interfaces."""
    lines: list[bytes] = []
    stream = urlopen(f"{world_with_both.host.url}/event?directory={world_with_both.project}")

    def read() -> None:
        try:
            for line in stream:
                lines.append(line)
        except (OSError, ValueError):
            pass  # closed

    reader = threading.Thread(target=read)
    reader.start()
    yield lines
    world_with_both.host.kill()
    reader.join(10)
    stream.close()


def test_it_is_said_once_and_shown(world_with_both: World, shown: list[bytes]) -> None:
    world = world_with_both
    world.write_block("human", "Prefers short answers.")
    session = world.session()
    world.prompt(session)
    world.prompt(session)
    other = world.session(world.new_project())
    world.prompt(other)
    assert session.changes == []
    assert world.host.log().count(SAID) == 1
    until(lambda: any(b"tui.toast.show" in line and SAID.encode() in line for line in shown), "it")
