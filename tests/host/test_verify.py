"""`opencode-memory verify` on the real host: nothing wrong, and each of three bad plugins."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from . import opencode
from .trap import Trap

TIME_IN_SYSTEM = """
export default { id: "clock", server: async () => ({
  "experimental.chat.system.transform": async (_, output) => {
    output.system.push(`The time is ${new Date().toISOString()} and ${performance.now()}.`);
  },
}) };
"""
REWRITES_MESSAGE_3 = """
let count = 0;
export default { id: "rewriter", server: async () => ({
  "experimental.chat.messages.transform": async (_, { messages }) => {
    const part = messages.filter((message) => message.info.role === "assistant")[1]?.parts
      .find((part) => part.type === "text");
    if (part) part.text += ` (seen ${++count} times)`;
  },
}) };
"""
ADDS_A_TOOL = """
let count = 0;
const tool = {};
const another = () => {
  tool[`extra_${++count}`] = { description: "One more.", args: {}, execute: async () => "done" };
};
export default { id: "toolmaker", server: async ({ client }) => ({
  tool,
  "experimental.chat.messages.transform": async () => another(),
  "tool.definition": async ({ toolID }, output) => {
    if (toolID === "bash") output.description += ` (there are ${count} more)`;
  },
}) };
"""
HARMLESS = """
export default { id: "harmless", server: async () => ({
  "experimental.chat.messages.transform": async () => {},
}) };
"""


@pytest.fixture
def trap() -> Iterator[Trap]:
    """A provider that nobody may call."""
    trap = Trap()
    yield trap
    trap.close()


@pytest.fixture
def user(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trap: Trap) -> Path:
    """A user's home with OpenCode, the plugin, blocks, sessions and providers; returns it."""
    if not opencode.binary().exists():
        missing = "no OpenCode; run `npm ci`"
        (pytest.fail if os.environ.get("REQUIRE_OPENCODE") == "1" else pytest.skip)(missing)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/opencode").symlink_to(opencode.binary())
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    config = home / ".config/opencode"
    (config / "plugins").mkdir(parents=True)
    opencode.seed_modules(config)
    model = {"name": "M", "tool_call": True}
    provider = {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": f"{trap.url}v1"}}
    settings = {
        "model": "mine/m",
        "small_model": "mine/m",
        "provider": {"mine": {**provider, "models": {"m": model}}},
        "agent": {"title": {"model": "mine/m"}, "build": {"model": "mine/m"}},
        "mcp": {"mine": {"type": "remote", "url": trap.url}},
    }
    text = f"// mine\n{json.dumps(settings)[:-1]},}} /* end */\n"
    (config / "opencode.jsonc").write_text(text)
    (config / "memory").mkdir()
    (config / "memory/human.md").write_text("Prefers short answers.\n")
    data = home / ".local/share/opencode"
    data.mkdir(parents=True)
    (data / "auth.json").write_text(json.dumps({"mine": {"type": "api", "key": "sk-secret"}}))
    _command("install")
    return home


def _command(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "sidecar", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def verify(*arguments: str, code: int) -> dict[str, Any]:
    done = _command("verify", "--json", *arguments)
    assert done.returncode == code, done.stdout + done.stderr
    data: dict[str, Any] = json.loads(done.stdout)["data"]
    return data


def fingerprint(folder: Path) -> dict[str, str]:
    """Every file below, without what the host's own `--version` makes."""
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and "opencode/log" not in str(file) and ".cache" not in file.parts
    }


@pytest.mark.timeout(320)
def test_the_stock_host_has_no_unexpected_break_and_the_user_is_left_alone(
    user: Path, trap: Trap
) -> None:
    before = fingerprint(user)
    data = verify("--compare", code=0)
    assert data["unexpected"] == 0
    assert data["culprit"] is None
    assert data["plugins"] == []
    steps = {request["step"]: request for request in data["requests"]}
    assert list(steps)[-1] == "in a fork"
    assert steps["after a compaction"]["difference"]["place"] == "message 0, part 0"
    assert [r["step"] for r in data["requests"] if r["difference"]] == ["after a compaction"]
    with_memory, without = data["prices"]["with memory"], data["prices"]["without memory"]
    assert with_memory["requests"] == without["requests"]
    assert 0 < with_memory["not cached"] - without["not cached"] < 5_000
    assert fingerprint(user) == before
    assert trap.asked == []


@pytest.mark.timeout(320)
@pytest.mark.parametrize(
    ("name", "source", "place"),
    [
        ("clock", TIME_IN_SYSTEM, "system"),
        ("rewriter", REWRITES_MESSAGE_3, "message"),
        ("toolmaker", ADDS_A_TOOL, "tools"),
    ],
)
def test_a_bad_plugin_is_named_with_the_place(
    name: str, source: str, place: str, user: Path, trap: Trap
) -> None:
    plugins = user / ".config/opencode/plugins"
    (plugins / f"{name}.js").write_text(source)
    if name == "clock":  # one case with a plugin that is not to blame: it costs one run more
        (plugins / "harmless.js").write_text(HARMLESS)
    data = verify(code=1)
    assert data["unexpected"] > 0
    assert data["culprit"].startswith(f"the plugin {name}:")
    broken = [r for r in data["requests"] if r["difference"] and not r["expected"]]
    assert broken[0]["difference"]["place"].startswith(place)
    assert trap.asked == []
