"""`opencode-memory doctor`, with a fault for each finding, and what `install` does for the host."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sidecar import __version__
from sidecar.client import connect
from sidecar.settings import Settings

from ..process import until
from .test_cli import run, run_json

Findings = Callable[[], dict[str, list[tuple[str, str, str]]]]


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """An `opencode` on PATH that knows its version and nothing else."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)

    def put(version: str) -> None:
        program = folder / "opencode"
        program.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "{version}"\n')
        program.chmod(0o755)

    put("1.18.33")
    return put


@pytest.fixture
def installed(host: Callable[[str], None], settings: Settings) -> Iterator[Settings]:
    """Everything in place, and the sidecar running."""
    assert run("install").returncode == 0
    assert run("start").returncode == 0
    yield settings
    until(lambda: run("stop").returncode == 0, "the sidecar to stop")


def findings(cwd: Path | None = None) -> dict[tuple[str, str], tuple[str, str]]:
    """What is not as it should be: (level, subject) to (seen, mend)."""
    done = run("doctor", "--json", cwd=cwd)
    found = json.loads(done.stdout)["data"]["findings"]
    assert done.returncode == (1 if any(each["level"] == "fail" for each in found) else 0)
    return {
        (each["level"], each["subject"]): (each["seen"], each["mend"])
        for each in found
        if each["level"] != "pass"
    }


@pytest.mark.usefixtures("installed")
def test_where_all_is_well_only_the_unused_hook_is_left() -> None:
    found = findings()
    # The `opencode` of this test has no runtime; `tests/host` has the real one.
    assert set(found) == {("warn", "plugin loads"), ("warn", "hook")}
    seen, mend = found["warn", "hook"]
    assert "0 requests" in seen
    assert "restart OpenCode" in mend


def test_where_nothing_is_installed_each_step_names_what_mends_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = findings()
    assert "no `opencode` on PATH" in found["warn", "OpenCode"][0]
    assert found["fail", "plugin"] == ("not installed", "opencode-memory install")
    assert found["fail", "launcher"][1] == "opencode-memory install"
    assert found["warn", "sidecar"][1] == "opencode-memory start"
    text = run("doctor").stdout
    assert "fail  plugin: not installed\n      mend: opencode-memory install\n" in text


def test_a_sidecar_that_hangs_is_a_failure(installed: Settings) -> None:
    pid = connect(installed).endpoint.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        assert f"kill -9 {pid}" in findings()["fail", "sidecar"][0]
    finally:
        os.kill(pid, signal.SIGCONT)


def test_another_version_of_the_plugin_and_a_second_copy_are_named(
    installed: Settings, tmp_path: Path
) -> None:
    plugin = installed.config_folders[0] / "plugins" / "opencode-memory.js"
    plugin.write_text("// opencode-memory-sidecar: an older one\n")
    project = tmp_path / "project"
    second = project / ".opencode" / "plugin" / "opencode-memory.js"
    second.parent.mkdir(parents=True)
    second.write_text("// opencode-memory-sidecar: an older one\n")
    (project / "src").mkdir()
    assert "another version" in findings()["warn", "plugin"][0]
    seen, mend = findings(cwd=project / "src")["warn", "plugin"]
    assert (str(second) in seen, mend) == (True, f"rm {second}")


@pytest.mark.parametrize("place", ["opencode.json", "plugin/opencode-agent-memory.ts"])
def test_the_other_memory_plugin_is_named(place: str, installed: Settings) -> None:
    file = installed.config_folders[0] / place
    file.parent.mkdir(exist_ok=True)
    file.write_text('{"plugin": ["opencode-agent-memory@0.2.0"]}')
    seen, mend = findings()["warn", "other plugins"]
    assert str(file) in seen
    assert str(file) in mend


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"command": ["/nowhere/python", "-P", "-m", "sidecar", "serve"]}', "does not run"),
        ("{}", "damaged"),
        ("half a", "damaged"),
        ('{"command": 7}', "damaged"),
    ],
)
def test_a_launcher_that_starts_nothing_is_a_failure(
    content: str, words: str, installed: Settings
) -> None:
    installed.launcher_file.write_text(content)
    seen, mend = findings()["fail", "launcher"]
    assert words in seen
    assert mend == "opencode-memory install"


def test_a_launcher_of_another_version_is_named(installed: Settings, tmp_path: Path) -> None:
    other = tmp_path / "python"
    other.write_text("#!/bin/sh\necho opencode-memory 0.0.9\n")
    other.chmod(0o755)
    installed.launcher_file.write_text(json.dumps({"command": [str(other), "serve"]}))
    seen, _ = findings()["warn", "launcher"]
    assert seen == f"starts version 0.0.9, and this is {__version__}"


