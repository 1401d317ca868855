"""Drives the real OpenCode: a sandboxed home, `opencode serve`, and its HTTP interface."""

from __future__ import annotations

import json
import os
import re
import subprocess
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..process import Child, until

if TYPE_CHECKING:
    from sidecar.verify.recorder import Recorder

ROOT = Path(__file__).parents[2]
VERSION = "1.18.33"
CONTEXT_LIMIT = 100_000
PROVIDERS = {"stub": "@ai-sdk/openai-compatible", "stub-anthropic": "@ai-sdk/anthropic"}
"""One for each wire form, with the package that speaks it. Each has two models, `stub` and `other`.

Their names are in no catalogue: of a provider that it knows, the host takes other models as well.
"""


_CHOSEN = os.environ.get("OPENCODE_BINARY")
"""Read before a test's sandbox takes it away."""


def binary() -> Path:
    """The host from npm. It need not be there: see `conftest.py`."""
    return Path(_CHOSEN or ROOT / "node_modules/opencode-linux-x64/bin/opencode")


class Home:
    """A user's home with OpenCode configured for the recorder; nothing leaks in from outside."""

    def __init__(self, path: Path, runtime: Path, recorder: Recorder) -> None:
        self.path = path
        self.config = path / ".config/opencode"
        self.data = path / ".local/share/opencode"
        self.runtime = runtime
        self.extra: dict[str, str] = {}
        """Further variables of this user."""
        self.plugins = self.config / "plugins"
        self.plugins.mkdir(parents=True)
        seed_modules(self.config)
        (self.config / "opencode.json").write_text(json.dumps(_settings(recorder)))

    @property
    def env(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.path),
            "XDG_CONFIG_HOME": str(self.path / ".config"),
            "XDG_DATA_HOME": str(self.path / ".local/share"),
            "XDG_STATE_HOME": str(self.path / ".local/state"),
            "XDG_CACHE_HOME": str(self.path / ".cache"),
            "XDG_RUNTIME_DIR": str(self.runtime),
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            **self.extra,
        }

    def make_project(self, directory: Path) -> None:
        """A repository with one commit of its own: the host names a project after its first."""
        self.make_folder(directory)
        author = ["-c", "user.name=Test", "-c", "user.email=test@localhost"]
        commit = [*author, "commit", "--quiet", "--allow-empty", "--message", str(directory)]
        for command in (["init", "--quiet"], commit):
            self._git(directory, *command)

    def make_worktree(self, project: Path, directory: Path) -> None:
        """A second working tree of the same repository."""
        self._git(project, "worktree", "add", "--quiet", "--detach", str(directory))
        self.make_folder(directory)

    def make_folder(self, directory: Path) -> None:
        """A directory that is no repository."""
        directory.mkdir(parents=True, exist_ok=True)
        seed_modules(directory / ".opencode")

    def _git(self, directory: Path, *command: str) -> None:
        subprocess.run(["git", *command], cwd=directory, env=self.env, check=True, timeout=20)


def seed_modules(directory: Path) -> None:
    """What an earlier npm install leaves in a config directory: with it the host installs nothing.

    Without, loading any plugin waits for the registry, for minutes where there is none.
    """
    dependencies = {"dependencies": {"@opencode-ai/plugin": VERSION}}
    lock = {"lockfileVersion": 3, "packages": {"": dependencies}}
    (directory / "node_modules").mkdir(parents=True)
    (directory / "package.json").write_text(json.dumps(dependencies))
    (directory / "package-lock.json").write_text(json.dumps(lock))


def _settings(recorder: Recorder) -> dict[str, Any]:
    stub = {"name": "Stub", "tool_call": True, "limit": {"context": CONTEXT_LIMIT, "output": 8_000}}
    models = {"stub": stub, "other": stub}
    options = {"baseURL": recorder.url, "apiKey": "none"}
    return {
        "model": "stub/stub",
        "permission": {"*": "allow"},
        "provider": {
            name: {"npm": package, "name": name, "options": options, "models": models}
            for name, package in PROVIDERS.items()
        },
    }


class Refused(AssertionError):
    """The host answered with an error."""


