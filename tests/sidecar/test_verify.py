"""`verify` without a host: what is copied, what is left out, who is to blame."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from blockbuster import BlockBuster

from sidecar.host import Host
from sidecar.settings import Settings, load_settings
from sidecar.verify.culprit import find_culprit
from sidecar.verify.prefix import Difference
from sidecar.verify.recorder import Request
from sidecar.verify.sandbox import PROVIDER, Sandbox, VerifyError, plugin_name
from sidecar.verify.script import Sent
from sidecar.verify.verdict import Verdict, judge

from ..process import Child, until
from .test_cli import run

posix = pytest.mark.skipif(os.name != "posix", reason="needs a shell")
HOST = Host("/nowhere/opencode", "1.18.33")


@pytest.fixture
def config(settings: Settings) -> Path:
    folder = settings.config_folders[0]
    (folder / "plugins").mkdir(parents=True)
    (folder / "node_modules").mkdir()
    for name in ("one.js", "two.ts", "notes.md"):
        (folder / "plugins" / name).write_text("// mine\n")
    (folder / "opencode.jsonc").write_text(
        '{"plugin": ["three@1.0.0", ["@me/four", {}], "./five.js",], // mine\n'
        ' "model": "mine/m", /* and */ "provider": {"mine": {"options": {"apiKey": "secret"}}},\n'
        ' "agent": {"build": {"model": "mine/m", "prompt": "Do // it."}}, "mcp": {"x": {}},\n'
        ' "small_model": "mine/s", "enabled_providers": ["mine"], "disabled_providers": ["a"],\n'
        ' "share": "auto", "server": {"port": 4096}, "experimental": {"hook": {}}}'
    )
    return folder


@pytest.fixture
def make(settings: Settings, config: Path, tmp_path: Path) -> Callable[..., Sandbox]:
    return lambda *keep, **more: Sandbox(settings, HOST, tmp_path / "sandbox", *keep, **more)


def test_the_configuration_is_copied_without_what_would_call_somebody(
    make: Callable[..., Sandbox], config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.invalid")
    before = (config / "opencode.jsonc").read_text()
    sandbox = make()
    copied = json.loads((sandbox.config / "opencode.jsonc").read_text())
    assert copied["agent"] == {"build": {"prompt": "Do // it."}}
    assert set(copied) == {"plugin", "agent"}
    environment = sandbox.environment("http://127.0.0.1:1/v1")
    assert "secret" not in json.dumps(environment)
    assert not {name for name in environment if "PROXY" in name or "KEY" in name}
    overrides = json.loads(environment["OPENCODE_CONFIG_CONTENT"])
    assert overrides["enabled_providers"] == list(overrides["provider"]) == [PROVIDER]
    assert (overrides["share"], overrides["autoupdate"]) == ("disabled", False)
    folders = ["HOME", *(f"XDG_{name}_HOME" for name in ("CONFIG", "DATA", "STATE", "CACHE"))]
    for name in (*folders, "XDG_RUNTIME_DIR", "PWD"):
        assert Path(environment[name]).is_relative_to(sandbox.folder)
    assert (config / "opencode.jsonc").read_text() == before
    assert (sandbox.config / "node_modules").is_symlink()


def test_a_second_configuration_is_copied_too(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "opencode.json").write_text('{"model": "mine/m"}')
    monkeypatch.setenv("OPENCODE_CONFIG_DIR", str(mine))
    sandbox = Sandbox(load_settings(), HOST, tmp_path / "sandbox")
    copy = Path(sandbox.environment("http://127.0.0.1:1/v1")["OPENCODE_CONFIG_DIR"])
    assert copy.is_relative_to(sandbox.folder)
    assert json.loads((copy / "opencode.json").read_text()) == {"plugin": []}
    assert (mine / "opencode.json").read_text() == '{"model": "mine/m"}'


def test_what_was_downloaded_is_there_and_links_stay_links(
    make: Callable[..., Sandbox],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    no_blocking_in_the_loop: BlockBuster,
) -> None:
    no_blocking_in_the_loop.deactivate()  # with it, Python takes os.stat for one that follows links
    cache = tmp_path / "cache" / "opencode"
    cache.mkdir(parents=True)
    (cache / "downloaded").write_text("large")
    (cache / "again").symlink_to(".")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    copy = make().folder / "cache" / "opencode"
    assert (copy / "downloaded").samefile(cache / "downloaded")
    assert (copy / "again").is_symlink()


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="needs another disk")
def test_what_was_downloaded_to_another_disk_is_copied(
    make: Callable[..., Sandbox], monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as elsewhere:
        (Path(elsewhere) / "opencode").mkdir()
        (Path(elsewhere) / "opencode" / "downloaded").write_text("large")
        monkeypatch.setenv("XDG_CACHE_HOME", elsewhere)
        copy = make().folder / "cache" / "opencode"
        assert (copy / "downloaded").read_text() == "large"


def test_all_plugins_are_named_and_each_can_be_left_out(
    make: Callable[..., Sandbox], config: Path
) -> None:
    sandbox = make(lambda name: name in ("two", "@me/four"))
    assert sorted(sandbox.plugins) == ["@me/four", "two"]
    there = {file.name for file in (sandbox.config / "plugins").iterdir()}
    assert there == {"two.ts", "notes.md", "opencode-memory.js"}
    kept = json.loads((sandbox.config / "opencode.jsonc").read_text())["plugin"]
    assert kept == [["@me/four", {}]]
    assert (config / "plugins" / "one.js").exists()


@pytest.mark.parametrize("memory", [True, False])
def test_without_memory_no_way_leads_to_ours(
    make: Callable[..., Sandbox], config: Path, *, memory: bool
) -> None:
    run("install")
    ours = "/elsewhere/opencode-memory.js"
    (config / "opencode.jsonc").write_text(json.dumps({"plugin": ["three@1.0.0", ours]}))
    sandbox = make(memory=memory)
    named = json.loads((sandbox.config / "opencode.jsonc").read_text())["plugin"]
    assert (ours in named) == memory
    assert (sandbox.config / "plugins" / "opencode-memory.js").exists() == memory
    assert sorted(sandbox.plugins) == ["one", "three", "two"]


def test_every_plugin_is_loaded_unless_it_is_left_out(make: Callable[..., Sandbox]) -> None:
    assert sorted(make().plugins) == ["@me/four", "five", "one", "three", "two"]


def test_a_configuration_that_cant_be_read_is_not_run(
    make: Callable[..., Sandbox], config: Path
) -> None:
    (config / "opencode.json").write_text("{")
    with pytest.raises(VerifyError, match=r"opencode\.json .* Mend it first"):
        make()


@pytest.mark.parametrize(
    ("entry", "name"),
    [
        ("opencode-x", "opencode-x"),
        ("opencode-x@1.2.3", "opencode-x"),
        ("@me/x@latest", "@me/x"),
        ("@me/x", "@me/x"),
        ("file:///home/me/x.js", "x"),
        ("./plugins/x.ts", "x"),
    ],
)
def test_a_plugin_is_called_what_people_call_it(entry: str, name: str) -> None:
    assert plugin_name(entry) == name


def test_without_a_host_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = run("verify")
    assert done.returncode == 1
    assert "no `opencode` on PATH" in done.stderr
    assert run("verify", "--plugin", "x", "--without-plugins").returncode == 2


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the copies are made."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Have an `opencode` on PATH that does this when it is to serve."""

    def write(script: str) -> None:
        program = tmp_path / "bin" / "opencode"
        program.parent.mkdir()
        version = '[ "$1" = --version ] && echo 1.18.33 && exit'
        program.write_text(f"#!/bin/sh\n{version}\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)

    return write


@posix
def test_nothing_is_left_of_a_copy_with_which_the_host_does_not_start(
    host: Callable[[str], None], temporary: Path
) -> None:
    host("echo Error: no; exit 1")
    done = run("verify")
    assert done.returncode == 1
    assert "does not start with a copy of your configuration: Error: no" in done.stderr
    assert os.listdir(temporary) == []


@posix
def test_one_that_is_told_to_end_takes_its_host_and_its_copy_with_it(
    host: Callable[[str], None], temporary: Path, tmp_path: Path
) -> None:
    started = tmp_path / "pid"
    host(f'echo $$ > "{started}"; exec sleep 60')
    command = [sys.executable, "-P", "-m", "sidecar", "verify"]
    child = Child(command, os.environ, tmp_path, tmp_path / "log")
    pid = int(until(lambda: started.exists() and started.read_text(), "the host"))
    try:
        child.end()
        assert child.returncode == 128 + signal.SIGTERM
        assert os.listdir(temporary) == []
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


# The verdict


def sent(*texts: str, system: str = "You are.", due: bool = False) -> Sent:
    messages = [{"role": "system", "content": system}]
    messages += [{"role": "user", "content": text} for text in texts]
    body = json.dumps({"model": "m", "messages": messages}).encode()
    return Sent("step", Request("/v1/chat/completions", {}, body), due)


def test_each_request_is_measured_against_the_one_before() -> None:
    first, second, third = judge([sent("a"), sent("a", "b"), sent("a", "X", "c")])
    assert (first.extends, first.repeated, first.broke) == (None, 0, False)
    assert (second.extends, second.repeated, second.broke) == (1, first.size, False)
    assert (third.extends, third.repeated, third.broke) == (None, first.size, True)
    assert third.difference is not None
    assert third.difference.place == "message 1, part 0"


def test_one_that_extends_an_older_request_alone_has_broken_the_last_ones_prefix() -> None:
    assert judge([sent("a"), sent("a", "b"), sent("a", "X")])[2].broke


def test_a_change_is_expected_after_a_compaction_and_only_in_the_messages() -> None:
    assert not judge([sent("a"), sent("summary", due=True)])[1].broke
    assert judge([sent("a"), sent("summary", system="At noon.", due=True)])[1].broke


# The culprit


def broken(place: str, before: str = "", after: str = "") -> Verdict:
    difference = Difference(place, before, after)
    return Verdict(2, "step", 10, 5, None, difference, expected=False)


def blame(
    verdict: Verdict, guilty: Sequence[str], plugins: Sequence[str] = ("one", "two", "three")
) -> str:
    """Who is named, if the break goes only without all of the guilty."""

    def breaks_without(names: frozenset[str]) -> list[Verdict]:
        return [] if guilty and set(guilty) <= names else [verdict]

    return find_culprit(verdict, plugins, breaks_without)


def test_the_plugin_without_which_it_does_not_happen_is_named() -> None:
    assert blame(broken("system, message 1, part 0"), ["two"]).startswith("the plugin two:")


def test_what_happens_without_any_plugin_is_nobodys_of_them() -> None:
    assert blame(broken("tools, item 3"), []).startswith("OpenCode or this plugin")
    assert blame(broken("tools, item 3"), [], plugins=[]).startswith("OpenCode or this plugin")


def test_several_that_do_it_each_are_named_together() -> None:
    assert "several plugins" in blame(broken("message 3, part 0"), ["one", "two"])


def test_the_hosts_date_and_our_own_text_are_known_by_sight() -> None:
    date = ("Today's date: Mon Nov 30 2026", "Today's date: Tue Dec 01 2026")
    assert "midnight" in blame(broken("system, message 0, part 0", *date), ["one"])
    ours = '{"text":"<!-- opencode-agent-memory:snapshot:1 -->'
    assert "this memory plugin" in blame(broken("message 0, part 0", ours, ours), ["one"])
