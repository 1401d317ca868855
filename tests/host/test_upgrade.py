"""An upgrade while sessions run: the new plugin brings its own sidecar, and no byte moves."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sidecar import __version__

from ..process import until
from ..shim.test_handover import copy_with
from . import product
from .test_autostart import reinstall

if TYPE_CHECKING:
    from .scenario import World


def test_a_new_version_takes_over_and_sessions_keep_their_bytes(stopped_world: World) -> None:
    world = stopped_world
    older = copy_with(world.path / "older", __version__="0.0.9")
    world.home.extra = {"PYTHONPATH": str(older)}
    world.start_sidecar()
    world.start_host()
    world.write_block("human", "Prefers short answers.")
    session = world.session()
    world.prompt(session)
    assert product.endpoint(world.home)["version"] == "0.0.9"
    world.write_block("human", "Prefers long answers.")
    world.home.extra = {}
    reinstall(world)
    launcher = json.loads((world.home.data / "agent-memory/launcher.json").read_bytes())
    assert launcher["version"] == __version__
    world.kill_host()
    world.start_host()
    world.prompt(session)
    world.prompt(session)
    assert product.endpoint(world.home)["version"] == __version__
    until(lambda: not world.sidecar.alive(), "the older sidecar to end")
    assert len(session.sent) == 3
    assert session.changes == []