class OpenCode:
    """One `opencode serve` on a free port. Sessions of several directories can live in it."""

    def __init__(self, home: Home, directory: Path) -> None:
        self.home = home
        self.directory = directory
        # With port 0 the host binds a free port itself and says which.
        self._child = Child(
            [str(binary()), "serve", "--port", "0", "--print-logs"],
            _env(home, directory),
            directory,
            home.path / "opencode.log",
        )
        self._port = int(until(self._listening, f"OpenCode to listen: {self._child.log}")[1])

    def _listening(self) -> re.Match[str] | None:
        assert self._child.alive(), f"OpenCode ended: {self._child.output()}"
        return re.search(r"listening on http://127\.0\.0\.1:(\d+)", self._child.output())

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def alive(self) -> bool:
        return self._child.alive()

    def log(self) -> str:
        return self._child.output()

    def kill(self) -> None:
        self._child.kill()

    def end(self) -> None:
        self._child.end()

    def create_session(self, directory: Path, title: str = "", parent: str = "") -> str:
        """With a title the host asks the model for none; with a parent it is a subagent's."""
        body = {"title": title, "parentID": parent}
        given = {name: value for name, value in body.items() if value}
        return self._call("POST", "/session", directory, given)["id"]

    def prompt(
        self, session: str, directory: Path, text: str, provider: str, agent: str = "build"
    ) -> dict[str, Any]:
        """Blocks until the agent's turn is over."""
        parts = [{"type": "text", "text": text}]
        body = {"parts": parts, "model": _model(provider), "agent": agent}
        return self._call("POST", f"/session/{session}/message", directory, body)

    def prompt_async(self, session: str, directory: Path, text: str, provider: str) -> None:
        body = {"parts": [{"type": "text", "text": text}], "model": _model(provider)}
        self._call("POST", f"/session/{session}/prompt_async", directory, body)

    def summarize(self, session: str, directory: Path, provider: str) -> None:
        self._call("POST", f"/session/{session}/summarize", directory, _model(provider))

    def fork(self, session: str, directory: Path, before: str = "") -> str:
        """The copy's id; with `before`, the copy ends ahead of that message."""
        body = {"messageID": before} if before else {}
        return self._call("POST", f"/session/{session}/fork", directory, body)["id"]

    def revert(self, session: str, directory: Path, message: str) -> None:
        self._call("POST", f"/session/{session}/revert", directory, {"messageID": message})

    def unrevert(self, session: str, directory: Path) -> None:
        self._call("POST", f"/session/{session}/unrevert", directory, {})

    def abort(self, session: str, directory: Path) -> None:
        self._call("POST", f"/session/{session}/abort", directory, {})

    def dispose(self, directory: Path) -> None:
        """Ends the plugins' instances of this directory; it waits for them."""
        self._call("POST", "/instance/dispose", directory, {})

    def messages(self, session: str, directory: Path) -> list[dict[str, Any]]:
        return self._call("GET", f"/session/{session}/message", directory)

    def delete_message(self, session: str, directory: Path, message: str) -> None:
        self._call("DELETE", f"/session/{session}/message/{message}", directory)

    def delete(self, session: str, directory: Path) -> None:
        self._call("DELETE", f"/session/{session}", directory)

    def _call(self, method: str, path: str, directory: Path, body: object = None) -> Any:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            data = None if body is None else json.dumps(body)
            headers = {"content-type": "application/json", "x-opencode-directory": str(directory)}
            connection.request(method, path, data, headers)
            response = connection.getresponse()
            answer = response.read()
        finally:
            connection.close()
        if response.status >= 300:
            raise Refused(f"{method} {path}: {response.status} {answer.decode()}\n{self.log()}")
        return json.loads(answer) if answer else None


def run(home: Home, directory: Path, *arguments: str) -> str:
    """`opencode` with these arguments, in its own process, until it ends."""
    done = subprocess.run(
        [binary(), *arguments],
        env=_env(home, directory),
        cwd=directory,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, f"opencode {arguments}: {done.stdout}\n{done.stderr}"
    return done.stdout


def _env(home: Home, directory: Path) -> dict[str, str]:
    # The host believes PWD, and makes a second instance where it differs from the directory.
    return {**home.env, "PWD": str(directory)}


def _model(name: str) -> dict[str, str]:
    """`stub` is the first model of that provider, `stub/other` the other one."""
    provider, _, model = name.partition("/")
    return {"providerID": provider, "modelID": model or "stub"}
