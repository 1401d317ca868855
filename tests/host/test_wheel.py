"""What a user does on a fresh machine: pip, `install`, and then only OpenCode."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from . import opencode, product
from .scenario import World
from .trap import Trap

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel in it; its dependencies are this environment's."""
    folder = tmp_path_factory.mktemp("wheel")
    wheel = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--quiet", "--wheel-dir", folder]
    _run([*wheel, opencode.ROOT])
    _run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"])
    (site,) = (folder / "venv/lib").glob("python*/site-packages")
    (wheel_file,) = folder.glob("*.whl")
    into = [folder / "venv/bin/python", "install", "--no-deps", "--quiet", wheel_file]
    _run([sys.executable, "-m", "pip", "--python", *into])
    dependencies = Path(pytest.__file__).parents[1]
    (site / "dependencies.pth").write_text(f"{dependencies}\n")
    return folder / "venv"


def _run(command: list[object]) -> None:
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, timeout=120, check=False, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def registry() -> Iterator[Trap]:
    """Stands where npm's registry would, and has no package."""
    registry = Trap()
    yield registry
    registry.close()


@pytest.fixture
def fresh_world(tmp_path: Path) -> Iterator[World]:
    """A home in which nobody has installed anything: no `node_modules` either."""
    world = World(tmp_path)
    for name in ("package.json", "package-lock.json"):
        (world.home.config / name).unlink()
    (world.home.config / "node_modules").rmdir()
    world.home.plugins.rmdir()
    yield world
    world.close()


@pytest.mark.parametrize("folders", [(), ("sidecar", "snapshots")], ids=["plain", "hostile"])
def test_after_pip_and_install_opencode_run_alone_has_its_memory(
    folders: tuple[str, ...],
    fresh_world: World,
    environment: Path,
    registry: Trap,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = fresh_world
    for name in folders:
        (world.project / name).mkdir()
        hostile = f"open({str(world.path / 'imported')!r}, 'w')\nraise SystemExit(1)\n"
        (world.project / name / "__init__.py").write_text(hostile)
    world.home.extra = {"npm_config_registry": registry.url, "PATH": _path_with_host(world.path)}
    command = environment / "bin/opencode-memory"
    monkeypatch.setattr(product, "COMMAND", [str(command)])
    said = subprocess.run(
        [command, "install"],
        cwd=world.project,
        env=world.home.env,
        capture_output=True,
        check=True,
        text=True,
        timeout=60,
    ).stdout
    assert "stands in" in said
    world.memory_answers = True
    world.write_block("human", "Prefers short answers.")
    session = world.run()
    assert session.head
    assert product.command(world.home, "status").returncode == 0, "the sidecar did not outlive it"
    doctor = product.must(world.home, "doctor").decode()
    assert "pass  plugin loads: in OpenCode's own runtime" in doctor
    assert "pass  hook: 1 requests seen" in doctor
    assert f"pass  launcher: runs: {environment}/bin/python" in doctor
    world.write_block("human", "Prefers long answers.")
    world.run(session)
    assert session.changes == []
    assert registry.asked == [], "the host went to npm"
    assert not (world.path / "imported").exists()
    product.must(world.home, "uninstall")
    assert not (world.home.config / "node_modules").exists()


def test_a_projects_first_block_sends_the_host_to_npm_neither(
    fresh_world: World, registry: Trap
) -> None:
    world = fresh_world
    shutil.rmtree(world.project / ".opencode")
    world.home.extra = {"npm_config_registry": registry.url, "EDITOR": "true"}
    product.must(world.home, "install")
    where = ["--scope", "project", "--directory", str(world.project)]
    product.must(world.home, "edit", "stack", *where)
    world.memory_answers = True
    world.write_block("stack", "Written in Python.", world.project)
    assert world.run().head
    assert registry.asked == [], "the host went to npm"
    git = ["git", "status", "--porcelain", "--untracked-files=all"]
    assert subprocess.check_output(git, cwd=world.project) == b"", "there is something to commit"
    (world.project / ".opencode/tool").mkdir()
    (world.project / ".opencode/tool/mine.ts").write_text("export default {}\n")
    opencode.run(world.home, world.project, "run", "A new session.")
    opencode.run(world.home, world.project, "run", "And another one.")
    assert registry.asked != [], "the host did not install what the tool may need"


def _path_with_host(folder: Path) -> str:
    """The host behind a script, as some of npm's packages of it are."""
    program = folder / "bin/opencode"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\n"{opencode.binary()}" "$@"\n')
    program.chmod(0o755)
    return f"{program.parent}:/usr/local/bin:/usr/bin:/bin"
