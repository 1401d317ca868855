"""The real OpenCode has to be there: `npm ci` brings it, OPENCODE_BINARY names another one."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from . import opencode, product
from .scenario import World
from .table import Notes

if TYPE_CHECKING:
    from collections.abc import Iterator


def pytest_configure(config: pytest.Config) -> None:
    """With HOST_RESULTS, the process that hears of every test notes how the scenarios went."""
    file = os.environ.get("HOST_RESULTS")
    if file and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Notes(Path(file)))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Starting the host takes from two seconds up to fifteen where the machine is busy."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(180))


@pytest.fixture
def stopped_world(tmp_path: Path) -> Iterator[World]:
    """Everything installed, nothing started but the provider."""
    yield from installed(tmp_path)


@pytest.fixture
def own_world(stopped_world: World) -> World:
    """The sidecar and the host run, for this test alone, which may kill them."""
    stopped_world.start_sidecar()
    stopped_world.start_host()
    return stopped_world


@pytest.fixture(scope="session")
def running_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    for world in installed(tmp_path_factory.mktemp("world")):
        world.start_sidecar()
        world.start_host()
        yield world


@pytest.fixture
def world(running_world: World) -> World:
    """The sidecar and the host run, and other tests use them too: a new project, no blocks."""
    for block in running_world.home.config.glob("memory/*.md"):
        block.unlink()
    running_world.project = running_world.new_project()
    return running_world


@pytest.fixture(scope="session")
def lasting_worlds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LastingWorlds]:
    """Where a script may do anything, and what is mended afterwards need not be made again."""
    worlds = LastingWorlds(tmp_path_factory)
    yield worlds
    worlds.close()


class LastingWorlds:
    """One world that is handed from test to test, and made anew after one that failed in it."""

    def __init__(self, folders: pytest.TempPathFactory) -> None:
        self._folders = folders
        self._world: World | None = None
        self._closing = ExitStack()

    @contextmanager
    def take(self) -> Iterator[World]:
        """Sidecar and host run; there are no blocks and no settings."""
        if self._world is None:
            opened = contextmanager(installed)(self._folders.mktemp("world"))
            self._world = self._closing.enter_context(opened)
            self._world.start_sidecar()
            self._world.start_host()
        try:
            yield self._world
            self._world.tidy()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._closing.close()
        self._world = None


def installed(path: Path) -> Iterator[World]:
    binary = opencode.binary()
    if not binary.exists():
        missing = f"no OpenCode at {binary}: run `npm ci` or set OPENCODE_BINARY"
        if os.environ.get("REQUIRE_OPENCODE") == "1":
            pytest.fail(missing)
        pytest.skip(missing)
    world = World(path)
    try:
        product.must(world.home, "install")
        # A case says itself when the sidecar starts; `test_autostart.py` has the launcher back.
        product.forget_launcher(world.home)
        yield world
    finally:
        world.close()
