from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import pytest

from sidecar.service import service_file
from sidecar.settings import Settings
from sidecar.shim import installed_shims, is_current, shim_path

from .test_cli import run, run_json


@pytest.fixture
def target(settings: Settings) -> Path:
    return settings.config_folders[0] / "plugins" / "opencode-memory.js"


def test_install_puts_the_packaged_shim_where_opencode_looks(target: Path) -> None:
    data = run_json("install")["data"]
    assert (data["file"], data["outcome"]) == (str(target), "installed")
    assert target.read_bytes() == shim_path().read_bytes()
    assert not target.is_symlink()
    assert run("install").stdout.startswith("Already installed")


def test_install_records_how_to_start_the_sidecar_by_full_path(settings: Settings) -> None:
    previous = os.umask(0)
    try:
        run("install")
    finally:
        os.umask(previous)
    assert stat.S_IMODE(settings.data_folder.stat().st_mode) == 0o700
    launcher = json.loads(settings.launcher_file.read_bytes())
    assert launcher["command"][0] == sys.executable
    assert Path(launcher["command"][0]).is_absolute()
    assert launcher["command"][-2:] == ["serve", "--background"]
    assert stat.S_IMODE(settings.launcher_file.stat().st_mode) == 0o600
    run("uninstall", "--project")
    assert settings.launcher_file.exists()
    run("uninstall")
    assert not settings.launcher_file.exists()


def test_a_link_follows_the_checkout_and_a_copy_takes_its_place_again(target: Path) -> None:
    run("install", "--link")
    assert target.resolve() == shim_path().resolve()
    packaged = shim_path().read_bytes()
    run("install")
    assert not target.is_symlink()
    assert target.read_bytes() == packaged == shim_path().read_bytes()


def test_an_older_shim_is_replaced(target: Path) -> None:
    target.parent.mkdir(parents=True)
    target.write_text("// opencode-memory-sidecar: of another version\n")
    assert run_json("status")["data"]["shims"] == [{"file": str(target), "current": False}]
    with target.open() as held:
        assert run("install").stdout.startswith("Updated, since another version was there")
        assert held.read() == "// opencode-memory-sidecar: of another version\n"  # not cut off
    assert is_current(target)


def test_a_broken_link_of_ours_is_replaced(target: Path, tmp_path: Path) -> None:
    target.parent.mkdir(parents=True)
    target.symlink_to(tmp_path / "removed-checkout" / "opencode-memory.js")
    assert run("install").returncode == 0
    assert is_current(target)


def test_somebody_elses_file_is_never_overwritten_nor_removed(target: Path) -> None:
    target.parent.mkdir(parents=True)
    target.write_text("export default async () => ({})\n")
    done = run("install")
    assert done.returncode == 1
    assert "is not this plugin's file" in done.stderr
    assert run("uninstall").stdout == "The plugin was not installed.\n"
    assert target.read_text() == "export default async () => ({})\n"


def test_a_project_can_have_it_alone(tmp_path: Path, target: Path) -> None:
    run("install", "--project", cwd=tmp_path)
    run("install", "--project", str(tmp_path / "other"))
    for folder in (tmp_path, tmp_path / "other"):
        assert is_current(folder / ".opencode" / "plugins" / "opencode-memory.js")
    assert not target.exists()
    run("uninstall", "--project", cwd=tmp_path)
    assert installed_shims(tmp_path / ".opencode") == []


def test_a_second_copy_is_pointed_out_and_uninstall_removes_both(
    settings: Settings, target: Path
) -> None:
    second = settings.config_folders[0] / "plugin" / "opencode-memory.js"
    second.parent.mkdir(parents=True)
    second.write_bytes(shim_path().read_bytes())
    assert f"remove it: {second}" in run("install").stdout
    assert set(run_json("uninstall")["data"]["removed"]) == {str(second), str(target)}
    assert run("uninstall").stdout == "The plugin was not installed.\n"


def test_uninstall_names_the_service_that_stays(settings: Settings) -> None:
    assert "service" not in run("uninstall").stdout
    file = service_file(settings, sys.platform)
    file.parent.mkdir(parents=True)
    file.touch()
    assert "opencode-memory service uninstall" in run("uninstall").stdout
    assert file.exists()


def test_install_leaves_byte_code_behind_so_that_the_first_start_is_fast(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    run("install")
    compiled = {file.name.partition(".")[0] for file in tmp_path.rglob("*.pyc")}
    assert {"server", "app", "sessions", "web_app"} <= compiled
    assert os.environ["PYTHONDONTWRITEBYTECODE"] == "1"


def test_a_plugin_that_injects_the_same_blocks_is_named(settings: Settings) -> None:
    config = settings.config_folders[0] / "opencode.json"
    config.parent.mkdir(parents=True)
    config.write_text('{"plugin": ["opencode-agent-memory@1.0.0"]}')
    told = f"take it out of {config}"
    assert told in run("install").stdout
    assert told in run("status").stdout
    config.write_text('{"plugin": []}')
    assert "opencode-agent-memory" not in run("install").stdout
    assert run_json("status")["data"]["other_plugins"] == []
