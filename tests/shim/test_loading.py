"""The file as a host finds it: alone, in a directory without packages."""

from __future__ import annotations

import json
import shutil
import subprocess

from sidecar import __version__

from .conftest import SHIM
from .history import user

# What OpenCode 1.18 gives to `setup`, which is not meant for it.
PARTIAL_1X = {
    key: {}
    for key in (
        "options",
        "agent",
        "aisdk",
        "catalog",
        "command",
        "integration",
        "plugin",
        "reference",
        "skill",
    )
}


def test_it_loads_alone_with_one_default_export(runtime, env, home):
    shutil.copy(SHIM, home / "work" / SHIM.name)
    script = home / "work" / "load.mjs"
    script.write_text(
        f'const module = await import("./{SHIM.name}");\n'
        "const { id, server, setup } = module.default;\n"
        "console.log(JSON.stringify([Object.keys(module), id, typeof server, typeof setup]));\n"
    )

    done = subprocess.run(
        [*runtime, str(script)],
        env=env,
        cwd=home / "work",
        capture_output=True,
        timeout=20,
        check=True,
    )

    assert json.loads(done.stdout) == [["default"], "opencode-memory", "function", "function"]


def test_its_first_line_says_whose_it_is():
    assert "opencode-memory-sidecar" in SHIM.read_text(encoding="utf-8").split("\n")[0]


def test_it_knows_the_version_that_it_comes_with():
    assert f'const VERSION = "{__version__}";' in SHIM.read_text(encoding="utf-8")


def test_setup_returns_at_once_in_a_context_that_is_not_2x(shim):
    url = SHIM.as_uri()

    for context in ({}, None, PARTIAL_1X, {"session": {}, "tool": {}}):
        assert shim.send("setup", url=url, context=context) == {}


def test_it_loads_and_answers_without_a_sidecar_or_a_home(start_shim):
    shim = start_shim(HOME="/nonexistent", XDG_DATA_HOME="", XDG_CONFIG_HOME="")

    assert shim.transform([user()])["messages"] == [user()]
    assert len(shim.logs()) == 1


def test_a_hook_called_in_the_wrong_form_neither_throws_nor_floods_the_log(shim):
    for _ in range(3):
        for name in ("experimental.chat.messages.transform", "event", "chat.params"):
            shim.hook(name, input=None, output={})

    assert len(shim.logs()) == 3
