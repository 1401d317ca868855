"""`opencode-memory doctor`, with a fault for each finding, and what `install` does for the host."""

from __future__ import annotations

import json
import os
import signal
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sidecar import __version__
from sidecar.cli import install
from sidecar.client import connect
from sidecar.host_package import remove_stand_in
from sidecar.settings import Settings
from sidecar.shim import shim_path

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
def installed(
    host: Callable[[str], None], settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Settings:
    """Everything in place."""
    monkeypatch.setattr(install, "_compile", lambda: None)
    install.run(Namespace(link=False, project=None), settings)
    return settings


@pytest.fixture
def running(installed: Settings) -> Iterator[Settings]:
    """Everything in place, and the sidecar running."""
    assert run("start").returncode == 0
    yield installed
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


@pytest.mark.usefixtures("running")
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


def test_a_sidecar_that_hangs_is_a_failure(running: Settings) -> None:
    pid = connect(running).endpoint.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        assert findings()["fail", "sidecar"][1] == f"kill -9 {pid}; opencode-memory start"
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


@pytest.mark.parametrize(
    "place",
    [
        ".config/opencode/plugins/renamed.ts",
        ".config/opencode/plugin/opencode-memory.js",
        ".opencode/plugins/opencode-memory.js",
        "further/plugins/opencode-memory.js",
        "work/.opencode/plugin/opencode-memory.js",
    ],
)
def test_a_second_copy_is_found_wherever_the_host_loads_from(
    place: str, installed: Settings, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENCODE_CONFIG_DIR", str(home / "further"))
    second = home / place
    second.parent.mkdir(parents=True, exist_ok=True)
    second.write_bytes(shim_path().read_bytes())
    (home / "work" / "src").mkdir(parents=True)
    seen, mend = findings(cwd=home / "work" / "src")["warn", "plugin"]
    assert str(second) in seen
    assert mend == f"rm {second}"


@pytest.mark.parametrize(
    ("place", "variable"),
    [
        (".config/opencode/opencode.json", ""),
        (".config/opencode/opencode.jsonc", ""),
        ("work/opencode.json", ""),
        ("work/.opencode/opencode.jsonc", ""),
        ("elsewhere.json", "OPENCODE_CONFIG"),
    ],
)
def test_a_copy_and_another_plugin_that_a_configuration_names_are_found(
    place: str, variable: str, installed: Settings, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = home / "my copies" / "opencode-memory.js"
    second.parent.mkdir()
    second.write_bytes(shim_path().read_bytes())
    file = home / place
    file.parent.mkdir(parents=True, exist_ok=True)
    (home / "work").mkdir(exist_ok=True)
    file.write_text(
        '{ // with "comments", as the host allows them\n'
        f'"plugin": [["{second.as_uri()}", {{"a": 1}}], "opencode-agent-memory@0.2.0",], /* , */ }}'
    )
    if variable:
        monkeypatch.setenv(variable, str(file))
    found = findings(cwd=home / "work")
    assert found["warn", "plugin"][1] == f"rm '{second}'"
    seen, mend = found["warn", "other plugins"]
    assert str(file) in seen
    assert str(file) in mend


def test_no_copy_is_loaded_that_a_project_brings_along_unless_it_is_the_packaged_one(
    installed: Settings, tmp_path: Path
) -> None:
    bun = tmp_path / "bin" / "opencode"
    bun.write_text(
        "#!/bin/sh\n"
        "case $1 in\n"
        "--version) echo 1.18.33;;\n"
        "--revision) [ $BUN_BE_BUN = 1 ] && echo 1.3.14+0a1b2c3d4;;\n"
        f"run) cat $2 >> {tmp_path}/ran; echo loaded;;\n"
        "esac\n"
    )
    second = tmp_path / "project" / ".opencode" / "plugins" / "opencode-memory.js"
    second.parent.mkdir(parents=True)
    second.write_text("// opencode-memory-sidecar: of somebody else\n")
    found = findings(cwd=tmp_path / "project")
    assert ("warn", "plugin loads") not in found
    own = installed.config_folders[0] / "plugins" / "opencode-memory.js"
    ran = (tmp_path / "ran").read_text()
    assert own.as_uri() in ran
    assert second.as_uri() not in ran
    second.write_bytes(shim_path().read_bytes())
    findings(cwd=tmp_path / "project")
    assert second.as_uri() in (tmp_path / "ran").read_text()


def test_a_plugin_that_the_hosts_runtime_cannot_load_is_a_failure(
    installed: Settings, tmp_path: Path
) -> None:
    bun = tmp_path / "bin" / "opencode"
    bun.write_text("#!/bin/sh\n[ $1 = --revision ] && echo 1.3.14+0a1b2c3d4 || echo 1.18.33\n")
    assert "can't load" in findings()["fail", "plugin loads"][0]


@pytest.mark.usefixtures("installed")
def test_a_host_that_is_told_to_load_no_plugin_is_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENCODE_PURE", "1")
    assert findings()["fail", "OpenCode"][1] == "unset OPENCODE_PURE"


def test_the_other_memory_plugins_file_is_found(installed: Settings) -> None:
    file = installed.config_folders[0] / "plugin" / "opencode-agent-memory.ts"
    file.parent.mkdir()
    file.write_text("export default async () => ({})\n")
    assert str(file) in findings()["warn", "other plugins"][0]


@pytest.mark.parametrize("name", ["my-opencode-agent-memory-theme", "./plugins/opencode-memory.js"])
def test_a_plugin_that_is_only_called_alike_is_none(name: str, installed: Settings) -> None:
    file = installed.config_folders[0] / "opencode.json"
    file.write_text(json.dumps({"plugin": [name]}))
    assert ("warn", "other plugins") not in findings()
    assert ("warn", "plugin") not in findings()


def test_a_named_copy_that_is_not_there_is_a_failure(installed: Settings) -> None:
    file = installed.config_folders[0] / "opencode.json"
    file.write_text('{"plugin": ["file:///removed/opencode-memory.js"]}')
    assert "/removed/opencode-memory.js" in findings()["fail", "plugin"][0]


@pytest.mark.usefixtures("installed")
def test_a_project_whose_folder_makes_the_host_wait_for_npm_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / ".opencode" / "memory").mkdir(parents=True)
    seen, mend = findings(cwd=tmp_path)["warn", "npm"]
    assert str(tmp_path / ".opencode") in seen
    assert "npm_config_fetch_retries=0" in mend
    (tmp_path / ".opencode" / "node_modules").mkdir()
    assert ("warn", "npm") not in findings(cwd=tmp_path)


def test_the_requests_of_an_earlier_sidecar_are_told(running: Settings) -> None:
    running.snapshot_folder.mkdir(exist_ok=True)
    (running.snapshot_folder / "ses_a.xml").touch()
    os.utime(running.snapshot_folder / "ses_a.xml", (86_400 * 365, 86_400 * 365))
    assert "an earlier one had some on 1971-01-01" in findings()["warn", "hook"][0]


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
    assert package == {"dependencies": {"@opencode-ai/plugin": "*"}}
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


@pytest.mark.usefixtures("installed")
def test_code_beside_a_stand_in_is_a_finding(settings: Settings) -> None:
    tool = settings.config_folders[0] / "tool" / "mine.ts"
    tool.parent.mkdir()
    tool.write_text('import { tool } from "@opencode-ai/plugin"\n')
    seen, mend = findings()["warn", "npm"]
    assert str(tool) in seen
    assert "node_modules" in mend


def test_a_host_that_will_wait_for_npm_is_a_finding(installed: Settings) -> None:
    remove_stand_in(installed.config_folders[0])
    assert findings()["warn", "npm"][1] == "opencode-memory install"
    (installed.config_folders[0] / ".npmrc").touch()
    seen, mend = findings()["warn", "npm"]
    assert "from npm" in seen
    assert "npm_config_fetch_retries=0" in mend
