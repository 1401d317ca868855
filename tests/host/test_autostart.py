"""Nobody has started a sidecar: the plugin does, from what `install` recorded."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from ..process import until
from . import product

if TYPE_CHECKING:
    from .scenario import World


def reinstall(world: World) -> None:
    """Install as a user does: the launcher is there, and the sidecar is not."""
    product.must(world.home, "install")
    world.memory_answers = True


def is_running(world: World) -> bool:
    return product.command(world.home, "status").returncode == 0


def test_the_first_request_of_opencode_run_has_its_memory_and_the_sidecar_outlives_it(
    stopped_world: World,
) -> None:
    world = stopped_world
    reinstall(world)
    world.write_block("human", "Prefers short answers.")
    session = world.run()
    assert session.head
    assert is_running(world)
    world.write_block("human", "Prefers long answers.")
    world.run(session)
    assert session.changes == []


def test_folders_of_our_names_in_the_project_are_never_imported(stopped_world: World) -> None:
    world = stopped_world
    reinstall(world)
    for name in ("sidecar", "snapshots"):
        (world.project / name).mkdir()
        hostile = f"open({str(world.path / 'imported')!r}, 'w')\nraise SystemExit(1)\n"
        (world.project / name / "__init__.py").write_text(hostile)
    assert world.run().head
    assert not (world.path / "imported").exists()


def test_a_sidecar_killed_between_any_two_requests_moves_no_byte_and_comes_back(
    stopped_world: World,
) -> None:
    world = stopped_world
    reinstall(world)
    world.write_block("human", "Prefers short answers.")
    world.start_host()
    session = world.session()
    world.prompt(session)
    for number in range(29):
        world.write_block("human", f"Prefers answer number {number}.")
        until(lambda: is_running(world), "the sidecar to be up again")
        os.kill(product.endpoint(world.home)["pid"], signal.SIGKILL)
        world.prompt(session)
    until(lambda: is_running(world), "the sidecar to be up again")
    assert len(session.sent) == 30
    assert session.changes == []
