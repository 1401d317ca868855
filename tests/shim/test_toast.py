"""What the user has to act on shows in the terminal UI: once, and nothing else does."""

from __future__ import annotations

import pytest

from .history import user
from .stub import TEXT, error, whole

OTHERS = [
    "opencode-agent-memory",
    "opencode-agent-memory@0.2.0",
    ["opencode-agent-memory@latest", {}],
    ["opencode-agent-memory", {}],
    "file:///home/me/.config/opencode/plugins/opencode-agent-memory.ts",
    "file:///home/me/node_modules/opencode-agent-memory/dist/index.js",
]
NOT_THE_OTHER = [
    "opencode-agent-memory-notes",
    "my-opencode-agent-memory",
    "file:///home/me/opencode-agent-memory/.opencode/plugins/opencode-memory.js",
    "file:///home/me/.config/opencode/plugins/opencode-memory.js",
    7,
    None,
]


@pytest.mark.parametrize("other", OTHERS, ids=str)
def test_the_other_memory_plugin_is_told_of_once_in_a_process(shim, sidecar, other):
    plugins = ["something-else", other]
    for _ in range(2):
        shim.hook("config", input={"plugin": plugins})
    shim.load("second", directory="/elsewhere")
    shim.hook("config", input={"plugin": plugins}, instance="second")

    (line,) = shim.logs() + shim.logs("second")
    assert "opencode-agent-memory is loaded beside this plugin" in line
    assert shim.toasts() + shim.toasts("second") == [line]


def test_no_other_plugin_is_taken_for_it(shim, sidecar):
    shim.hook("config", input={"plugin": NOT_THE_OTHER})
    shim.hook("config", input={})

    assert shim.logs() == []


def test_one_toast_shows_however_much_goes_wrong(shim, sidecar):
    sidecar.answer = whole(error("501 Not Implemented", "Run `opencode-memory install`."))
    shim.transform([user()])
    shim.hook("config", input={"plugin": ["opencode-agent-memory"]})

    assert len(shim.logs()) == 2
    assert shim.toasts() == shim.logs()[:1]


def test_what_mends_itself_shows_none(shim, sidecar):
    sidecar.answer = whole(error("500 Internal Server Error", "Torn."))
    shim.transform([user()])
    sidecar.answer = whole()

    assert shim.transform([user()])["messages"][0]["parts"][0]["text"] == TEXT
    assert len(shim.logs()) == 3  # the refusal, the recovery, and what it has cost
    assert shim.toasts() == []


def test_a_sidecar_that_nothing_can_start_shows_one(shim):
    shim.transform([user()])

    (line,) = shim.toasts()
    assert "opencode-memory start" in line


@pytest.mark.parametrize("client", ["throwing", "rejecting"])
def test_a_client_that_fails_costs_nothing(start_shim, client):
    shim = start_shim(client=client)

    assert shim.transform([user()])["messages"] == [user()]