def test_a_folder_that_is_open_to_others_or_none_at_all_is_named(installed: Settings) -> None:
    installed.data_folder.chmod(0o755)
    assert findings()["warn", "folders"][1] == f"chmod 700 {installed.data_folder}"
    installed.data_folder.chmod(0o700)
    run("stop")
    if installed.origin_folder.exists():
        installed.origin_folder.rmdir()
    installed.origin_folder.write_text("a file in its place")
    assert str(installed.origin_folder) in findings()["fail", "folders"][0]
    installed.origin_folder.unlink()


def test_what_is_wrong_with_blocks_and_settings_is_named(installed: Settings) -> None:
    config = installed.config_folders[0]
    (config / "memory").mkdir()
    (config / "memory" / "broken.md").write_bytes(b"\xff\xfe")
    (config / "agent-memory.json").write_text('{"nonsense": 1}')
    found = findings()
    assert "broken.md" in found["warn", "memory"][0]
    assert "nonsense" in found["warn", "settings"][0]


def test_proxies_are_told_to_be_without_effect(
    installed: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.invalid:3128")
    assert ("warn", "proxies") not in findings()
    assert "HTTPS_PROXY set; the plugin and this command never use a proxy" in run("doctor").stdout


# install, for the host that is there


@pytest.mark.parametrize("version", ["1.1.11", "1.13.9", "v0.9.2"])
def test_a_host_too_old_is_refused_with_the_reason(
    version: str, host: Callable[[str], None], settings: Settings
) -> None:
    host(version)
    done = run("install")
    assert done.returncode == 1
    assert version.lstrip("v") in done.stderr
    assert "opencode upgrade" in done.stderr
    assert run_json("install")["errors"][0]["code"] == "host_too_old"
    assert not (settings.config_folders[0] / "plugins").exists()
    assert "too old" in findings()["fail", "OpenCode"][0]


@pytest.mark.parametrize("version", ["1.14.0", "1.18.33", "2.0.1", "0.0.0-dev-202612010000", ""])
def test_a_host_that_takes_the_plugin_or_does_not_say_is_not_refused(
    version: str, host: Callable[[str], None]
) -> None:
    host(version)
    assert run("install").returncode == 0


def test_an_npm_package_is_stood_in_for_and_taken_back(
    host: Callable[[str], None], settings: Settings
) -> None:
    config = settings.config_folders[0]
    assert "stands in" in run("install").stdout
    package = json.loads((config / "package.json").read_bytes())
    assert package == {"dependencies": {"@opencode-ai/plugin": "1.18.33"}}
    assert list((config / "node_modules").iterdir()) == []
    assert run_json("install")["data"]["outcome"] == "unchanged"
    assert "stood in" in run("uninstall").stdout
    assert sorted(file.name for file in config.iterdir()) == ["plugins"]


@pytest.mark.parametrize(
    "there",
    [
        "package.json",
        "package-lock.json",
        ".npmrc",
        "node_modules/x",
        "plugin/mine.ts",
        "tool/a.js",
    ],
)
def test_where_npm_has_a_use_nothing_is_touched(
    there: str, host: Callable[[str], None], settings: Settings
) -> None:
    file = settings.config_folders[0] / there
    file.parent.mkdir(parents=True)
    file.write_text("mine")
    before = sorted(settings.config_folders[0].rglob("*"))
    assert "stands in" not in run("install").stdout
    run("uninstall")
    after = sorted(settings.config_folders[0].rglob("*"))
    assert [path for path in after if path.name != "plugins"] == before
    assert file.read_text() == "mine"


def test_a_stand_in_that_has_become_the_real_thing_stays(
    host: Callable[[str], None], settings: Settings
) -> None:
    config = settings.config_folders[0]
    run("install")
    (config / "node_modules" / "@opencode-ai").mkdir()
    run("uninstall")
    assert (config / "package.json").exists()
    assert (config / "node_modules" / "@opencode-ai").is_dir()


@pytest.mark.usefixtures("installed")
def test_code_beside_a_stand_in_is_a_finding(settings: Settings) -> None:
    tool = settings.config_folders[0] / "tool" / "mine.ts"
    tool.parent.mkdir()
    tool.write_text('import { tool } from "@opencode-ai/plugin"\n')
    seen, mend = findings()["warn", "npm"]
    assert str(tool) in seen
    assert "node_modules" in mend


def test_a_host_that_will_wait_for_npm_is_a_finding(
    host: Callable[[str], None], settings: Settings
) -> None:
    host("")
    run("install")
    assert "from npm" in findings()["warn", "npm"][0]
