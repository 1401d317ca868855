"""The shim, run by the host's own runtime and by Node, against a sidecar that the test makes."""

from __future__ import annotations

import json
import os
import queue
import shutil
import socket
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .history import inserted, user
from .stub import TOKEN, Sidecar, publish

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[2]
SHIM = ROOT / "plugin-shim" / "opencode-memory.js"
DRIVER = Path(__file__).with_name("driver.mjs")
TRANSFORM = "experimental.chat.messages.transform"


def runtime_command(name: str) -> list[str]:
    """How this runtime runs a script."""
    found = shutil.which("node")
    if name == "bun":
        hosts = ROOT.glob("node_modules/opencode-*/bin/opencode*")
        found = next((str(host) for host in sorted(hosts)), None)
    if found is None:
        message = f"{name} is not installed; run `npm ci`"
        (pytest.fail if os.environ.get("REQUIRE_OPENCODE") == "1" else pytest.skip)(message)
    return [found, "run"] if name == "bun" else [found]


@pytest.fixture(params=["bun", "node"])
def runtime(request: pytest.FixtureRequest) -> list[str]:
    return runtime_command(request.param)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path


@pytest.fixture
def env(home: Path) -> dict[str, str]:
    """Nothing of the developer's own reaches the child."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / "config"),
        "XDG_DATA_HOME": str(home / "data"),
        "XDG_CACHE_HOME": str(home / "cache"),
        "XDG_STATE_HOME": str(home / "state"),
        "BUN_BE_BUN": "1",
    }


class Driver:
    """A script that takes commands as JSON lines and answers each with one."""

    def __init__(self, command: list[str], script: Path, env: dict[str, str], cwd: Path) -> None:
        self.directory = str(cwd)
        self.errors = ""
        """What it wrote to stderr, once it has ended."""
        self.process = subprocess.Popen(
            [*command, str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=env,
            cwd=cwd,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def send(self, command: str, **arguments: Any) -> Any:
        self.process.stdin.write(json.dumps({"command": command, **arguments}) + "\n")
        self.process.stdin.flush()
        line = self._lines.get(timeout=20)
        assert line, f"the driver ended: {self.process.stderr.read()}"
        answer = json.loads(line)
        assert "broken" not in answer, answer
        return answer

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)
        self._reader.join(10)
        if not self.process.stderr.closed:
            self.errors = self.process.stderr.read()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            pipe.close()

    def _read(self) -> None:
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put("")


class Shim(Driver):
    """The shim in a process of its own, with one plugin instance to begin with."""

    def __init__(self, command: list[str], env: dict[str, str], cwd: Path, client: str) -> None:
        super().__init__(command, DRIVER, env, cwd)
        self.loaded = self.load("first", client=client)

    def load(self, instance: str, query: str = "", **options: Any) -> dict[str, Any]:
        options = {"directory": self.directory, **options}
        return self.send("load", instance=instance, url=SHIM.as_uri() + query, **options)

    def hook(self, name: str, instance: str = "first", **arguments: Any) -> dict[str, Any]:
        result = self.send("hook", instance=instance, name=name, **arguments)
        assert result["threw"] is None
        return result

    def transform(self, messages: list[dict], **options: Any) -> dict[str, Any]:
        return self.hook(TRANSFORM, output={"messages": messages}, **options)

    def transform_together(self, sessions: list[str]) -> list[dict[str, Any]]:
        calls = [
            {
                "instance": "first",
                "name": TRANSFORM,
                "output": {"messages": [user(session=session)]},
            }
            for session in sessions
        ]
        return self.send("together", calls=calls)

    def event(self, kind: str, **properties: Any) -> dict[str, Any]:
        return self.hook("event", input={"event": {"type": kind, "properties": properties}})

    def logs(self, instance: str = "first") -> list[str]:
        return [entry["message"] for entry in self.send("logs", instance=instance)["logs"]]

    def toasts(self, instance: str = "first") -> list[str]:
        return [toast["message"] for toast in self.send("toasts", instance=instance)["toasts"]]

    def close(self) -> int:
        """Ends its input; it has to end by itself."""
        self.process.stdin.close()
        return self.process.wait(10)


def transform_in_many(count: int, env: dict[str, str], cwd: Path) -> set[str | None]:
    """The texts that so many shims, each in a process of its own, insert when asked at once."""
    shims = [Shim(runtime_command("node"), env, cwd, "working") for _ in range(count)]
    hook = {"command": "hook", "instance": "first", "name": TRANSFORM}
    line = json.dumps({**hook, "output": {"messages": [user()]}})
    try:
        for shim in shims:
            shim.process.stdin.write(line + "\n")
            shim.process.stdin.flush()
        return {inserted(json.loads(shim._lines.get(timeout=30))) for shim in shims}
    finally:
        for shim in shims:
            shim.end()


@pytest.fixture
def start_shim(
    runtime: list[str], env: dict[str, str], home: Path
) -> Iterator[Callable[..., Shim]]:
    started: list[Shim] = []

    def start(client: str = "working", **more: str) -> Shim:
        started.append(Shim(runtime, {**env, **more}, home / "work", client))
        return started[-1]

    yield start
    for shim in started:
        shim.end()


@pytest.fixture
def shim(start_shim: Callable[..., Shim]) -> Shim:
    return start_shim()


@pytest.fixture
def start_sidecar(home: Path) -> Iterator[Callable[..., Sidecar]]:
    # A socket's path has room for some 100 bytes; tmp_path may be longer.
    folder = Path(tempfile.mkdtemp(prefix="ocm-"))
    started: list[Sidecar] = []

    def start(kind: str = "unix") -> Sidecar:
        if kind == "unix":
            path = folder / f"{len(started)}.sock"
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(str(path))
            where: dict[str, object] = {"socket": str(path)}
        else:
            listener = socket.create_server(("127.0.0.1", 0))
            port = listener.getsockname()[1]
            where = {"host": "127.0.0.1", "port": port, "token": TOKEN}
        listener.listen(64)
        started.append(Sidecar(listener))
        publish(home, **where)
        return started[-1]

    yield start
    for sidecar in started:
        sidecar.stop()
    shutil.rmtree(folder)


@pytest.fixture
def sidecar(start_sidecar: Callable[..., Sidecar]) -> Sidecar:
    return start_sidecar()
